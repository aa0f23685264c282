"""DeferredCompletions: callbacks of asynchronous sends that never got under way; a thread of the
client calls them.

    ends = DeferredCompletions(producer)
    ends.tell_soon(end)                        # end() is called, which raises nothing
    len(ends)                                  # how many wait or are being called
    ends.close()                               # calls those that still wait

The thread that sends must not call its own callback: it may hold a lock that the callback needs,
and a callback that sends again would be called from within itself. However many callbacks wait
here, none waits for a route, for a pause or for a send that is tried again (delayed_retries.py).
After the producer has ended, tell_soon calls them at once.

Example: with TLS the broker of a chosen queue refuses connections. `send_async` returns, and its
callback is called a moment later, even if no name server answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rmq.client.producer.base import ProducerBase
from rmq.errors import ClosedError

End = Callable[[], object]


class DeferredCompletions:
    """The deferred callbacks of one producer; any thread may use it."""

    def __init__(self, producer: ProducerBase) -> None:
        self._producer = producer
        self._lock = threading.Lock()
        self._waiting: list[End] = []
        self._running = 0  # taken out of the list, not yet called
        self._is_closed = False

    def __len__(self) -> int:
        with self._lock:  # else one that moves from waiting to running might be missed
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
