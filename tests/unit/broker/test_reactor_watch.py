"""Goal: a reactor that takes no turns is reported and ended. One that goes on, waits for a disk, is
held by a debugger or starved is not ended. The watch itself neither waits for the log nor outlives
its broker.

Method: looks at an in-memory core. Time in which the whole process is stopped does not count,
because nobody looks then. Not shown here: that a real stuck reactor is noticed and started again
(tests/fault/test_stuck_reactor.py).
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from support.fake_core import FakeCore
from support.name_server import in_loop

from rmq.broker.broker import Broker
from rmq.broker.reactor_watch import SLOW_S, ReactorWatch
from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.system.threads import Thread

LIMIT_S = 20
PATIENCE_S = 600.0  # longer than anybody waits on a machine that works


class Stage:
    def __init__(self, limit_s: int = LIMIT_S) -> None:
        self.core = FakeCore()
        self.thread: Thread | None = Thread("S", "futex_do_wait")
        self.ended: list[str] = []
        self.watch = ReactorWatch(self.core.reactor_turn, limit_s, lambda: self.thread)
        self.watch.end = self.ended.append
        self.watch.look()

    def looks(self, count: int) -> None:
        for _ in range(count):
            self.watch.look()

    def said(self) -> None:
        assert self.watch.async_log.wait(PATIENCE_S)

    def looks_while_it_loops(self, count: int) -> None:
        for ticks in range(1, count + 1):
            self.thread = Thread("R", "", ticks)
            self.watch.look()


def test_one_that_takes_turns_is_neither_slow_nor_stuck(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.looks(100)
    stage.said()
    assert (stage.watch.standing_s, stage.ended, caplog.text) == (0, [], "")


def test_one_that_stands_is_said_with_its_step_and_ended(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.core.stands = True
    stage.looks(SLOW_S)
    stage.said()
    assert stage.watch.is_slow and not stage.watch.is_stuck
    where = "in step write: its thread sleeps (futex_do_wait)"
    assert f"no turn for {SLOW_S} s, {where}" in caplog.text
    stage.looks(LIMIT_S - SLOW_S - 1)
    assert stage.ended == [] and not stage.watch.is_stuck
    stage.looks(1)
    assert stage.ended == [f"stuck: the reactor has taken no turn for {LIMIT_S} s, {where}"]
    stage.said()
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
    stage.said()
    assert caplog.text.count(f"goes on: it took no turn for {LIMIT_S - 1} s") == 3


@pytest.mark.parametrize("goes_on", [True, False])
def test_one_that_goes_on_before_the_watch_ends_is_said_to(
    caplog: pytest.LogCaptureFixture, goes_on: bool
) -> None:
    stage = Stage()
    stage.core.stands = True
    stage.looks(SLOW_S)
    stage.core.stands = not goes_on
    speaking = stage.watch.async_log._thread
    assert speaking is not None
    stage.watch.stop()
    speaking.join()
    assert ("goes on" in caplog.text) == goes_on


def test_one_that_waits_for_a_disk_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread("D", "folio_wait_bit")
    stage.looks(LIMIT_S)
    stage.looks_while_it_loops(3)  # a moment between two calls of the disk in one turn
    stage.thread = Thread("D")
    stage.looks(1000)
    assert stage.ended == []
    assert stage.watch.is_out and not stage.watch.is_stuck, "no reason to end it, for others either"
    stage.said()
    assert caplog.text.count("waits for a disk (folio_wait_bit); it is left alone") == 1
    stage.core.stands = False
    stage.looks(1)
    assert not stage.watch.is_out


def test_so_is_one_whose_disk_is_a_process_that_does_not_answer() -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread("S", "request_wait_answer")
    stage.looks(1000)
    assert stage.watch.is_out and stage.ended == []


def test_one_that_has_waited_for_a_disk_and_loops_then_is_ended() -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread("D")
    stage.looks(LIMIT_S)
    stage.looks_while_it_loops(LIMIT_S + 1)
    assert len(stage.ended) == 2  # it is ended at each look until the process is gone
    assert "its thread runs" in stage.ended[0]


def test_a_thread_of_its_own_looks_until_it_is_stopped() -> None:
    stage = Stage()
    stage.watch.start()
    stage.watch.stop()
    assert stage.watch.standing_s == 0


@pytest.mark.parametrize("state", ["T", "t"])
def test_one_that_is_held_by_a_debugger_is_waited_for(state: str) -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread(state)
    stage.looks(1000)
    assert (stage.watch.standing_s, stage.ended) == (0, [])


def test_one_that_gets_no_time_of_a_processor_is_starved() -> None:
    stage = Stage()
    stage.core.stands, stage.thread = True, Thread("R", "", 7)
    stage.looks(1000)
    assert (stage.watch.standing_s, stage.ended) == (1, []), "the first look has nothing to compare"


def test_where_there_is_no_reactor_nothing_stands() -> None:
    """No reactor must be reported as stuck while there is none: core.stop() has ended it, because
    its log is being cut."""
    stage = Stage()
    stage.core.stands = True
    stage.looks(LIMIT_S - 1)
    stage.thread = None
    stage.looks(1000)
    assert (stage.watch.standing_s, stage.ended) == (0, [])


def test_without_a_limit_nobody_looks() -> None:
    stage = Stage(limit_s=0)
    stage.watch.start()
    assert "rmq-watch" not in [each.name for each in threading.enumerate()]
    stage.core.stands = True
    stage.looks(1000)
    assert not stage.watch.is_out and stage.ended == []
    stage.watch.stop()
    with pytest.raises(ConfigError, match="0 for no watch, or at least 5"):
        load_properties(None, {"rmqStuckReactorSeconds": "4"})


def test_one_is_ended_while_the_log_takes_no_line() -> None:
    """A stuck reactor must be ended even if the log's handler hangs, because the log file is on the
    same disk that does not answer."""
    answers = threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            answers.wait(PATIENCE_S)

    stage, handler = Stage(), Hanging()
    logging.getLogger().addHandler(handler)
    try:
        stage.core.stands = True
        stage.looks(LIMIT_S)
        assert len(stage.ended) == 1 and not answers.is_set()
    finally:
        answers.set()
        stage.said()
        logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("part", ["_start", "_stop"])
@in_loop
async def test_the_watch_ends_with_a_broker_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """When a broker fails to start or stop, its watch must end. Otherwise it would end the process
    during a long core.stop(), and nobody would see the error."""
    broker = Broker(load_properties(None, {"storePathRootDir": str(tmp_path)}), FakeCore())
    thing, method = {
        "_start": (broker.topics, "load"),
        "_stop": (broker.registration, "stop"),
    }[part]

    def fails() -> None:
        raise ConfigError("that is wrong")

    if part == "_stop":
        await broker.start()
        await broker.registration.stop()
    monkeypatch.setattr(thing, method, fails)
    with pytest.raises(ConfigError, match="that is wrong"):
        await (broker.start() if part == "_start" else broker.stop())
    assert "rmq-watch" not in [each.name for each in threading.enumerate()]
