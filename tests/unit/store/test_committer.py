"""Goal: with a store pool the committer writes exactly what it was offered, when it is due.

Method: a log of 64 KiB segments, real threads and files; the bytes in the files are compared with
those that were appended. Kills and failing disks are in tests/fault/test_store_pool.py.
"""

import os
import random
import time

import pytest
from support.logs import SEGMENT_BYTES, append, append_rolling, make_log, open_log, record_at
from support.threads import thread_named
from support.waiting import wait_until

from cext.base.status import Status
from cext.store.log.committer import Committer
from cext.store.log.flusher import Flusher
from cext.store.log.preparer import Preparer
from cext.testing.base_probe import write_with_zeros
from cext.testing.store_probe import (
    committer_counters,
    log_new_turn,
    log_read,
    log_sleepers,
    log_view,
    log_wait_for_commit,
    log_watermarks,
    log_write_out,
)

NEVER = {"least_pages": 1 << 20, "interval_ms": 60_000, "thorough_ms": 60_000}


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "commitlog", pooled=True) as log:
        yield log


def written(log):
    """The mark `written`, after the reactor has looked at it."""
    assert log_write_out(log) == Status.OK
    return log_watermarks(log)["written"]


def started(log, **options):
    committer = Committer(log, **options)
    committer.start()
    return committer


def file_bytes(log, segment=0):
    with open(log.path_of(segment * SEGMENT_BYTES), "rb") as file:
        return file.read()


def test_what_is_not_offered_is_not_written(log):
    committer = started(log, least_pages=0)
    wait_until(lambda: log_sleepers(log)[1] == 1)
    append(log)
    assert log_sleepers(log)[1] == 1, "who wakes it says so before the committer does"
    committer.stop()  # it looks once more
    assert log_watermarks(log)["written"] == 0
    assert file_bytes(log)[:4] == bytes(4)
    assert committer_counters(committer)["commits"] == 0


def test_offered_bytes_are_written_without_the_reactor_and_then_taken_in(log):
    committer = started(log, least_pages=0)
    append(log)
    log_write_out(log)
    wait_until(lambda: file_bytes(log)[:200] == record_at(0))
    wait_until(lambda: written(log) == 200)
    assert log_view(log, 0, 200) == record_at(0)
    committer.stop()


def test_little_waits_for_company_until_the_thorough_interval(log):
    began = time.monotonic()  # before the committer's interval may begin
    committer = started(log, least_pages=4, interval_ms=20, thorough_ms=300)
    append(log)
    log_write_out(log)
    wait_until(lambda: written(log) == 200)
    assert time.monotonic() - began > 0.15
    assert committer_counters(committer)["commits"] == 1
    committer.stop()


def test_least_pages_are_written_at_once(log):
    committer = started(log, least_pages=3, interval_ms=60_000, thorough_ms=60_000)
    for _ in range(11):  # 11,000 bytes, less than 3 pages
        append(log, 1000)
    log_write_out(log)
    wait_until(lambda: log_sleepers(log)[1] == 2)  # it has seen them, and waits for more
    assert written(log) == 0
    for _ in range(2):
        append(log, 1000)
    log_write_out(log)
    wait_until(lambda: written(log) == 13_000)
    committer.stop()


def test_a_pool_that_is_a_quarter_full_is_written_whatever_was_asked_for(log):
    committer = started(log, **NEVER)
    while log_watermarks(log)["appended"] < 17_000:
        append(log, 1000)
    log_write_out(log)
    wait_until(lambda: written(log) == 17_000)
    committer.stop()


def test_what_was_offered_is_written_at_once_for_who_wants_it(log):
    committer = started(log, **NEVER)
    for end in (200, 400):
        append(log)
        log_write_out(log)
        committer.hurry()
        wait_until(lambda end=end: written(log) == end)
    append(log)
    assert written(log) == 400  # the bytes are offered, but nobody needs them yet
    committer.stop()
    assert committer_counters(committer)["commits"] == 3


def test_a_full_pool_refuses_until_the_committer_has_made_room(tmp_path):
    with open_log(tmp_path / "commitlog", pooled=True, segment_bytes=1 << 20) as log:
        while append(log, 8000) >= 0:
            log_write_out(log)
        assert append(log, 8000) == Status.RING_FULL
        assert log_wait_for_commit(log, 10_000) is False
        committer = started(log)
        assert log_wait_for_commit(log, 60_000_000) is True
        wait_until(lambda: written(log) == log_watermarks(log)["appended"])
        assert append(log, 8000) >= 0
        committer.stop()


def test_stop_writes_everything_that_was_offered(log):
    committer = started(log, **NEVER)
    for _ in range(10):
        append(log)
    log_write_out(log)
    committer.stop()
    assert written(log) == 2000
    assert file_bytes(log)[:2000] == b"".join(record_at(at) for at in range(0, 2000, 200))


def test_records_over_many_segments_are_byte_for_byte_in_their_files(tmp_path):
    numbers = random.Random(4)
    log = make_log(tmp_path / "commitlog", pooled=True)
    preparer, flusher = Preparer(log), Flusher(log, interval_ms=5, least_pages=0)
    committer = Committer(log, least_pages=1, interval_ms=1, thorough_ms=2)
    for thread in (preparer, flusher, committer):
        thread.start()
    stored = []
    while log_watermarks(log)["appended"] < 12 * SEGMENT_BYTES:
        log_new_turn(log)
        for _ in range(numbers.randrange(1, 8)):
            at, data = append_rolling(log, numbers.randrange(100, 8000))
            if data is None:
                assert at in (Status.NOT_READY, Status.RING_FULL)
                break
            stored.append((at, data))
        log_write_out(log)
    wait_until(lambda: written(log) == log_watermarks(log)["appended"])
    wait_until(lambda: log_write_out(log) == 0
               and log_watermarks(log)["durable"] == log_watermarks(log)["written"])  # fmt: skip
    for at, data in stored:
        assert log_read(log, at, len(data)) == data
        assert log_view(log, at, len(data)) in (data, Status.ABSENT)
    for thread in (committer, flusher, preparer):
        thread.stop()
    end = log_watermarks(log)["appended"]
    log.close()
    with open_log(tmp_path / "commitlog", end) as again:  # without a pool, so only the files count
        for at, data in stored:
            assert again.read_record(at) == data


def test_a_stale_record_behind_the_end_is_cut_off_by_zeros(tmp_path):
    with open_log(tmp_path / "commitlog") as log:
        append(log)
    path = log.path_of(0)
    with open(path, "r+b") as file:
        file.write(b"\xee" * SEGMENT_BYTES)
    log = make_log(tmp_path / "commitlog", 0, pooled=True)
    with open(path, "r+b") as file:
        file.write(b"\xee" * SEGMENT_BYTES)  # as in a recycled file that set_end never saw
    committer = started(log, least_pages=0)
    append(log)
    log_write_out(log)
    committer.stop()
    log.close()
    with open(path, "rb") as file:
        held = file.read()
    assert held[:200] == record_at(0)
    assert held[200:208] == bytes(8)
    assert held[208:] == b"\xee" * (SEGMENT_BYTES - 208)


def test_a_committer_needs_a_log_with_a_pool_and_sane_numbers(tmp_path, log):
    with open_log(tmp_path / "other") as plain, pytest.raises(ValueError, match="no pool"):
        Committer(plain)
    for wrong in ({"least_pages": -1}, {"interval_ms": 0}, {"thorough_ms": 0}):
        with pytest.raises(ValueError):
            Committer(log, **wrong)


def test_an_idle_committer_sleeps(log):
    committer = started(log, least_pages=0)
    append(log)
    log_write_out(log)
    wait_until(lambda: written(log) == 200)
    thread = thread_named("rmq-committer")

    def used_s() -> float:  # processor time of this thread alone
        return int((thread / "schedstat").read_text().split()[0]) / 1e9

    before = used_s()
    time.sleep(0.3)
    assert used_s() - before < 0.01
    committer.stop()


@pytest.mark.parametrize("zeros", [0, 3, 8])
def test_a_write_with_zeros_is_one_range(tmp_path, zeros):
    path = tmp_path / "f"
    path.write_bytes(b"\xff" * 100)
    with open(path, "r+b") as file:
        done = write_with_zeros(file.fileno(), b"abc", zeros, 10)
    assert done == (Status.OK, 0, 3 + zeros)
    expected = b"\xff" * 10 + b"abc" + bytes(zeros)
    assert path.read_bytes() == expected + b"\xff" * (100 - len(expected))
    with open(path, "rb") as file:
        status, error, count = write_with_zeros(file.fileno(), b"abc", zeros, 0)
    assert (status, count) == (Status.IO_ERROR, 0)
    assert os.strerror(error) == "Bad file descriptor"
