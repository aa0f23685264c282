"""Held signals: Ctrl-C, and signals that end a command like it, are not handled within a block.

    with held_signals():
        event.set()                 a signal is handled after the block: KeyboardInterrupt, or ..

    with noted_signals() as noted:
        ..                          runs to its end, unless a third signal comes: that one raises
    noted.came                      KeyboardInterrupt, which ends a block that is stuck

An exception between the taking of a lock and the `with` that gives it back leaves the lock taken.
Event and Condition are written in Python, so this can happen in them, and the next thread that sets
the Event would wait forever. So a block that uses an object which is used again after a Ctrl-C must
hold signals. A long wait must not be in such a block.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOTED_MAX = 2


@dataclass
class Noted:
    numbers: list[int] = field(default_factory=list)  # in the order they came

    @property
    def came(self) -> bool:
        return bool(self.numbers)


@contextmanager
def noted_signals() -> Iterator[Noted]:
    """For the main thread: Python runs handlers in no other thread. Signals whose handler is not in
    Python (they are ignored, or end the process) keep it."""
    noted = Noted()

    def note(number: int, _: object) -> None:
        noted.numbers.append(number)
        if len(noted.numbers) > NOTED_MAX:
            raise KeyboardInterrupt

    with ExitStack() as before:  # sets all handlers back, also if a signal comes in between
        for number in NUMBERS:
            if callable(handler := signal.getsignal(number)):
                before.callback(signal.signal, number, handler)
                signal.signal(number, note)
        yield noted


@contextmanager
def held_signals() -> Iterator[None]:
    """The first signal that came within the block is handled after it, by its usual handler."""
    with noted_signals() as noted:
        yield
    if noted.came:
        signal.raise_signal(noted.numbers[0])
