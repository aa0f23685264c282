"""Case: one of many cases in a loop, which is named when it fails, as pytest names a test.

for code in CODES:
    with case(code):
        assert answer(code) == 0
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: object) -> Iterator[None]:
    """Raises a failure with this name, caused by the error. (A name in the error's own args would
    not be shown for every kind of error.)"""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
