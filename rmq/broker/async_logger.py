"""Async logger: log lines of a thread that must not wait for a log.

    async_log.say(log.warning, "the reactor goes on: ..")   returns at once
    async_log.wait(5.0)                                     true: all lines are written

A log line takes its handler's lock and goes to a file (rmqLogFile): while a disk does not answer,
both block. So a thread of this logger writes the lines, one after the other; it is a daemon, so
that the end of the process does not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

LogCall = tuple[Callable[..., object], tuple[object, ...]]


class AsyncLogger:
    """Owned by one thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[LogCall | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def say(self, how: Callable[..., object], *arguments: object) -> None:
        self._calls.put((how, arguments))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rmq-async-log", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        said = threading.Event()
        self.say(said.set)
        return said.wait(timeout_s)

    def stop(self) -> None:
        """Lets the thread end when all lines are written."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            how, arguments = call
            how(*arguments)
