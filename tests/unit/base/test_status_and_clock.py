"""Goal: statuses become the right exceptions, and the clocks count in the units that they name.

Method: the compiled functions are called. Not shown here: that a clock never jumps.
"""

import mmap
import time
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock

from cext.base import clock as core_clock
from cext.base.status import Status, raise_status
from cext.testing import base_probe
from rmq import errors
from rmq.base import clock as rmq_clock
from rmq.base.clock import run

READERS = (
    rmq_clock.wall,
    lambda: base_probe.wall_ms() / 1e3,
    lambda: core_clock.now_ms() / 1e3,
    rmq_clock.monotonic,
    core_clock.monotonic,
    lambda: base_probe.monotonic_us() / 1e6,
    lambda: base_probe.boot_ms() / 1e3,
)


@pytest.mark.parametrize("status", [0, 1, 4096])
def test_ok_and_counts_raise_nothing(status):
    assert raise_status(status, "anything") == 0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.POISONED, errors.StorePoisonedError),
        (Status.CORRUPT, errors.StoreCorruptError),
        (Status.NO_SPACE, errors.StoreError),
        (Status.MALFORMED, errors.ProtocolError),
        (Status.RING_FULL, errors.RmqError),
    ],
)
def test_a_failing_status_becomes_its_exception_and_names_itself(status, kind):
    with pytest.raises(kind, match=f"commit log: {status.name}"):
        raise_status(status, "commit log")


def test_an_unknown_status_still_raises():
    with pytest.raises(errors.RmqError, match="status -99"):
        raise_status(-99)


def test_wall_clock_is_milliseconds_since_1970():
    assert abs(base_probe.wall_ms() - time.time() * 1000) < 1000


def test_monotonic_clock_is_microseconds():
    assert abs(base_probe.monotonic_us() - time.monotonic() * 1e6) < 1e6


def test_python_reads_the_same_clocks():
    assert abs(rmq_clock.wall() - time.time()) < 1
    assert abs(rmq_clock.monotonic() - time.monotonic()) < 1


def test_time_that_passes_at_once_passes_by_all_clocks(clock: DrivenClock):
    before = [read() for read in READERS]
    clock.advance(3600)
    passed = [read() - was for read, was in zip(READERS, before, strict=True)]
    assert all(3599.99 < each < 3660 for each in passed), passed  # some are floats
    assert abs(clock.now_ms() - base_probe.wall_ms()) < 1000
    assert abs(clock.monotonic() - rmq_clock.monotonic()) < 1


def test_a_wall_clock_that_is_set_back_changes_no_other(clock: DrivenClock):
    before = [read() for read in READERS]
    clock.set_wall(-3600)
    passed = [read() - was for read, was in zip(READERS, before, strict=True)]
    assert [each < -3500 for each in passed] == [True] * 3 + [False] * 4, passed


def test_who_sleeps_in_python_looks_as_often_as_the_core(clock: DrivenClock):
    clock.advance(1)
    before = core_clock.look_s()
    found = rmq_clock.sleep_s(3600)
    assert before <= found <= core_clock.look_s() < 0.1, "it may be rarer with each look"
    assert rmq_clock.sleep_s(0.0001) == 0.0001
    rmq_clock.drive(None)
    assert rmq_clock.sleep_s(3600) == 3600


def test_without_a_test_the_clocks_are_the_machines(clock: DrivenClock):
    clock.advance(1e6)
    rmq_clock.drive(None)
    assert not rmq_clock.is_driven()
    assert abs(rmq_clock.monotonic() - time.monotonic()) < 1


def test_a_shift_is_16_bytes_that_can_be_written():
    for memory in (bytearray(15), bytes(16)):
        with pytest.raises((ValueError, BufferError)):
            rmq_clock.drive(memory)
    with pytest.raises(ValueError, match="divisible by 8"):
        rmq_clock.drive(memoryview(mmap.mmap(-1, 32))[1:])
    assert not rmq_clock.is_driven()


def test_a_process_that_is_no_test_takes_no_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A broker must not start with a driven clock only because the environment of another process
    names one."""

    async def main() -> None:
        raise AssertionError("it started")

    monkeypatch.setenv("RMQ_TEST_CLOCK", str(tmp_path / "clock"))
    with pytest.raises(errors.ConfigError, match="unset it"):
        run(main())
    assert not rmq_clock.is_driven()
