"""Goal: a driven clock advances for a test that waits, and for nobody else: no time passes while
what the test waits for is at work, or after the test is over.

Method: looks, steps and turns one by one; processes that run, sleep, or wait as for a disk. Not
shown here: how long this takes on a busy machine.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import work
from support.disk_wait import disk_wait
from support.driven_clock import (
    BUSY_LOOKS,
    PASSED_STEPS,
    QUIET_LOOKS,
    STEP_S,
    WORK_LOOKS,
    DrivenClock,
    driven_clock,
    pass_some_time,
    turn,
)
from support.fake_core import FakeCore
from support.name_server import in_loop
from support.rmq_process import RmqProcess
from support.waiting import HANG_S, OVER, first_of, machine_sleep, wait_until
from support.work import Work


def passed_s(clock: DrivenClock) -> float:
    return float(struct.unpack_from("=q", clock.memory)[0]) / 1e6


class Looks:
    """The looks of a clock that stands still, with a given finding of what is at work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = DrivenClock()
        self.found = Work.NONE
        monkeypatch.setattr(work, "under_way", lambda: self.found)

    def take(self, count: int, found: Work) -> float:
        """Takes so many looks with this finding. Returns the seconds that have passed so far."""
        self.found = found
        for _ in range(count):
            self.clock._pass_if_left_alone()
        return passed_s(self.clock)

    def take_nearly_all(self) -> float:
        return self.take((QUIET_LOOKS - 1) * WORK_LOOKS, Work.NONE)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_time_passes_by_a_test_that_waits_while_all_sleep(looks: Looks) -> None:
    assert looks.take_nearly_all() == 0
    assert looks.take(1, Work.NONE) == pytest.approx(STEP_S)
    assert looks.take(9, Work.NONE) == pytest.approx(10 * STEP_S)


def test_who_wants_a_processor_is_waited_for_but_not_for_ever(looks: Looks) -> None:
    assert looks.take(QUIET_LOOKS * WORK_LOOKS, Work.PROCESSOR) == 0
    assert looks.take(BUSY_LOOKS * QUIET_LOOKS * WORK_LOOKS, Work.PROCESSOR) > 0


def test_each_step_of_time_waits_for_what_the_one_before_brought_about(looks: Looks) -> None:
    looks.take_nearly_all()
    assert looks.take(1, Work.NONE) == pytest.approx(STEP_S)
    assert looks.take(BUSY_LOOKS - 1, Work.PROCESSOR) == pytest.approx(STEP_S)
    assert looks.take(1, Work.PROCESSOR) == pytest.approx(2 * STEP_S)


def test_a_disk_is_waited_for_from_the_beginning(looks: Looks) -> None:
    looks.take_nearly_all()
    assert looks.take(1, Work.DISK) == 0
    assert looks.take_nearly_all() == 0


def test_a_test_that_moves_it_does_not_wait_yet(looks: Looks) -> None:
    looks.take_nearly_all()
    looks.clock.advance(0)
    assert looks.take_nearly_all() == 0


def test_nor_does_one_for_which_something_has_come() -> None:
    with driven_clock() as clock:
        clock._quiet = 7
        wait_until(lambda: True, still=True)
        assert clock._quiet == 0


def test_a_clock_that_goes_on_waits_for_who_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, is_busy = DrivenClock(), True
    monkeypatch.setattr(work, "is_busy", lambda: is_busy)
    step = clock._steps()
    for _ in range(BUSY_LOOKS):
        step()
    assert passed_s(clock) == 0
    for _ in range(PASSED_STEPS):  # but it does not wait for work that never rests
        step()
    assert passed_s(clock) == pytest.approx(PASSED_STEPS * STEP_S)
    step()
    assert passed_s(clock) == pytest.approx(PASSED_STEPS * STEP_S)
    is_busy = False
    for _ in range(3 * PASSED_STEPS):
        step()
    assert passed_s(clock) == pytest.approx(4 * PASSED_STEPS * STEP_S)


# ------------------------------------------------------------------- who is at work


def test_a_server_that_runs_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "servers", set[int]())
    wait_until(lambda: work.under_way() is Work.NONE and not work.is_busy())
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        work.servers.add(process.pid)
        wait_until(lambda: work.under_way() is Work.PROCESSOR)
        assert all(work.is_busy() for _ in range(20))
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: work.under_way() is Work.NONE and not work.is_busy())


def test_one_that_waits_for_a_disk_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with disk_wait(tmp_path, "waits") as pid:
        monkeypatch.setattr(work, "servers", {pid})
        assert work.under_way() is Work.DISK
        assert work.is_busy()


def test_a_server_is_counted_from_its_fork_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "servers", set[int]())
    forked = SimpleNamespace(pid=4_000_001, exitcode=None)
    process = RmqProcess(cast(Any, forked), None)
    assert process.poll() is None and work.servers == {forked.pid}
    forked.exitcode = 0
    assert process.poll() == 0 and work.servers == set()


# ------------------------------------------------------------------- whose time it is


def test_who_waits_is_over_with_its_test_though_the_next_drives_the_same_clock() -> None:
    clock, entered, go = DrivenClock(), threading.Event(), threading.Event()
    failures: list[str] = []

    def look() -> bool:
        entered.set()
        go.wait(HANG_S)
        return False

    def wait() -> None:
        try:
            wait_until(look)
        except AssertionError as error:
            failures.append(str(error))

    thread = threading.Thread(target=wait, daemon=True)
    with driven_clock(clock):
        thread.start()
        assert entered.wait(HANG_S)
    with driven_clock(clock):
        go.set()
        thread.join(HANG_S)
        assert passed_s(clock) == 0
    assert len(failures) == 1 and failures[0].startswith(OVER)


def test_no_time_passes_for_an_earlier_test() -> None:
    clock, before = DrivenClock(), turn()
    with driven_clock(clock):
        earlier = turn()
    with driven_clock(clock):
        assert not pass_some_time(3600, of=earlier)
        assert not pass_some_time(3600, of=before)
        assert passed_s(clock) == 0
        assert pass_some_time(60, of=turn())
        assert passed_s(clock) == 60
    assert not pass_some_time(60, of=before)


@in_loop
async def test_an_answer_is_waited_for_by_the_machines_clock(clock: DrivenClock) -> None:
    answer = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(first_of({answer}))
    for _ in range(3):
        await machine_sleep(0.01)
        clock.advance(2 * HANG_S)
    await machine_sleep(0.01)
    assert not waiting.done()
    answer.set_result(None)
    await waiting


@pytest.mark.still_clock
@in_loop
async def test_a_core_that_is_made_up_is_looked_at_while_no_time_passes(
    clock: DrivenClock,
) -> None:
    before, looks = clock.monotonic(), list[int]()

    def look() -> bool:
        looks.append(1)
        return len(looks) > 5

    await FakeCore().until(look)
    assert clock.monotonic() == before
