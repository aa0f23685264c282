"""DeferredCompletions: ends of asynchronous sends that never got under way, told by a thread of the
client.

    ends = DeferredCompletions(producer)
    ends.tell_soon(end)                        # end() is called, which raises nothing
    len(ends)                                  # that wait, or are told
    ends.close()                               # tells what still waits

Who sends does not call its own callback: it may hold a lock that the callback wants, and a callback
that sends again would be called by itself. However many wait, they wait for no route, for no pause
and for none that is tried again (delayed_retries.py). Once the producer has ended they are told
here.

Example: with TLS the broker of a chosen queue refuses connections. `send_async` returns, and its
callback is called a moment later, though no name server answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rmq.client.producer.base import ProducerBase
from rmq.errors import ClosedError

End = Callable[[], object]


class DeferredCompletions:
    """Of one producer; any thread."""

    def __init__(self, producer: ProducerBase) -> None:
        self._producer = producer
        self._lock = threading.Lock()
        self._waiting: list[End] = []
        self._running = 0  # taken out of the list, not yet told
        self._is_closed = False

    def __len__(self) -> int:
        with self._lock:  # none is missed that goes from one to the other
            return len(self._waiting) + self._running

    def tell_soon(self, end: End) -> None:
        try:
            timers = self._producer.instance.timers
        except ClosedError:
            end()
            return
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._waiting.append(end)
            is_first = len(self._waiting) == 1
        if is_closed:
            end()
        elif is_first:
            timers.after(0, self._tell_all, chore=True)

    def _tell_all(self) -> None:
        with self._lock:
            ends, self._waiting = self._waiting, []
            self._running += len(ends)
        for end in ends:
            end()
            with self._lock:
                self._running -= 1

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._tell_all()
