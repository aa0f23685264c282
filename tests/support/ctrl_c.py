"""Ctrl-C: a SIGINT at a chosen moment, before a line of threading.py (of an Event, for example).

with ctrl_c_raises():                               # instead of what pytest does with it
    with suppress(KeyboardInterrupt), at_line_of_threading(3) as struck:
        event.set()
    struck.came                                     # whether the block ran so many lines
can_be_taken(lock)                                  # whether another thread can take it
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
    """Has Ctrl-C raise KeyboardInterrupt. number: another signal that must do so."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def at_line_of_threading(wanted: int) -> Iterator[Struck]:
    """Sends SIGINT before the line of this number, from 1 on, of those lines of threading.py that
    the block runs in this thread."""
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
    """Whether another thread can take the lock without waiting."""
    taken = []

    def take() -> None:
        if lock.acquire(blocking=False):
            taken.append(True)
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(taken)
