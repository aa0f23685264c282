"""The threads that call a listener, and the tasks that wait for them.

    workers = Workers("billing", 20); workers.submit(function); workers.close(until)

A task is a function without arguments; nobody waits for its end, so that it costs a place in a
queue and nothing else. Threads are started one by one as tasks come, up to the number; one that
has started stays.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

log = logging.getLogger("rmq.client")

Task = Callable[[], object]


class Workers:
    """Any thread may submit."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self.count = count  # may be raised at any time
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.closed = False

    def submit(self, task: Task) -> None:
        """Runs it in one of the threads; forgotten when the workers are closed."""
        self._tasks.put(task)
        if len(self._threads) < self.count:
            self._start_one()

    def _start_one(self) -> None:
        with self._lock:
            if self.closed or len(self._threads) >= self.count:
                return
            name = f"rmq-consume-{self._name[:100]}-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException:  # SystemExit, too, must not end the thread
                log.exception("a task of %s", self._name)

    def close(self, tasks_until: float, calls_until: float) -> bool:
        """Tasks that wait are begun until the first time (monotonic), those that run are waited
        for until the second; whether all threads have ended. The caller's own is left out."""
        while not self._tasks.empty() and time.monotonic() < tasks_until:
            time.sleep(0.002)
        with self._lock:
            self.closed = True
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            pass
        for _ in self._threads:
            self._tasks.put(None)
        others = [each for each in self._threads if each is not threading.current_thread()]
        for thread in others:
            thread.join(max(calls_until - time.monotonic(), 0))
        return not any(each.is_alive() for each in others)
