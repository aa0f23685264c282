"""Goal: the flusher moves `durable` over synced bytes only, in both modes, and sleeps when idle.

Method: real threads on real files. That the flusher sleeps is shown by the CPU time of its thread
and by the number of fdatasync calls. Waits are for conditions, with generous limits.
Cannot prove: that the disk keeps what fdatasync promised; failures are in tests/fault.
"""

import contextlib
import os
import time

import pytest
from support.logs import SEGMENT_BYTES, append, append_rolling, open_log
from support.shard import readable
from support.threads import thread_named
from support.waiting import HANG_S, wait_until, wait_until_is

from cext.store.log.flusher import Flusher
from cext.store.log.preparer import Preparer
from cext.testing.store_probe import (
    flusher_counters,
    log_new_turn,
    log_notify_fd,
    log_sleepers,
    log_watermarks,
    log_write_out,
)
from rmq.errors import StoreError


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "commitlog") as log:
        yield log


def durable(log):
    return log_watermarks(log)["durable"]


def running(log, **options):
    flusher = Flusher(log, **options)
    flusher.start()
    return flusher


def test_sync_mode_makes_every_write_out_durable_by_itself(log):
    flusher = running(log, sync_mode=True)
    for number in range(1, 20):
        append(log)
        log_write_out(log)
        wait_until(lambda end=number * 200: durable(log) == end)
    flusher.stop()


def is_asleep(log):
    """Whether the flusher has nothing to do, and waits until it is woken."""
    return log_sleepers(log)[0] == 1


def test_durable_never_passes_written_and_appended_alone_wakes_nobody(log):
    flusher = running(log, sync_mode=True)
    wait_until(lambda: is_asleep(log))
    append(log)
    assert is_asleep(log), "who wakes it says so before the flusher does"
    flusher.stop()  # it looks once more
    assert durable(log) == 0
    assert flusher_counters(flusher)["syncs"] == 0


def test_what_gathers_during_a_sync_shares_the_next_one(log):
    flusher = running(log, sync_mode=True)
    for _ in range(300):
        append(log)
        log_write_out(log)
        log_new_turn(log)
    wait_until(lambda: durable(log) == 300 * 200)
    assert flusher_counters(flusher)["syncs"] < 300
    flusher.stop()


def test_the_reactor_is_told_when_durable_has_moved(log):
    flusher = running(log, sync_mode=True)
    append(log)
    log_write_out(log)
    assert readable(log_notify_fd(log), HANG_S)
    assert durable(log) == 200
    flusher.stop()


def test_an_idle_flusher_sleeps(log):
    flusher = running(log, sync_mode=True)
    append(log)
    log_write_out(log)
    wait_until(lambda: durable(log) == 200 and is_asleep(log))
    thread = thread_named("rmq-flusher")

    def switches():
        lines = (thread / "status").read_text().splitlines()
        return [line for line in lines if "ctxt_switches" in line]

    def slept() -> bool:
        before = switches()
        time.sleep(2)
        return switches() == before

    assert any(slept() for _ in range(5))  # a busy machine may move the thread once
    flusher.stop()


def test_async_mode_waits_for_its_interval_and_for_enough_pages(log):
    flusher = running(log, interval_ms=60, least_pages=4, thorough_ms=100_000)

    def next_check_us():
        return flusher_counters(flusher)["next_check_us"]

    append(log, 5000)
    log_write_out(log)
    first = wait_until_is(next_check_us, bool)
    wait_until(lambda: next_check_us() != first)  # it has looked, and decided
    assert durable(log) == 0, "one page is not enough"
    for _ in range(4):
        append(log, 5000)
    log_write_out(log)
    wait_until(lambda: durable(log) == 25000)
    assert flusher_counters(flusher)["syncs"] == 1
    flusher.stop()


def test_async_mode_syncs_a_single_record_at_the_thorough_interval(log):
    flusher = running(log, interval_ms=10, least_pages=4, thorough_ms=150)
    append(log)
    log_write_out(log)
    wait_until(lambda: durable(log) == 200)
    flusher.stop()


def test_stopping_syncs_what_is_written(log):
    flusher = running(log, interval_ms=100_000)
    append(log)
    log_write_out(log)
    flusher.stop()
    assert durable(log) == 200
    flusher.stop()


def test_flush_makes_durable_at_once_in_async_mode(log):
    flusher = running(log, interval_ms=100_000)
    append(log)
    log_write_out(log)
    assert flusher.flush() == 200
    flusher.stop()


@pytest.mark.parametrize("sync_mode", [True, False])
def test_segments_are_synced_in_order_and_closed_behind_the_mark(log, sync_mode):
    preparer = Preparer(log)
    preparer.start()
    flusher = running(log, sync_mode=sync_mode, interval_ms=5, least_pages=0)

    def turn() -> bool:
        log_new_turn(log)
        offset, _ = append_rolling(log, 3000)
        assert log_write_out(log) == 0
        marks = log_watermarks(log)
        assert marks["durable"] <= marks["written"] <= marks["appended"]
        return offset >= 0

    while log_watermarks(log)["appended"] < 10 * SEGMENT_BYTES:
        wait_until(turn)
    wait_until(lambda: durable(log) == log_watermarks(log)["written"])

    def open_files() -> int:
        """Open files of the log: the one that is written, and the prepared one, which may take a
        moment."""
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        count = 0
        for link in links:
            with contextlib.suppress(FileNotFoundError):  # descriptors of other threads may close
                count += os.readlink(link).startswith(log.directory + "/")
        return count

    wait_until(lambda: open_files() == 2)
    flusher.stop()
    preparer.stop()
    assert open_files() == 2


def test_a_second_start_is_refused(log):
    flusher = running(log)
    with pytest.raises(StoreError, match="already running"):
        flusher.start()
    flusher.stop()


def test_a_flusher_can_be_started_again(log):
    flusher = running(log, sync_mode=True)
    flusher.stop()
    flusher.start()
    append(log)
    log_write_out(log)
    wait_until(lambda: durable(log) == 200)
    flusher.stop()
