"""Interrupts: Ctrl-C, also when it comes where Python throws exceptions away.

    with Interrupts() as interrupts:
        while True:
            ..                      raises KeyboardInterrupt, as always
            interrupts.check()      raises it here, if it got lost before

An exception raised in a finalizer or in a callback of the garbage collector is printed and
forgotten, and the interpreter may be in one of those when the signal comes.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class Interrupts:
    """Used by the main thread."""

    def __init__(self) -> None:
        self._came = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt, once, if a Ctrl-C came since it was last raised here."""
        if self._came:
            self._came = False
            raise KeyboardInterrupt
