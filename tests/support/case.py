"""Case: one of many in a loop, named when it raises, as by pytest where each is a test.

for code in CODES:
    with case(code):
        assert answer(code) == 0
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: object) -> Iterator[None]:
    """The error is the cause of the failure: not all kinds say what is put into their args."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
