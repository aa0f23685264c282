"""Timers in files: the keeper, driven by the test or by its thread, compared with a sorted list."""

import heapq
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.waiting import wait_until

from cext.store.log.commit_log import CommitLog
from cext.store.timers.timer_keeper import TimerKeeper
from cext.testing.timer_probe import DrivenTimers

HEAP = 2048
ROOM = HEAP // 2  # room for what is pushed between two seals


def new_log(directory: Path) -> CommitLog:
    directory.mkdir(parents=True, exist_ok=True)
    log = CommitLog(str(directory), 1 << 20, 1 << 20, 1 << 16)
    log.load()
    log.set_end(0)
    return log


def opened(log: CommitLog, directory: Path, before: tuple[int, int] = (0, 0)) -> DrivenTimers:
    keeper = TimerKeeper(log, str(directory / "timers"), HEAP)
    keeper.open(0, *before)
    return DrivenTimers(keeper)


def sealed(timers: DrivenTimers, covers: int) -> None:
    """Seals, and makes the keeper write it."""
    while not timers.seal(covers, 0):
        timers.step()
        timers.load()
    while timers.keeper.counters()["covers"] != covers:
        assert timers.step() >= 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 3000), st.integers(1, 200)),
        st.tuples(st.just("seal"), st.just(0), st.just(0)),
        st.tuples(st.just("step"), st.just(0), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.integers(0, 800), st.integers(1, 400)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
        st.tuples(st.just("stop"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
def test_every_timer_comes_once_in_order_and_never_early(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    """The queue is a list. After a kill, what the checkpoint does not cover is pushed again."""
    directory = tmp_path_factory.mktemp("timers")
    log = new_log(directory / "log")
    timers = opened(log, directory)
    queue: list[tuple[int, int]] = []  # (due, place), in the order of arrival
    model: list[tuple[int, int]] = []
    fed, clock, before = 0, 1000, (0, 0)

    def feed() -> None:
        nonlocal fed
        while fed < len(queue) and timers.room > 0:
            if queue[fed] >= before:
                timers.push(*queue[fed])
            fed += 1

    def take(limit: int) -> None:
        nonlocal before
        for key in timers.take(clock, limit):
            assert key[0] <= clock
            assert key == heapq.heappop(model)
        if fed == len(queue):
            before = timers.before()

    for kind, number, count in steps:
        if kind == "push":
            for n in range(count):
                key = (clock + 1 + (number * (n + 1)) % 3001, len(queue))
                queue.append(key)
                heapq.heappush(model, key)
            feed()
        elif kind == "seal":
            timers.seal(fed, 0)
        elif kind == "step":
            for _ in range(count):
                assert timers.step() >= 0
        elif kind == "wait":
            clock += number
            take(count)
        else:
            if kind == "stop":
                timers.seal(fed, 0)
                timers.keeper.finish()
            timers = opened(log, directory, before)
            fed = min(timers.keeper.covers, len(queue))
            while fed < len(queue):
                feed()
                timers.load()
                if fed < len(queue):
                    timers.seal(fed, 0)
                    timers.step()
        feed()
    clock += 4000
    for _ in range(1000):
        take(10**6)
        feed()
        if not model and fed == len(queue):
            break
        timers.seal(fed, 0)
        timers.step()
    assert model == []
    take(10**6)


def test_many_runs_become_few_and_nothing_is_lost(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log")
    timers = opened(log, tmp_path)
    place = 0
    for number in range(200):
        timers.load()
        room = timers.room
        timers.push_many(room, 1_000_000, 500_000, place)
        place += room
        sealed(timers, place)
        assert number < 8 or timers.keeper.counters()["runs"] <= 32
    while timers.step() == 0:
        pass
    names = os.listdir(tmp_path / "timers")
    assert len(names) - 1 == timers.keeper.counters()["runs"] <= 24
    again = opened(log, tmp_path)
    assert again.keeper.covers == place
    came: list[tuple[int, int]] = []
    clock = 999_000
    while clock < 1_501_000:
        clock += 500
        again.step()
        while some := again.take(clock, 100_000):
            came += some
            again.step()
    assert len(came) == place
    assert came == sorted(set(came))


def test_a_checkpoint_waits_until_the_log_is_durable(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log")
    timers = opened(log, tmp_path)
    timers.push(5_000_000, 1)
    assert timers.seal(1, 400)  # the log ends at 0
    for _ in range(5):
        assert timers.step() > 0
    assert timers.keeper.counters()["runs"] == 1
    assert timers.keeper.counters()["checkpoints"] == 0
    again = opened(log, tmp_path)
    assert (again.keeper.covers, os.listdir(tmp_path / "timers")) == (0, [])


@pytest.mark.parametrize("at", [0, 8, 23, 24 * 600 + 3])
def test_a_damaged_run_is_noticed_and_the_next_start_reads_the_queue(
    tmp_path: Path, at: int
) -> None:
    log = new_log(tmp_path / "log")
    timers = opened(log, tmp_path)
    timers.push_many(1000, 1_000_000, 1000, 0)
    sealed(timers, 1000)
    (run,) = (tmp_path / "timers").glob("*.run")
    with run.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))
    keeper = TimerKeeper(log, str(tmp_path / "timers"), HEAP)
    if keeper.open(0, 0, 0):  # open() has not read the damaged place
        again = DrivenTimers(keeper)
        came = []
        for _ in range(20):
            if again.step() < 0:
                break
            came += again.take(2_000_000, 10_000)
        else:
            raise AssertionError("nobody noticed")
        assert len(came) < 1000
        assert not keeper.open(0, 0, 0)
    assert keeper.covers == 0
    assert not list((tmp_path / "timers").glob("*.run"))


def test_a_checkpoint_of_a_longer_log_or_a_broken_one_is_not_believed(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log")
    timers = opened(log, tmp_path)
    timers.push(5_000_000, 1)
    sealed(timers, 7)
    path = tmp_path / "timers" / "checkpoint"
    good = path.read_bytes()
    for number in range(len(good)):
        bad = bytearray(good)
        bad[number] ^= 1
        path.write_bytes(bad)
        assert not TimerKeeper(log, str(tmp_path / "timers"), HEAP).open(0, 0, 0)
    path.write_bytes(good[:-1])
    assert not TimerKeeper(log, str(tmp_path / "timers"), HEAP).open(0, 0, 0)


def test_its_thread_hands_over_what_is_due_soon_and_drops_what_is_delivered(
    tmp_path: Path,
) -> None:
    log = new_log(tmp_path / "log")
    timers = opened(log, tmp_path)
    now = time.time_ns() // 1_000_000
    timers.keeper.start()
    try:
        timers.push_many(ROOM, now + 100, 900, 0)
        timers.take(now, 0)
        assert timers.seal(ROOM, 0)
        came: list[tuple[int, int]] = []

        def all_came() -> bool:
            came.extend(timers.take(time.time_ns() // 1_000_000, 10_000))
            return len(came) == ROOM

        wait_until(all_came)
        assert came == sorted(set(came))
        wait_until(lambda: timers.take(now + 5000, 1) == [] and not list(
            (tmp_path / "timers").glob("*.run")))  # fmt: skip
    finally:
        timers.keeper.stop()
