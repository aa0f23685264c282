"""Goal: no failing disk makes the log claim what is not so, and what can heal heals by itself.

Method: support/log_worker.py in its own process behind the fault shim. Rules make a chosen pwrite,
fdatasync, fsync or fallocate fail, cut it short, or kill the process; afterwards this process reads
the files. Cannot prove: what a real disk does after a power cut.
"""

import contextlib
import errno
import json
import os
import signal
import time

import pytest
from support.logs import SEGMENT_BYTES, open_log, record_at
from support.rmq_process import start_worker
from support.waiting import HANG_S, wait_until, wait_until_is

from cext.base.status import Status

RECORD_BYTES = 1000


class Worker:
    """One log_worker process. Each method sends a line and returns the answer."""

    def __init__(self, directory, mode, faults, end=0):
        self.process = start_worker(
            "support.log_worker", directory, mode, end, environment=faults.environment()
        )
        self.first = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def __call__(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self._answer()

    def append(self, count, size=RECORD_BYTES):
        return self(f"append {count} {size}")

    def prepared(self, outcome="prepared"):
        """Waits until the preparer has made a segment, or has failed to; returns the state."""
        return wait_until_is(lambda: self("state"), lambda state: state["preparer"][outcome] > 0)

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(HANG_S)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "commitlog"


@pytest.fixture
def start(directory, faults):
    """Starts workers, which are all gone when the test ends."""
    workers = []

    def start(mode="sync", end=0):
        workers.append(Worker(directory, mode, faults, end))
        return workers[-1]

    yield start
    for worker in workers:
        worker.process.kill()
        worker.process.wait()
        with contextlib.suppress(BrokenPipeError):  # the worker died before it read the command
            worker.process.stdin.close()
        worker.process.stdout.close()


def assert_records(directory, count, size=RECORD_BYTES):
    """The first `count` records are in the files, byte by byte."""
    offset = 0
    for _ in range(count):
        if size + 8 > SEGMENT_BYTES - offset % SEGMENT_BYTES:
            offset += SEGMENT_BYTES - offset % SEGMENT_BYTES
        segment, at = offset - offset % SEGMENT_BYTES, offset % SEGMENT_BYTES
        with (directory / f"{segment:020d}").open("rb") as f:
            f.seek(at)
            assert f.read(size) == record_at(offset, size)
        offset += size
    return offset


# ---- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_write_poisons_for_ever_and_keeps_its_cause(directory, start, faults, error):
    worker = start()
    worker.append(3)
    faults.fail("pwrite", error, path="commitlog/", count=1)
    answer = worker.append(2)
    assert answer["status"] == Status.POISONED
    assert (answer["written"], answer["poison"]) == (
        3000,
        ["pwrite", error, f"{directory}/{0:020d}", 3000],
    )
    faults.clear()
    again = worker.append(1)
    assert (again["offsets"], again["status"]) == ([Status.POISONED], Status.POISONED)
    assert again["written"] == 3000
    assert again["poison"] == answer["poison"]
    assert_records(directory, 3)


def test_short_writes_are_continued_until_all_is_written(directory, start, faults):
    worker = start()
    faults.short_write(333, path="commitlog/")
    answer = worker.append(10)
    assert (answer["written"], answer["poison"]) == (10000, None)
    assert faults.hits(0) == 31, "10,008 bytes in pieces of 333"
    assert worker("wait")["durable"] == 10000
    assert_records(directory, 10)


def test_a_write_that_fails_halfway_names_the_byte_it_got_to(start, faults):
    worker = start()
    faults.short_write(1500, path="commitlog/", count=1)
    faults.fail("pwrite", errno.EIO, path="commitlog/", first=1)
    answer = worker.append(4)
    assert (answer["written"], answer["poison"][1], answer["poison"][3]) == (0, errno.EIO, 1500)


def test_a_write_that_takes_nothing_is_an_error_not_an_endless_loop(start, faults):
    worker = start()
    faults.short_write(0, path="commitlog/")
    answer = worker.append(1)
    assert (answer["status"], answer["poison"][1]) == (Status.POISONED, errno.EIO)


def test_interrupted_calls_are_repeated(directory, start, faults):
    worker = start()
    faults.fail("pwrite", errno.EINTR, path="commitlog/", count=3)
    assert worker.append(1)["status"] == Status.OK
    assert faults.hits(0) == 3
    assert_records(directory, 1)


def test_a_write_that_fails_at_a_roll_leaves_the_next_segment_untouched(directory, start, faults):
    worker = start()
    worker.prepared()
    worker.append(60)
    worker("wait")
    faults.fail("pwrite", errno.EIO, path=f"{0:020d}")
    answer = worker.append(10)
    assert answer["status"] == Status.POISONED
    assert answer["written"] == 60000
    assert (directory / f"{SEGMENT_BYTES:020d}").read_bytes() == bytes(SEGMENT_BYTES)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_zeros_ahead_that_cannot_be_written_poison_like_any_write(directory, start, faults, error):
    worker = start("ahead")
    faults.fail("pwrite", error, path="commitlog/", first=2, count=1)
    answer = worker.append(2)
    assert (answer["status"], answer["written"]) == (Status.POISONED, 2000)
    assert answer["poison"] == ["pwrite", error, f"{directory}/{0:020d}", 2008]
    assert worker.append(1)["offsets"] == [Status.POISONED]
    assert_records(directory, 2)


@pytest.mark.parametrize("part", [0, 100, 4096])
def test_kill_inside_zeros_ahead_loses_nothing_written(directory, start, faults, part):
    worker = start("ahead")
    faults.kill_after_part(part, path="commitlog/", first=2)
    assert worker.append(2) is None
    assert worker.end() == -signal.SIGKILL
    assert_records(directory, 2)
    content = (directory / f"{0:020d}").read_bytes()
    assert content[2000:] == bytes(SEGMENT_BYTES - 2000)


# ---- syncing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_fdatasync_is_never_repeated_and_durable_stays(
    directory, start, faults, mode, error
):
    worker = start(mode)
    worker.append(5)
    assert worker("flush")["durable"] == 5000
    faults.fail("fdatasync", error, path="commitlog/", count=1)
    worker.append(5)
    answer = worker("flush") if mode == "async" else worker("wait")
    assert answer["durable"] == 5000
    assert answer["poison"] == ["fdatasync", error, f"{directory}/{0:020d}", 5000]
    assert worker.append(1)["status"] == Status.POISONED
    last = worker("stop")  # the flusher looks once more
    assert (last["durable"], last["written"]) == (5000, 10000)
    assert (faults.seen(0), faults.hits(0)) == (1, 1), "not one sync after the one that failed"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_is_durable_before_the_end_of_the_segment_before_it(directory, start, faults, mode):
    """The end of a segment is often written in the same turn as the beginning of the next one, so a
    sync of the newest file is not enough."""
    worker = start(mode)
    worker.prepared()
    worker.append(60)
    assert worker("flush")["durable"] == 60000
    faults.fail("fdatasync", errno.EIO, path=f"commitlog/{0:020d}$")
    written = worker.append(10)["written"]
    # The flusher, woken by this write or by its timer, may have failed before the next write.
    assert written in (SEGMENT_BYTES, SEGMENT_BYTES + 5000)
    answer = worker("flush") if mode == "async" else worker("wait")
    assert (answer["durable"], faults.hits(0)) == (60000, 1)
    assert answer["poison"] == ["fdatasync", errno.EIO, f"{directory}/{0:020d}", 60000]


def test_a_flush_that_waits_is_told_of_the_poison(start, faults):
    worker = start("async")
    faults.fail("fdatasync", errno.EIO, path="commitlog/")
    worker.append(1)
    assert "fdatasync" in worker("flush")["error"]


def test_a_slow_sync_holds_durable_back_and_gathers_what_comes_meanwhile(start, faults):
    worker = start()
    faults.hold("fdatasync", path="commitlog/")
    for number in range(1, 11):
        answer = worker.append(1)
        assert (answer["written"], answer["durable"]) == (number * 1000, 0)
        wait_until(lambda: faults.seen(0) > 0)  # the flusher may be slow to wake up
    faults.let_go()  # lets the sync of the first record end
    wait_until(lambda: faults.seen(0) == 1)  # one sync for the nine others
    faults.let_go()
    assert worker("wait")["durable"] == 10000
    assert faults.seen(0) == 0, "and no other"


# ---- preparing segments -------------------------------------------------------------------------


def test_a_full_disk_refuses_at_the_segments_end_and_service_resumes_by_itself(
    directory, start, faults
):
    faults.fail("fallocate", errno.ENOSPC, path="commitlog.spare/", first=2)
    began = time.monotonic()
    worker = start()
    worker.prepared("failures")
    answer = worker.append(100)
    assert answer["offsets"][-1] == Status.NO_SPACE
    assert (answer["written"], answer["poison"]) == (65000, None)
    assert answer["preparer"]["errno"] == errno.ENOSPC
    wait_until(lambda: os.listdir(f"{directory}.spare") == [])  # nothing half made is left
    assert worker("wait")["durable"] == 65000
    hits = wait_until_is(lambda: faults.hits(0), lambda hits: hits >= 6)
    assert hits <= 2 + (time.monotonic() - began) / 0.5, "a try every 500 ms"
    faults.clear()
    wait_until(lambda: worker.append(1)["offsets"][-1] >= 0)
    answer = worker("wait")
    assert answer["durable"] == SEGMENT_BYTES + 1000
    assert_records(directory, 66)


def test_an_error_while_preparing_is_tried_again_with_a_new_file(directory, start, faults):
    faults.fail("fsync", errno.EIO, path="commitlog.spare/", first=2)
    worker = start()
    assert worker.prepared("failures")["preparer"]["errno"] == errno.EIO
    assert worker.append(100)["offsets"][-1] == Status.NOT_READY
    wait_until(lambda: os.listdir(f"{directory}.spare") == [])  # nothing half made is left
    faults.clear()
    worker.prepared()
    assert worker.append(1)["offsets"] == [SEGMENT_BYTES]
    assert worker("state")["poison"] is None
    assert_records(directory, 66)


def test_a_failed_sync_of_the_directory_poisons(directory, start, faults):
    # Two fsyncs belong to the opening of the log, the third to the segment that is prepared.
    faults.fail("fsync", errno.EIO, path="/commitlog$", first=3)
    worker = start()
    poison = wait_until_is(lambda: worker("state")["poison"], bool)
    assert poison[:3] == ["fsync of the directory", errno.EIO, str(directory)]
    assert worker.append(1)["offsets"] == [Status.POISONED]
    time.sleep(0.7)
    assert faults.hits(0) == 1, "not tried again"


# ---- killed processes ---------------------------------------------------------------------------


def test_kill_before_a_write_loses_nothing_that_was_written(directory, start, faults):
    worker = start("async")
    worker.append(20)
    faults.kill("pwrite", path="commitlog/", first=1)
    assert worker.append(5) is None
    assert worker.process.wait(HANG_S) == -signal.SIGKILL
    end = assert_records(directory, 20)
    with open_log(directory, end) as log:
        assert log.read_record(end - 1000) == record_at(end - 1000, 1000)


@pytest.mark.parametrize("part", [1, 4, 500, 1000, 1400])
def test_kill_inside_a_write_leaves_only_whole_records_to_be_found(directory, start, faults, part):
    worker = start("async")
    worker.append(20)
    faults.kill_after_part(part, path="commitlog/", first=1)
    assert worker.append(5) is None
    assert worker.process.wait(HANG_S) == -signal.SIGKILL
    end = assert_records(directory, 20 + part // 1000)
    with open_log(directory, end) as log:
        assert log.read_record(end) is None
        content = (directory / f"{0:020d}").read_bytes()
        assert content[end:] == bytes(SEGMENT_BYTES - end), "the torn part is gone"


@pytest.mark.parametrize("operation", ["fallocate", "fsync"])
def test_kill_while_preparing_leaves_a_log_that_opens(directory, start, faults, operation):
    faults.kill(operation, path="commitlog.spare/", first=2)
    worker = start("async")
    worker.append(60)
    assert worker.process.wait(HANG_S) == -signal.SIGKILL
    names = sorted(os.listdir(directory))
    assert all((directory / name).stat().st_size == SEGMENT_BYTES for name in names)
    with open_log(directory, 0):
        assert os.listdir(f"{directory}.spare") == []


def test_kill_in_the_first_sync_loses_nothing_written(directory, start, faults):
    faults.kill("fdatasync", path="commitlog/", first=1)
    worker = start("sync")
    answer = worker.append(3)
    assert answer is None or answer["durable"] == 0
    assert worker.process.wait(HANG_S) == -signal.SIGKILL
    assert_records(directory, 3)


def test_without_faults_everything_is_durable_at_the_end(directory, start):
    worker = start("sync")
    answer = worker.append(100)
    if answer["offsets"][-1] < 0:
        wait_until(lambda: worker.append(100 - 65)["offsets"][-1] >= 0)
    last = worker("stop")
    assert last["durable"] == last["written"] == SEGMENT_BYTES + 35000
    assert worker.end() == 0
    assert_records(directory, 100)
