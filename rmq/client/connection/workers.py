"""Workers: a few threads, and the tasks that wait for them: calls of a listener, or chores.

    workers = Workers("consume-billing", 20); workers.submit(function)
    workers.drain(until, thread); workers.close(until, thread)

A task is a function without arguments. Nobody waits for its end, so it costs nothing but a place in
a queue. Threads are started one by one as tasks come, up to `count`, and stay.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from rmq.base import clock, waits

log = logging.getLogger("rmq.client")

Task = Callable[[], object]


class Workers:
    """The threads and their tasks; any thread may submit."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self.count = count  # may be raised at any time
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy: set[int] = set()  # idents of threads at work
        self._lock = threading.Lock()
        self.closed = False

    def submit(self, task: Task) -> None:
        """Runs the task in one of the threads; it is forgotten if the workers are closed before."""
        self._tasks.put(task)
        if len(self._threads) < self.count:
            self._start_one()

    def _start_one(self) -> None:
        with self._lock:
            if self.closed or len(self._threads) >= self.count:
                return
            name = f"rmq-{self._name[:100]}-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the next task tries again
                if not self._threads:
                    log.error("no thread for %s: %s", self._name, error)
                return
            self._threads.append(thread)

    def _run(self) -> None:
        own = threading.get_ident()
        while (task := self._tasks.get()) is not None:
            # After close no waiting task is run, because others before it may have been forgotten:
            # messages behind one that was not consumed are delivered again in any case.
            if self.closed:
                continue
            self._busy.add(own)
            try:
                task()
            except BaseException:  # SystemExit, too, must not end the thread
                log.exception("a task of %s", self._name)
            self._busy.discard(own)

    def drain(self, until: float, own: threading.Thread) -> None:
        """Waits until no task waits or runs, except one in the thread `own`; at most until that
        time (monotonic)."""
        idents = {own.ident}
        waits.until(lambda: self._tasks.empty() and self._busy <= idents, until)

    def close(self, until: float, own: threading.Thread) -> bool:
        """Forgets the tasks that wait, and waits for those that run, at most until that time
        (monotonic). Returns whether all threads have ended, the thread `own` left out."""
        with self._lock:
            self.closed = True
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            pass
        for _ in self._threads:
            self._tasks.put(None)
        others = [each for each in self._threads if each is not own]
        for thread in others:
            waits.join(thread, max(until - clock.monotonic(), 0))
        return not any(each.is_alive() for each in others)
