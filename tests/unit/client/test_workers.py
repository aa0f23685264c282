"""Tasks and the threads that run them."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import pytest
from support.waiting import HANG_S

from rmq.base import clock
from rmq.client.connection import workers as workers_module
from rmq.client.connection.workers import Workers


class SlowQueue(SimpleQueue):  # type: ignore[type-arg]
    """A queue of tasks in which a get_nowait() stops after taking the first task, until none is
    left for the threads."""

    def __init__(self) -> None:
        self.taken, self.passed = threading.Event(), threading.Event()
        self.between: Callable[[], None] = lambda: None

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        if self.taken.is_set() and self.empty():
            self.passed.set()
        return super().get()

    def get_nowait(self) -> object:
        if self.taken.is_set():
            raise Empty
        found = super().get(block=False)
        self.taken.set()
        self.between()
        assert self.passed.wait(HANG_S)
        return found


def test_when_one_task_is_forgotten_none_behind_it_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers_module, "SimpleQueue", SlowQueue)
    workers = Workers("test", 1)
    tasks = workers._tasks
    assert isinstance(tasks, SlowQueue)
    begun, gate = threading.Event(), threading.Event()
    ran: list[int] = []

    def first() -> None:
        begun.set()
        assert gate.wait(HANG_S)
        ran.append(0)

    workers.submit(first)
    assert begun.wait(HANG_S)
    for number in (1, 2, 3):
        workers.submit(lambda number=number: ran.append(number))  # type: ignore[misc]
    tasks.between = gate.set
    assert workers.close(clock.monotonic() + HANG_S, threading.current_thread())
    assert ran == [0]
