"""Patience: a word to whoever waits for a server that accepts connections and says nothing.

    say_by(print)                   from now on; None: nothing is said
    with awaited("10.0.0.5:9876"):  connected, and asked for the first time

Once for each address, after AFTER_S, by a thread that is there for who said say_by() alone: the
command line at a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

AFTER_S = 1.0


class _Said:
    say: Callable[[str], object] | None = None
    addresses: set[str] = set()  # noqa: RUF012


def say_by(say: Callable[[str], object] | None) -> None:
    _Said.say = say
    _Said.addresses.clear()


@contextmanager
def awaited(address: str) -> Iterator[None]:
    """In the block this address has still to say something."""
    if _Said.say is None or address in _Said.addresses:
        yield
        return
    from threading import Timer

    timer = Timer(AFTER_S, _tell, (address,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(address: str) -> None:
    say = _Said.say
    if say is not None and address not in _Said.addresses:
        _Said.addresses.add(address)
        say(f"{address} has not answered for {AFTER_S:g} s; waiting for it")
