"""Signatures: what inspect and help() show of functions that take keywords as `**given`.

with_keywords(inspect.signature(write), [("topic", None, "str | None")])
                                    (data, *, topic: str | None = None) of (data, **given)
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import Parameter, Signature
from typing import Any


def with_keywords(declared: Signature, keywords: Iterable[tuple[str, Any, Any]]) -> Signature:
    """The signature with these keywords, each a name with its default and type, instead of
    `**given`. Parameters that are declared by name stay as they are."""
    kept = [each for each in declared.parameters.values() if each.kind is not each.VAR_KEYWORD]
    names = {each.name for each in kept}
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, default, kind in keywords if name not in names]  # fmt: skip
    return declared.replace(parameters=[*kept, *more])
