"""Ctrl-C at a chosen moment: before a line that threading.py runs, as of an Event or a Condition.

with ctrl_c_raises():                               # what pytest has it do is another thing
    with suppress(KeyboardInterrupt), at_line_of_threading(3) as struck:
        event.set()
    struck.came                                     # whether it had so many lines
can_be_taken(lock)                                  # by another thread
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Struck:
    came: bool = False


@contextmanager
def ctrl_c_raises(number: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """number: of a signal that is to be handled as Ctrl-C is."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def at_line_of_threading(wanted: int) -> Iterator[Struck]:
    """Before this one of those that the block runs, in this thread; from 1 on."""
    count, struck = 0, Struck()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != threading.__file__:
            return None
        if event == "line":
            count += 1
            if count == wanted:
                struck.came = True
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield struck
    finally:
        sys.settrace(before)


def can_be_taken(lock: Any) -> bool:
    """At once, by a thread that has not got it already."""
    taken = []

    def take() -> None:
        if lock.acquire(blocking=False):
            taken.append(True)
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(taken)
