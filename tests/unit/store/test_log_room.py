"""Goal: a log that nobody writes to takes little of the disk, a log that is written to always finds
that its file has blocks, and a full disk is noticed before a message is taken.

Method: sparse segments of 256 MiB on a real file system; the test runs the preparer's steps. The
file system counts blocks (st_blocks). Cannot prove: that the preparer is quick enough beside a
reactor (tests/fault/test_busy_disk.py), file systems that cannot allocate.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.logs import record_at

from cext.base.status import Status
from cext.store.log.commit_log import CommitLog
from cext.store.log.preparer import Preparer
from cext.testing.record_probe import record_encode
from cext.testing.store_probe import (
    log_append,
    log_new_turn,
    log_watermarks,
    log_write_out,
    preparer_counters,
    preparer_step,
)

MIB = 1 << 20
SEGMENT = 256 * MIB
ROOM = 16 * MIB
RECORD = 1 * MIB
SLACK = 64 << 10  # blocks that a file system needs to find a file


def open_room_log(directory: Path, end: int = 0, zero_rest: bool = True, **more: int) -> CommitLog:
    log = CommitLog(
        str(directory), **{"segment_bytes": SEGMENT, "max_record_bytes": 2 * MIB, **more}
    )
    log.load()
    log.set_end(end, zero_rest)
    return log


def disk_bytes(directory: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in directory.iterdir())


def append(log: CommitLog, size: int = RECORD) -> int:
    """Appends a record of so many bytes; returns its offset, or a status. (Behind a roll the record
    names a wrong place.)"""
    log_new_turn(log)
    at = log_watermarks(log)["appended"]
    return log_append(
        log, record_encode(topic=b"T", body=bytes(size - 92), physical_offset=at, queue_offset=0)
    )


def write(log: CommitLog, size: int, preparer: Preparer | None = None) -> int:
    """Writes records of 1 MiB until so much is written, or one is refused. Returns the status of
    the refusal, or 0."""
    until = log_watermarks(log)["appended"] + size
    while log_watermarks(log)["appended"] < until:
        offset = append(log)
        assert log_write_out(log) == Status.OK
        if offset < 0:
            return offset
        if preparer is not None:
            assert preparer_step(preparer) == -1
    return 0


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "commitlog"


def test_a_new_log_has_a_file_of_full_size_and_blocks_for_its_first_messages(
    directory: Path,
) -> None:
    log = open_room_log(directory)
    assert preparer_step(Preparer(log)) == -1
    (file,) = directory.iterdir()
    assert file.stat().st_size == SEGMENT
    assert ROOM <= disk_bytes(directory) <= ROOM + SLACK
    log.close()


def test_blocks_stay_ahead_of_the_writer_and_the_next_file_waits_for_the_whole_of_this_one(
    directory: Path,
) -> None:
    log = open_room_log(directory)
    preparer = Preparer(log)
    seen = set()
    while preparer_counters(preparer)["prepared"] == 0:
        assert write(log, RECORD, preparer) == 0
        written = log_watermarks(log)["written"]
        held = os.stat(log.path_of(0)).st_blocks * 512
        assert held >= written + ROOM // 2
        seen.add((held + SLACK) // MIB)
        assert len(seen) < 6, "so many requests that they would be noticed"
    assert seen >= {33, 256} and written <= SEGMENT // 8 + RECORD
    assert disk_bytes(directory) >= 2 * SEGMENT
    log.close()


def test_a_writer_whose_room_is_used_up_waits_and_goes_on(directory: Path) -> None:
    log = open_room_log(directory)
    assert write(log, ROOM + RECORD) == Status.NOT_READY
    assert ROOM - RECORD - 8 <= log_watermarks(log)["written"] <= ROOM
    assert disk_bytes(directory) <= ROOM + SLACK, "a write needed a block that was not there"
    preparer = Preparer(log)
    assert preparer_step(preparer) == -1
    assert write(log, ROOM, preparer) == 0
    assert log.poison_cause() is None
    log.close()


def test_the_next_segment_is_whole_when_it_is_entered(directory: Path) -> None:
    log = open_room_log(directory, segment_bytes=32 * MIB)
    preparer = Preparer(log)
    assert write(log, 34 * MIB, preparer) == 0
    assert os.stat(log.path_of(32 * MIB)).st_blocks * 512 >= 32 * MIB
    assert preparer_step(preparer) == -1
    assert sorted(os.listdir(directory)) == [f"{n * 32 * MIB:020d}" for n in range(3)]
    log.close()


@pytest.mark.parametrize("zero_rest", [True, False], ids=["killed", "stopped"])
def test_a_start_leaves_what_is_not_used_to_others(directory: Path, zero_rest: bool) -> None:
    log = open_room_log(directory)
    assert write(log, 3 * MIB, Preparer(log)) == 0
    end, before = log_watermarks(log)["written"], disk_bytes(directory)
    log.close()
    log = open_room_log(directory, end, zero_rest)
    assert preparer_step(Preparer(log)) == -1
    assert disk_bytes(directory) <= max(before, end + ROOM) + SLACK
    assert log.read_record(0) is not None
    assert write(log, 40 * MIB, Preparer(log)) == 0
    log.close()


@pytest.mark.parametrize("stale_from", [1, 5, 100])
def test_nothing_behind_the_end_is_left_of_a_file_with_holes(
    directory: Path, stale_from: int
) -> None:
    log = open_room_log(directory)
    assert write(log, 2 * MIB) == 0
    end, path = log_watermarks(log)["written"], log.path_of(0)
    log.close()
    with open(path, "r+b") as file:
        file.seek(end + stale_from * MIB)
        file.write(record_at(end + stale_from * MIB))
    log = open_room_log(directory, end)
    with open(path, "rb") as file:
        file.seek(end)
        while part := file.read(4 * MIB):
            assert part.count(0) == len(part)
    log.close()


def test_a_file_made_by_another_broker_with_holes_gets_room(directory: Path) -> None:
    directory.mkdir()
    with (directory / f"{0:020d}").open("wb") as file:
        file.write(bytes(RECORD))
        file.truncate(SEGMENT)
    log = open_room_log(directory, RECORD, zero_rest=False)
    assert disk_bytes(directory) >= RECORD + ROOM
    assert write(log, ROOM - 2 * RECORD) == 0
    log.close()


def test_a_record_larger_than_the_usual_room_fits_a_new_log(directory: Path) -> None:
    log = open_room_log(directory, max_record_bytes=40 * MIB)
    assert append(log, 39 * MIB) == 0
    log.close()


TINY_ROOM = """
import sys
from pathlib import Path
from cext.base.status import Status
from cext.store.log.commit_log import CommitLog
from cext.store.log.preparer import Preparer
from cext.testing.store_probe import (
    log_append, log_new_turn, log_watermarks, log_write_out, preparer_step)

disk = Path(sys.argv[1])

def start(end):
    log = CommitLog(str(disk / "commitlog"), segment_bytes=256 << 20)
    log.load()
    log.set_end(end)
    return log

log = start(0)
log.close()
with (disk / "ballast").open("wb", 0) as file:      # all that is left of the disk
    with (disk / "commitlog" / f"{0:020d}").open("r+b") as segment:
        segment.truncate(65536)
        segment.truncate(256 << 20)
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
log = start(0)
preparer = Preparer(log)
status = 0
while status >= 0:
    log_new_turn(log)
    status = log_append(log, bytes(1000))
    assert log_write_out(log) == 0
print(log_watermarks(log)["written"])
preparer_step(preparer)
assert log_append(log, bytes(1000)) == Status.NO_SPACE
(disk / "ballast").unlink()
preparer_step(preparer)
assert log_append(log, bytes(1000)) > 0
assert log_write_out(log) == 0 and log.poison_cause() is None
"""

FULL_DISK = """
import os, sys
from pathlib import Path
from cext.base.status import Status
from cext.store.log.commit_log import CommitLog
from cext.store.log.preparer import Preparer
from cext.testing.store_probe import (
    log_append, log_new_turn, log_watermarks, log_write_out, preparer_step)

MIB = 1 << 20
disk = Path(sys.argv[1])
log = CommitLog(str(disk / "commitlog"), segment_bytes=256 * MIB)
log.load()
log.set_end(0)
preparer = Preparer(log)
status = 0
while status >= 0:
    log_new_turn(log)
    status = log_append(log, bytes(MIB))
    assert log_write_out(log) == 0
    waits = preparer_step(preparer)
assert (status, waits) == (Status.NO_SPACE, 500), (status, waits)
print(log_watermarks(log)["written"] // MIB, log.poison_cause())
end = log_watermarks(log)["written"]
log.close()
log = CommitLog(str(disk / "commitlog"), segment_bytes=256 * MIB)
log.load()
log.set_end(end, len(sys.argv) > 2)                # a start on the full disk
assert log_append(log, bytes(4 * MIB)) == Status.NOT_READY     # nobody has asked the disk yet
assert preparer_step(Preparer(log)) == 500
assert log_append(log, bytes(4 * MIB)) == Status.NO_SPACE
assert log_append(log, bytes(MIB // 8)) == end, "what there is, is used"
assert log_write_out(log) == 0
(disk / "ballast").unlink()
preparer_step(Preparer(log))                # not all that is wanted, but a piece of it
assert log_append(log, bytes(MIB)) > end
assert log_write_out(log) == 0 and log.poison_cause() is None
"""


@pytest.mark.parametrize("more", [[], ["zero_rest"]], ids=["stopped", "killed"])
def test_a_disk_that_fills_up_refuses_and_loses_nothing(tmp_path: Path, more: list[str]) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={128 * MIB}"]
    if subprocess.run(["mount", *options, "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no small file system here")
    try:
        with (disk / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 88 * MIB)
        done = subprocess.run(
            [sys.executable, "-c", FULL_DISK, str(disk), *more], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        written, poison = done.stdout.split(maxsplit=1)
        assert int(written) >= 15 and poison.strip() == "None"
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_start_with_hardly_any_room_asks_for_more(tmp_path: Path) -> None:
    """Small records reach the end of the room before so much is written that more is asked for."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={64 * MIB}"]
    if subprocess.run(["mount", *options, "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no small file system here")
    try:
        done = subprocess.run(
            [sys.executable, "-c", TINY_ROOM, str(disk)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < 256 << 10, "more room than is meant here"
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
