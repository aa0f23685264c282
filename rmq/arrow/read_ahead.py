"""Read ahead: several parts of a read at once, their batches in order.

    for batch in in_order([partial(read, part) for part in parts], threads=4): ...

Each thread takes the next part that no thread has begun, but no part that is further ahead than
there are threads. It waits while AHEAD batches of its part are not taken yet. So memory is bounded
by threads * AHEAD batches, and the order does not depend on which thread is faster. With threads=1
no thread is started: each batch is read when it is asked for. When the iterator is closed, each
thread ends after the batch that it is reading.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

AHEAD = 4

Part = Callable[[], Iterator[Any]]


def in_order(parts: Sequence[Part], threads: int) -> Iterator[Any]:
    """The batches of all parts, in their order. A part's error is raised behind its batches."""
    if threads <= 1 or len(parts) <= 1:
        for part in parts:
            yield from part()
        return
    ahead = _Ahead(parts, threads)
    try:
        for number in range(min(threads, len(parts))):
            threading.Thread(target=ahead.run, name=f"rmq-read-{number}", daemon=True).start()
        yield from ahead.taken()
    finally:
        ahead.end()


class _Ahead:
    """The batches that threads have read and that are not taken yet."""

    def __init__(self, parts: Sequence[Part], threads: int) -> None:
        self._parts = parts
        self._threads = threads
        self._taking = 0  # the part whose batches are being taken
        self._read: list[deque[Any]] = [deque() for _ in parts]
        self._done: list[BaseException | bool] = [False for _ in parts]
        self._begun = 0
        self._is_over = False
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)

    def run(self) -> None:
        """A thread's work."""
        while (number := self._begin()) is not None:
            done: BaseException | bool = True
            try:
                for batch in self._parts[number]():
                    if not self._give(number, batch):
                        return
            except BaseException as error:  # raised where the batches are taken
                done = error
            with self._lock:
                self._done[number] = done
                self._news.notify_all()

    def _begin(self) -> int | None:
        with self._lock:
            self._news.wait_for(lambda: self._is_over or self._begun < self._taking + self._threads)
            if self._is_over or self._begun == len(self._parts):
                return None
            self._begun += 1
            return self._begun - 1

    def _give(self, number: int, batch: Any) -> bool:
        """False: the iterator is closed, the batch is not wanted any more."""
        read = self._read[number]
        with self._lock:
            self._news.wait_for(lambda: self._is_over or len(read) < AHEAD)
            if self._is_over:
                return False
            read.append(batch)
            self._news.notify_all()
        return True

    def taken(self) -> Iterator[Any]:
        for number, read in enumerate(self._read):
            while True:
                with self._lock:
                    self._news.wait_for(partial(self._has_more, number))
                    if not read:
                        done = self._done[number]
                        self._taking = number + 1
                        self._news.notify_all()
                        break
                    batch = read.popleft()
                    self._news.notify_all()
                yield batch
            if isinstance(done, BaseException):
                raise done

    def _has_more(self, number: int) -> bool:
        return bool(self._read[number] or self._done[number])

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            self._news.notify_all()
