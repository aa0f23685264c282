"""Goal: a reactor that takes no turns is said, and ended; one that goes on, or waits for a disk, is
not.

Method: looks at an in-memory core. When a process is stopped nobody looks, so that costs nothing.
Cannot prove: that a real one is seen and started again (tests/fault/test_stuck_reactor.py).
"""

from __future__ import annotations

import logging

import pytest
from support.fake_core import FakeCore

from rmq.broker.reactor_watch import SLOW_S, ReactorWatch
from rmq.system.threads import Thread

LIMIT_S = 20


class Stage:
    def __init__(self) -> None:
        self.core = FakeCore()
        self.thread: Thread | None = Thread("S", "futex_do_wait")
        self.ended: list[str] = []
        self.watch = ReactorWatch(self.core, LIMIT_S, lambda: self.thread)
        self.watch.end = self.ended.append
        self.watch.look()

    def looks(self, count: int) -> None:
        for _ in range(count):
            self.watch.look()


def test_one_that_takes_turns_is_neither_slow_nor_stuck(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.looks(100)
    assert (stage.watch.standing_s, stage.ended, caplog.text) == (0, [], "")


def test_one_that_stands_is_said_with_its_step_and_ended(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.core.stands = True
    stage.looks(SLOW_S)
    assert stage.watch.is_slow and not stage.watch.is_stuck
    where = "in step write: its thread sleeps (futex_do_wait)"
    assert f"no turn for {SLOW_S} s, {where}" in caplog.text
    stage.looks(LIMIT_S - SLOW_S - 1)
    assert stage.ended == [] and not stage.watch.is_stuck
    stage.looks(1)
    assert stage.ended == [f"stuck: the reactor has taken no turn for {LIMIT_S} s, {where}"]
    assert caplog.text.count("no turn") == 1, "whoever ends it says so"


def test_one_that_goes_on_in_time_is_not_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stage = Stage()
    for _ in range(3):
        stage.core.stands = True
        stage.looks(LIMIT_S - 1)
        stage.core.stands = False
        stage.looks(1)
    assert (stage.ended, stage.watch.standing_s) == ([], 0)
    assert caplog.text.count(f"goes on: it took no turn for {LIMIT_S - 1} s") == 3


def test_one_that_waits_for_a_disk_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread("D", "folio_wait_bit")
    stage.looks(LIMIT_S)
    stage.thread = Thread("R")  # between two calls of one turn
    stage.looks(3)
    stage.thread = Thread("D")
    stage.looks(1000)
    assert stage.watch.is_stuck and stage.ended == []
    assert caplog.text.count("waits for a disk (folio_wait_bit); it is left alone") == 1
    stage.core.stands = False
    stage.looks(1)
    assert not stage.watch.is_stuck


def test_one_that_has_waited_for_a_disk_and_loops_then_is_ended() -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread("D")
    stage.looks(LIMIT_S)
    stage.thread = Thread("R")
    stage.looks(LIMIT_S + 1)
    assert len(stage.ended) == 2  # each look until the process is gone
    assert "its thread runs" in stage.ended[0]


def test_a_thread_of_its_own_looks_until_it_is_stopped() -> None:
    stage = Stage()
    stage.watch.start()
    stage.watch.stop()
    assert stage.watch.standing_s == 0
