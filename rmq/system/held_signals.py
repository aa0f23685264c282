"""Held signals: Ctrl-C, and a kill that ends a command as it does, never come within a block.

    with held_signals():
        event.set()                 handled behind the block: KeyboardInterrupt, or whatever it is

    with noted_signals() as noted:
        ..                          done to its end
    noted.came                      the third one raises KeyboardInterrupt: what is stuck ends by it

An exception between the taking of a lock and the `with` that gives it back leaves it taken. Event
and Condition are written in Python, and the next who sets that Event waits forever. So whatever is
used again after a Ctrl-C is held; what waits long is not to be in such a block.
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
    """For the main thread: Python runs handlers in no other. Those whose handler is not in Python
    (ignored, or the end of the process) stay what they are."""
    noted = Noted()

    def note(number: int, _: object) -> None:
        noted.numbers.append(number)
        if len(noted.numbers) > NOTED_MAX:
            raise KeyboardInterrupt

    with ExitStack() as before:  # all of it is set back, also if one comes in between
        for number in NUMBERS:
            if callable(handler := signal.getsignal(number)):
                before.callback(signal.signal, number, handler)
                signal.signal(number, note)
        yield noted


@contextmanager
def held_signals() -> Iterator[None]:
    """The first one that came is handled as it would have been before."""
    with noted_signals() as noted:
        yield
    if noted.came:
        signal.raise_signal(noted.numbers[0])
