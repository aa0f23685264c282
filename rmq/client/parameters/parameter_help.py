"""Parameter help: shows the parameters of a class in its signature and its help().

    @documented(ProducerParameters)
    class Producer: ...

    inspect.signature(Producer)     (producer_group=None, *, parameters=None, namesrv_addr=None, ..)
    help(Producer)                  ends its first part with each parameter, default and meaning

Both are made when they are read, so that importing the class costs nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from rmq.base.signatures import with_keywords
from rmq.client.parameters.base import ClientParameters

C = TypeVar("C")
WIDTH = 88  # columns of a text; help() indents it further


def documented(of: type[ClientParameters]) -> Callable[[type[C]], type[C]]:
    def document(client: type[C]) -> type[C]:
        text, made = inspect.cleandoc(client.__doc__ or ""), _signature(client.__init__)
        shown: Any = client
        shown.__doc__ = _Asked(lambda: f"{text}\n\n{_list(of, made())}")
        shown.__signature__ = _Signature(client.__init__, lambda: _complete(made(), of))
        return client

    return document


class _Asked:
    """An attribute of a class that is made when it is read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: type) -> Any:
        return self._make()


class _Signature(_Asked):
    """The signature of the class; not of a subclass with an __init__ of its own."""

    def __init__(self, begin: object, make: Callable[[], Any]) -> None:
        super().__init__(make)
        self._begin = begin

    def __get__(self, instance: object, owner: type) -> Any:
        if owner.__init__ is not self._begin:  # type: ignore[misc]
            raise AttributeError("__signature__")
        return super().__get__(instance, owner)


def _signature(begin: Callable[..., Any]) -> Callable[[], inspect.Signature]:
    def made() -> inspect.Signature:
        found = inspect.signature(begin)
        return found.replace(parameters=list(found.parameters.values())[1:])  # without self

    return made


def _complete(declared: inspect.Signature, of: type[ClientParameters]) -> inspect.Signature:
    return with_keywords(
        declared, [(each.name, each.default, each.type) for each in dataclasses.fields(of)]
    )


def _keywords(
    of: type[ClientParameters], declared: inspect.Signature
) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(of) if each.name not in declared.parameters]


def _list(of: type[ClientParameters], declared: inspect.Signature) -> str:
    lines = ["Parameters, as keywords (times in ms, sizes in bytes, unless said otherwise):"]
    own = [each for each in _keywords(of, declared) if each.name not in COMMON]
    for each in own + [each for each in _keywords(of, declared) if each.name in COMMON]:
        lines += ["", f"  {each.name} = {each.default!r}"]
        lines += textwrap.wrap(
            each.metadata["text"], WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    return "\n".join(lines)


COMMON = frozenset(each.name for each in dataclasses.fields(ClientParameters))
