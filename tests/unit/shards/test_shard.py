"""A shard's process as its supervisor sees it: back-off, pid files, which processes it adopts and
which not.

The processes are `sleep`; real shards are in tests/process.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.driven_clock import DrivenClock
from support.waiting import wait_until

from rmq.base import clock as rmq_clock
from shards import shard as module
from shards.bus_files import BusDirectory
from shards.placement import Place
from shards.shard import PidFile, Shard, start_ticks

pytestmark = pytest.mark.still_clock


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[BusDirectory]:
    made = BusDirectory(tmp_path, make=True)
    yield made
    made.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def new_shard(port: str = "10921", digest: str = "d") -> Shard:
    place = Place(1, "b-1", int(port), Path("/s"), (), (), -1)
    return Shard(place, {"listenPort": port}, digest)


def write_pid(directory: BusDirectory, pid: int, ticks: int, digest: str = "d") -> None:
    content = msgspec.json.encode(PidFile(pid, ticks, digest, 4711)).decode()
    directory.write("shard-1.pid", content)


def run_and_die(shard: Shard, directory: BusDirectory, served_s: float | None) -> str:
    """One run of a process that was killed after it had served for so long (None: it never
    served)."""
    shard.process = subprocess.Popen(["sleep", "60"])
    shard._watch(shard.process.pid)
    if served_s is not None:
        shard.serving_at = rmq_clock.monotonic() - served_s
    shard.signal(signal.SIGKILL)
    return shard.ended(directory)


def test_runs_that_fail_in_a_row_are_followed_by_growing_pauses(
    clock: DrivenClock, directory: BusDirectory
) -> None:
    shard = new_shard()
    pauses = []
    for number in range(1, 6):
        reason = run_and_die(shard, directory, 0.1 if number % 2 else None)
        assert reason == "killed by signal 9 (SIGKILL)"
        assert shard.failures == number
        pauses.append(shard.pause_s())
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert pauses[4] > 0.5


def test_run_that_served_for_a_while_counts_as_no_failure(directory: BusDirectory) -> None:
    shard = new_shard()
    shard.failures = 7
    run_and_die(shard, directory, module.STABLE_S + 0.1)
    assert shard.failures == 0
    assert shard.pause_s() == 0.0
    assert not shard.runs


def test_crashes_are_counted_within_a_window(clock: DrivenClock) -> None:
    shard, counts = new_shard(), []
    for pause_s in (0, 1000, 58_000, 1500, 1500, 900_000):
        clock.advance(pause_s)
        counts.append(shard.crashed(60_000.0))
    assert counts == [1, 2, 3, 3, 3, 1]


def test_reason_that_a_shard_left_behind_is_told(directory: BusDirectory) -> None:
    shard = new_shard()
    directory.write("shard-1.why", "the port is taken")
    shard.process = subprocess.Popen(["sh", "-c", "exit 3"])
    shard._watch(shard.process.pid)
    assert shard.ended(directory) == "the port is taken"
    assert shard.refused


def test_running_process_of_an_earlier_supervisor_is_adopted(
    directory: BusDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    ticks = start_ticks(sleeper.pid)
    assert ticks is not None
    write_pid(directory, sleeper.pid, ticks)
    shard = new_shard()
    assert shard.adopt(directory)
    assert (shard.pid, shard.outdated, shard.state) == (sleeper.pid, False, module.STARTING)
    assert shard.values["listenPort"] == "10921"
    other = new_shard("0", digest="other")
    assert other.adopt(directory)
    assert other.outdated
    assert other.values["listenPort"] == "4711"  # the port that it got when it was started
    for each in (shard, other):
        each.unwatch()


def test_another_process_with_the_same_number_is_not_adopted(
    directory: BusDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    write_pid(directory, sleeper.pid, (start_ticks(sleeper.pid) or 0) - 1)
    assert not new_shard().adopt(directory)
    assert sleeper.poll() is None


@pytest.mark.parametrize("text", ["", "{}", "[1,2]", '{"pid":-1,"ticks":0,"digest":""}', "\x00"])
def test_pid_files_that_say_nothing_are_not_believed(directory: BusDirectory, text: str) -> None:
    directory.write("shard-1.pid", text)
    assert not new_shard().adopt(directory)


def test_dead_processes_and_zombies_have_no_start_time() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: start_ticks(process.pid) is None)  # it is a zombie until it is waited for
    process.wait()
    assert start_ticks(process.pid) is None
    assert start_ticks(os.getpid()) is not None
