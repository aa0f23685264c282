"""Goal: what reserve, commit, write_out, view and retention promise holds on real files.

Method: logs of 64 KiB segments in a temporary directory, without threads: the test itself runs the
steps of the preparer and the flusher, so it reaches every state on purpose.
Cannot prove: behaviour with threads (test_flusher), failing disks (tests/fault), power cuts.
"""

import os
import signal
import struct
import subprocess
import sys
import time
from functools import partial

import pytest
from support.logs import (
    MAX_RECORD_BYTES,
    SEGMENT_BYTES,
    append,
    append_rolling,
    fill,
    make_log,
    open_log,
    record_at,
)
from support.page_cache import filesystem_of, is_cached
from support.sanitized import SANITIZED
from support.waiting import HANG_S

from cext.base.status import Status
from cext.store.log.commit_log import CommitLog
from cext.store.log.disk_reader import DiskReader
from cext.store.log.flusher import Flusher
from cext.store.log.preparer import Preparer
from cext.testing.store_probe import (
    disk_read,
    disk_reader_counters,
    log_append,
    log_counters,
    log_drop_first_segment,
    log_map_segment,
    log_new_turn,
    log_view,
    log_watermarks,
    log_write_out,
    preparer_counters,
    preparer_step,
)
from rmq.errors import StoreCorruptError, StoreError


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "commitlog"


@pytest.fixture
def log(directory):
    with open_log(directory) as log:
        yield log


def file_of(directory, number):
    return directory / f"{number * SEGMENT_BYTES:020d}"


# ---- opening ------------------------------------------------------------------------------------


def test_a_new_log_has_one_whole_segment_and_all_marks_at_its_end(directory, log):
    assert os.listdir(directory) == ["0" * 20]
    assert file_of(directory, 0).stat().st_size == SEGMENT_BYTES
    assert set(log_watermarks(log).values()) == {0}


def test_a_segment_of_another_size_is_refused_by_name(directory):
    directory.mkdir()
    file_of(directory, 0).write_bytes(bytes(SEGMENT_BYTES - 1))
    with pytest.raises(StoreCorruptError, match=r"0{20}: 65535 bytes"):
        CommitLog(str(directory), segment_bytes=SEGMENT_BYTES).load()


def test_a_gap_between_segments_is_refused_by_name(directory):
    directory.mkdir()
    for number in (1, 3):
        file_of(directory, number).write_bytes(bytes(SEGMENT_BYTES))
    with pytest.raises(StoreCorruptError, match=f"{3 * SEGMENT_BYTES:020d}"):
        CommitLog(str(directory), segment_bytes=SEGMENT_BYTES).load()


def test_a_last_segment_of_length_zero_is_removed(directory):
    directory.mkdir()
    file_of(directory, 1).write_bytes(bytes(SEGMENT_BYTES))
    file_of(directory, 2).write_bytes(b"")
    log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
    assert log.load() == 1
    assert not file_of(directory, 2).exists()
    assert log_watermarks(log)["min"] == SEGMENT_BYTES


def test_names_that_are_no_offsets_are_left_alone(directory):
    directory.mkdir()
    (directory / "notes.txt").write_text("x")
    with open_log(directory) as log:
        assert append(log) == 0
    assert (directory / "notes.txt").read_text() == "x"


def test_set_end_cuts_everything_behind_it(directory):
    with open_log(directory) as log:
        written = fill(log, 3)
    end = written[10][0]
    with open_log(directory, end) as log:
        assert os.listdir(directory) == ["0" * 20]
        content = file_of(directory, 0).read_bytes()
        assert content[:end] == b"".join(data for _, data in written[:10])
        assert content[end:] == bytes(SEGMENT_BYTES - end)
        assert log_watermarks(log) == dict.fromkeys(
            ("appended", "written", "durable", "dispatched"), end
        ) | {"min": 0}
        assert append(log) == end


def test_set_end_after_a_clean_stop_zeroes_eight_bytes_only(directory):
    with open_log(directory) as log:
        written = fill(log, 1)
    end = written[5][0]
    log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
    log.load()
    log.set_end(end, zero_rest=False)
    content = file_of(directory, 0).read_bytes()
    assert content[end : end + 8] == bytes(8)
    assert content[end + 8 : end + 1000] == written[5][1][8:]
    log.close()


def test_set_end_at_a_segments_end_makes_the_next_segment(directory):
    make_log(directory).close()
    with open_log(directory, SEGMENT_BYTES) as log:
        assert sorted(os.listdir(directory)) == [f"{n * SEGMENT_BYTES:020d}" for n in (0, 1)]
        assert append(log) == SEGMENT_BYTES


@pytest.mark.parametrize("end", [-1, SEGMENT_BYTES + 1, SEGMENT_BYTES - 7])
def test_an_end_outside_the_log_or_inside_a_segments_last_bytes_is_refused(directory, end):
    make_log(directory).close()
    log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
    log.load()
    with pytest.raises((ValueError, StoreCorruptError)):
        log.set_end(end)


def test_nothing_can_be_reserved_before_set_end(directory):
    log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
    log.load()
    assert log_append(log, b"x" * 100) == Status.CLOSED


def test_an_open_log_is_not_loaded_anew(directory):
    with open_log(directory) as log:
        written = fill(log, 1)
        with pytest.raises(StoreError, match="already open"):
            log.load()
        offset, data = written[0]
        assert log.read_record(offset) == data


def test_a_log_can_be_read_between_load_and_set_end(directory):
    with open_log(directory) as log:
        written = fill(log, 2)
    log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
    assert log.load() == 3
    offset, data = written[70]
    assert log.read_record(offset) == data
    assert log_view(log, offset, len(data)) in (data, Status.ABSENT)
    assert log_map_segment(log, offset // SEGMENT_BYTES, SEGMENT_BYTES)[
        offset % SEGMENT_BYTES :
    ].startswith(data)
    assert log_map_segment(log, 3, 1) is None


CUT_SHORT = """
import os, sys
from cext.store.log.commit_log import CommitLog
from cext.testing.store_probe import log_counters, log_map_segment
size = 65536
log = CommitLog(sys.argv[1], segment_bytes=size)
log.load()
whole = log_map_segment(log, 0, size)
os.truncate(f"{sys.argv[1]}/{0:020d}", size // 4)
now = log_map_segment(log, 0, size)
assert whole[: size // 4] == now[: size // 4]
assert any(whole[size // 4 :]) and not any(now[size // 4 :])
print(log_counters(log)["pages_lost"])
if len(sys.argv) > 2:  # a fault that is not the log's
    import mmap
    with open(f"{sys.argv[1]}/{size:020d}", "r+b") as file:
        map = mmap.mmap(file.fileno(), size)
        file.truncate(0)
        map[0]
"""


@pytest.mark.parametrize("more", [[], ["foreign"]])
def test_a_segment_cut_short_by_others_reads_as_zeros_and_other_faults_end_the_process(
    directory, more
):
    if more and SANITIZED:
        pytest.skip("the sanitizer reports the fault in its own way")
    with open_log(directory) as log:
        fill(log, 2)
    done = subprocess.run(
        [sys.executable, "-c", CUT_SHORT, directory, *more], capture_output=True, text=True
    )
    assert done.stdout == f"{SEGMENT_BYTES * 3 // 4 // os.sysconf('SC_PAGESIZE')}\n", done.stderr
    assert done.returncode == (-signal.SIGBUS if more else 0)


def test_leftover_spare_files_are_removed_at_start(directory, tmp_path):
    spare = tmp_path / "commitlog.spare"
    spare.mkdir()
    (spare / "preparing").write_bytes(b"x")
    with open_log(directory):
        assert os.listdir(spare) == []


# ---- appending ----------------------------------------------------------------------------------


def test_appended_records_reach_the_file_with_write_out_only(directory, log):
    first, second = append(log), append(log, 300)
    assert (first, second) == (0, 200)
    assert file_of(directory, 0).read_bytes() == bytes(SEGMENT_BYTES)
    assert log_watermarks(log)["written"] == 0
    assert log_write_out(log) == Status.OK
    assert log_watermarks(log)["written"] == 500
    expected = record_at(0) + record_at(200, 300)
    assert file_of(directory, 0).read_bytes() == expected + bytes(SEGMENT_BYTES - 500)


def test_a_turn_is_one_write(log):
    for _ in range(50):
        append(log)
    log_write_out(log)
    log_write_out(log)
    assert log_counters(log)["writes"] == 1


def test_a_record_smaller_than_its_reservation_leaves_no_gap(log):
    data = record_at(0)
    assert log_append(log, data, max_bytes=4000) == 0
    assert append(log) == 200


def test_eight_zero_bytes_follow_the_last_record_even_over_stale_bytes(directory):
    make_log(directory).close()
    file_of(directory, 0).write_bytes(b"\xee" * SEGMENT_BYTES)
    log = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES, max_record_bytes=8192)
    log.load()
    log.set_end(0, zero_rest=False)
    append(log)
    log_write_out(log)
    content = file_of(directory, 0).read_bytes()
    assert content == record_at(0) + bytes(8) + b"\xee" * (SEGMENT_BYTES - 208)


def test_a_reservation_larger_than_allowed_is_too_large_and_changes_nothing(log):
    assert log_append(log, b"", max_bytes=MAX_RECORD_BYTES + 1) == Status.TOO_LARGE
    assert append(log) == 0


def test_a_segment_that_is_full_to_the_last_eight_bytes_needs_no_roll(directory, log):
    for _ in range(7):
        append(log, 8192)
        log_write_out(log)
    assert append(log, 8184) == 7 * 8192
    log_write_out(log)
    assert log_counters(log)["rolls"] == 0
    assert file_of(directory, 0).read_bytes()[-8:] == bytes(8)


def test_without_a_prepared_segment_the_log_says_not_ready_until_there_is_one(log):
    while (offset := append_rolling(log, 8000)[0]) >= 0:
        log_write_out(log)
    assert offset == Status.NOT_READY
    assert log_counters(log)["rolls"] == 0
    assert append(log, 100) >= 0, "a record that still fits must be taken"
    preparer_step(Preparer(log))
    assert append_rolling(log, 8000)[0] == SEGMENT_BYTES


def test_a_roll_writes_a_blank_and_goes_on_at_the_next_segments_start(directory, log):
    written = fill(log, 2)
    offsets = [offset for offset, _ in written]
    assert offsets[65] == SEGMENT_BYTES, "65 records of 1000 bytes and a BLANK fill a segment"
    content = file_of(directory, 0).read_bytes()
    assert struct.unpack(">II", content[65000:65008]) == (SEGMENT_BYTES - 65000, 0xCBD43194)
    assert content[65008:] == bytes(SEGMENT_BYTES - 65008)
    for offset, data in written:
        assert log.read_record(offset) == data


def test_unwritten_records_of_the_old_segment_are_written_by_the_roll(directory, log):
    preparer_step(Preparer(log))
    while append_rolling(log, 1000)[0] < SEGMENT_BYTES:
        pass
    assert log_watermarks(log)["written"] == SEGMENT_BYTES
    assert file_of(directory, 0).read_bytes()[:1000] == record_at(0, 1000)


def test_a_full_ring_is_refused_until_it_is_written_out(directory):
    with open_log(directory, segment_bytes=1 << 20) as log:
        count = 0
        while (offset := append(log, 8000)) >= 0:
            count += 1
        assert offset == Status.RING_FULL
        assert count == (log_counters(log)["ring_bytes"] - 8) // 8000
        log_write_out(log)
        assert append(log, 8000) == count * 8000


def test_a_ring_is_at_least_twice_the_largest_record(directory):
    log = CommitLog(str(directory), ring_bytes=4096, max_record_bytes=1 << 20)
    assert log_counters(log)["ring_bytes"] == 1 << 22


# ---- reading ------------------------------------------------------------------------------------


def test_the_tail_is_seen_before_it_is_written(log):
    append(log)
    assert log_view(log, 0, 200) == record_at(0)


def test_history_is_seen_through_the_page_cache_and_is_the_same(log):
    written = fill(log, 4)
    log_new_turn(log)
    for offset, data in written:
        assert log_view(log, offset, len(data)) == data
    assert 1 <= log_counters(log)["maps"] <= 5


@pytest.mark.parametrize(
    ("offset", "size"), [(-1, 10), (0, 0), (0, 201), (200, 1), (1 << 62, 8), (100, 2**32 - 1)]
)
def test_views_outside_the_log_are_corrupt(log, offset, size):
    append(log)
    assert log_view(log, offset, size) == Status.CORRUPT


def test_a_view_across_a_segments_end_is_corrupt(log):
    fill(log, 2)
    assert log_view(log, SEGMENT_BYTES - 10, 20) == Status.CORRUPT


def test_bytes_given_out_in_a_turn_stay_until_its_end(directory):
    with open_log(directory, segment_bytes=1 << 20) as log:
        for _ in range(8):
            append(log, 8000)
        log_write_out(log)
        # 64,000 bytes are in a ring of 65,536; views serve its newer half, from 31,232 on.
        assert log_view(log, 40000, 8000) == record_at(40000, 8000)
        while (offset := append(log, 1000)) >= 0:
            log_write_out(log)
        assert offset == Status.RING_FULL
        assert log_watermarks(log)["appended"] + 1000 + 8 > 40000 + (1 << 16)
        log_new_turn(log)
        assert append(log, 1000) >= 0


def test_only_so_many_segments_stay_mapped(directory):
    with open_log(directory, mappings=2) as log:
        written = fill(log, 6)
        for offset, data in written:
            log_new_turn(log)
            assert log_view(log, offset, len(data)) == data
        counters = log_counters(log)
        assert counters["maps"] - counters["evictions"] == 2


def test_pages_that_left_the_page_cache_are_absent_and_come_from_a_disk_reader(directory, log):
    written = fill(log, 3)
    Flusher(log).flush()
    fd = os.open(file_of(directory, 0), os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    log_new_turn(log)
    readers = DiskReader(log, threads=1)
    readers.start()
    some = written[10:20]
    if log_view(log, some[0][0], 1000) != Status.ABSENT:
        pytest.skip("this file system keeps pages that are told to leave")
    status, count, data = disk_read(readers, [(o, len(d)) for o, d in some], 1 << 20)
    assert (status, count, data) == (Status.OK, 10, b"".join(d for _, d in some))
    assert disk_reader_counters(readers) == {"reads": 1, "in_flight": 0}
    log_new_turn(log)
    assert log_view(log, some[0][0], 1000) == some[0][1]
    readers.stop()


def test_a_file_that_lost_its_tail_is_never_mapped(directory):
    with open_log(directory) as log:
        fill(log, 2)
        os.truncate(file_of(directory, 0), 5000)
        log_new_turn(log)
        assert log_view(log, 0, 1000) == Status.CORRUPT


def test_read_record_gives_whole_checked_records_only(directory, log):
    written = fill(log, 1)
    assert log.read_record(written[3][0]) == written[3][1]
    assert log.read_record(written[3][0] + 1) is None
    assert log.read_record(-5) is None
    assert log.read_record(1 << 60) is None
    with file_of(directory, 0).open("r+b") as f:
        f.seek(written[3][0] + 500)
        f.write(b"\xff\x00\xff")
    assert log.read_record(written[3][0]) is None


# ---- disk readers -------------------------------------------------------------------------------


@pytest.fixture
def filled(log):
    written = fill(log, 3)
    readers = DiskReader(log, threads=2)
    readers.start()
    yield log, written, readers
    readers.stop()


def test_scattered_records_arrive_in_the_order_asked_for(filled):
    _, written, readers = filled
    some = [written[i] for i in (100, 3, 150, 4, 5, 64, 65)]
    assert disk_read(readers, [(o, len(d)) for o, d in some], 1 << 20) == (
        Status.OK,
        7,
        b"".join(d for _, d in some),
    )


@pytest.mark.parametrize("size", [200, 4096, 8000])
def test_a_record_is_read_whole_by_where_it_begins(log, size):
    written = fill(log, 2, size)
    readers = DiskReader(log, threads=1)
    readers.start()
    try:
        for offset, data in (written[0], written[3], written[-1]):
            got = disk_read(readers, [(offset, 1)], 8192, unsized=True)
            assert got == (Status.OK, 1, data)
            for wrong in (offset + 1, offset + 50, offset + 4, log_watermarks(log)["written"] - 5):
                status = disk_read(readers, [(wrong, 1)], 8192, unsized=True)[0]
                assert status in (Status.CORRUPT, Status.TOO_LARGE)
        if size > 4096:
            got = disk_read(readers, [(written[0][0], 1)], 4096, unsized=True)
            assert got == (Status.TOO_LARGE, 0, b"")
        assert disk_read(readers, [(0, 1)], 4095, unsized=True)[0] == Status.MALFORMED
    finally:
        readers.stop()


def test_a_full_buffer_ends_a_job_early_and_one_that_holds_nothing_is_too_large(filled):
    _, written, readers = filled
    wanted = [(o, len(d)) for o, d in written[:5]]
    assert disk_read(readers, wanted, 2999)[:2] == (Status.OK, 2)
    assert disk_read(readers, wanted, 999) == (Status.TOO_LARGE, 0, b"")


def test_a_damaged_record_stops_a_job_before_it(directory, filled):
    _, written, readers = filled
    with file_of(directory, 0).open("r+b") as f:
        f.seek(written[2][0] + 300)
        f.write(b"\x00\x01\x02")
    wanted = [(o, len(d)) for o, d in written[:5]]
    good = b"".join(d for _, d in written[:2])
    assert disk_read(readers, wanted, 1 << 20) == (Status.CORRUPT, 2, good)
    assert disk_read(readers, wanted, 1 << 20, parse=False)[:2] == (Status.OK, 5)


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ([], Status.MALFORMED),
        ([(0, 100)] * 65, Status.MALFORMED),
        ([(-1, 100)], Status.MALFORMED),
        ([(0, 0)], Status.MALFORMED),
        ([(SEGMENT_BYTES - 10, 20)], Status.CORRUPT),
        ([(1 << 40, 100)], Status.CORRUPT),
    ],
)
def test_jobs_that_cannot_be_right_are_refused(filled, wanted, status):
    assert disk_read(filled[2], wanted, 1 << 20)[0] == status


def test_any_file_can_be_read_by_a_job(filled, tmp_path):
    path = tmp_path / "queue"
    path.write_bytes(bytes(range(200)))
    read = partial(disk_read, filled[2])
    assert read([(10, 20)], 64, path=bytes(path)) == (0, 1, bytes(range(10, 30)))
    assert read([(190, 20)], 64, path=bytes(path)) == (0, 1, bytes(range(190, 200)))
    assert read([(0, 20)], 64, path=bytes(path) + b"x")[0] == Status.NOT_FOUND


def test_a_stopped_reader_refuses_jobs(filled):
    filled[2].stop()
    assert disk_read(filled[2], [(0, 1000)], 4096)[0] == Status.CLOSED


def test_forgotten_pages_are_read_from_the_disk(directory, log):
    if "tmpfs" in filesystem_of(directory):
        pytest.skip("nothing can be forgotten of files that are in memory alone: set TMPDIR")
    fill(log, 3)
    Flusher(log).flush()
    log.close()
    again = CommitLog(str(directory), segment_bytes=SEGMENT_BYTES)
    again.load()
    files = [file_of(directory, number) for number in range(2)]
    assert all(is_cached(file, SEGMENT_BYTES) for file in files)
    end = time.monotonic() + HANG_S
    while is_cached(files[1], SEGMENT_BYTES):  # a page that is in use at this moment stays
        assert time.monotonic() < end
        again.forget_pages(SEGMENT_BYTES + 5)


# ---- retention ----------------------------------------------------------------------------------


def test_a_dropped_segment_is_gone_for_readers_at_once_and_its_file_soon(directory, log):
    written = fill(log, 3)
    Flusher(log).flush()
    preparer = Preparer(log)
    preparer_step(preparer)
    assert log_view(log, 0, 1000) == written[0][1]
    assert log_drop_first_segment(log) == Status.OK
    assert log_watermarks(log)["min"] == SEGMENT_BYTES
    assert log_view(log, 0, 1000) == Status.NOT_FOUND
    assert log.read_record(0) is None
    preparer_step(preparer)
    assert not file_of(directory, 0).exists()
    assert preparer_counters(preparer)["removed"] == 1


def test_segments_are_removed_in_order_also_when_one_cannot_be(directory, log):
    """Otherwise a gap would be left between segments, and the next start would not take them for a
    log."""
    fill(log, 4)
    Flusher(log).flush()
    preparer = Preparer(log)
    preparer_step(preparer)
    assert [log_drop_first_segment(log) for _ in range(2)] == [Status.OK] * 2
    first = file_of(directory, 0)
    first.unlink()
    first.mkdir()  # a directory, which no unlink removes
    for _ in range(2):
        preparer_step(preparer)
        assert file_of(directory, 1).exists()
    assert preparer_counters(preparer)["removed"] == 0
    first.rmdir()
    first.touch()
    preparer_step(preparer)
    assert not first.exists() and not file_of(directory, 1).exists()
    assert preparer_counters(preparer)["removed"] == 2


def test_a_segment_that_is_not_durable_is_not_dropped(log):
    fill(log, 2)
    assert log_drop_first_segment(log) == Status.NOT_READY


def test_the_segment_being_written_is_never_dropped(log):
    fill(log, 2)
    Flusher(log).flush()
    statuses = [log_drop_first_segment(log) for _ in range(4)]
    assert statuses == [Status.OK, Status.OK, Status.NOT_FOUND, Status.NOT_FOUND]


def test_a_dropped_segment_is_recycled_when_the_next_one_is_not_ready(directory, log):
    written = fill(log, 2)
    Flusher(log).flush()
    inode = file_of(directory, 0).stat().st_ino
    assert log_drop_first_segment(log) == Status.OK
    preparer = Preparer(log)  # fill() has not prepared the segment after the active one
    assert preparer_step(preparer) == -1
    assert preparer_counters(preparer)["recycled"] == 1
    assert file_of(directory, 3).stat().st_ino == inode
    content = file_of(directory, 3).read_bytes()
    assert content[:4096] == bytes(4096)
    assert content[5000:6000] == written[5][1], "stale, and told from the living by its position"
    while True:
        offset, _ = append_rolling(log, 3000)
        log_write_out(log)
        if offset >= 3 * SEGMENT_BYTES:
            break
    assert log.read_record(offset) is not None
    assert file_of(directory, 3).read_bytes()[3000:3008] == bytes(8)


def test_a_reopened_log_continues_after_dropped_segments(directory):
    with open_log(directory) as log:
        written = fill(log, 3)
        Flusher(log).flush()
        log_drop_first_segment(log)
        preparer_step(Preparer(log))
        preparer_step(Preparer(log))
    end = written[-1][0]
    with open_log(directory, end) as log:
        assert log_watermarks(log)["min"] == SEGMENT_BYTES
        assert append_rolling(log)[0] == end


def test_the_first_segments_age_is_its_files(directory, log):
    os.utime(file_of(directory, 0), (1_700_000_000, 1_700_000_000.25))
    assert log_counters(log)["first_modified_ms"] == 1_700_000_000_250


def test_using_a_closed_log_is_refused_not_a_crash(log):
    log.close()
    assert log_append(log, b"x" * 100) in (Status.CLOSED, Status.POISONED)
    with pytest.raises((StoreError, ValueError)):
        log.set_end(1 << 40)


def test_new_segments_of_a_warm_log_have_no_block_that_was_never_written(directory):
    # The file is written in two steps.
    log = CommitLog(str(directory), segment_bytes=8 << 20, warm=True)
    log.load()
    log.set_end(0)
    append(log)
    preparer_step(Preparer(log))
    for start in (0, 8 << 20):
        with (directory / f"{start:020d}").open("rb") as file:
            assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 8 << 20
    log.close()


# ---- zeros ahead of small writes ----------------------------------------------------------------


def touched(directory, number=0):
    """How many bytes from the start of a segment were written, as the file system sees it. It also
    counts a page that was read."""
    with file_of(directory, number).open("rb") as file:
        return os.lseek(file.fileno(), 0, os.SEEK_HOLE)


def test_a_small_write_to_new_blocks_is_followed_by_zeros_up_to_the_next_mark(directory):
    with open_log(directory, ahead_bytes=16384) as log:
        for end, expected in ((1000, 16384), (16000, 16384), (17000, 32768), (63000, 65536)):
            while log_watermarks(log)["written"] < end:
                append(log, 1000)
                assert log_write_out(log) == Status.OK
            assert touched(directory) == expected
    content = file_of(directory, 0).read_bytes()
    assert content[:end] == b"".join(record_at(at, 1000) for at in range(0, end, 1000))
    assert content[end:] == bytes(SEGMENT_BYTES - end)


def test_a_large_write_is_not_followed_by_zeros(directory):
    with open_log(directory, ahead_bytes=16384) as log:
        append(log, 4096)
        assert log_write_out(log) == Status.OK
        assert touched(directory) == 8192, "the block of its last 8 zeros, and no more"
        append(log, 200)
        assert log_write_out(log) == Status.OK
        assert touched(directory) == 16384


def test_zeros_ahead_end_with_the_segment_and_begin_anew_with_the_next(directory):
    with open_log(directory, ahead_bytes=1 << 20) as log:
        preparer = Preparer(log)
        assert preparer_step(preparer) == -1
        while log_watermarks(log)["written"] <= SEGMENT_BYTES:
            append_rolling(log, 1000)
            assert log_write_out(log) == Status.OK
        for number in (0, 1):
            assert touched(directory, number) == SEGMENT_BYTES
            assert file_of(directory, number).stat().st_size == SEGMENT_BYTES


def test_blocks_of_a_recycled_segment_are_not_written_twice(directory):
    with open_log(directory, ahead_bytes=16384) as log:
        written = fill(log, 2, 5000)  # these writes are large
        Flusher(log).flush()
        assert log_drop_first_segment(log) == Status.OK
        preparer = Preparer(log)
        assert preparer_step(preparer) == -1
        assert preparer_counters(preparer)["recycled"] == 1
        while append_rolling(log, 1000)[0] < 3 * SEGMENT_BYTES:
            assert log_write_out(log) == Status.OK
        assert log_write_out(log) == Status.OK
        stale = file_of(directory, 3).read_bytes()[5000:10000]
        assert stale == written[1][1], "zeros ahead would have written over it"


def test_after_a_start_zeros_are_written_from_the_end_on(directory):
    with open_log(directory, ahead_bytes=16384) as log:
        append(log, 1000)
        assert log_write_out(log) == Status.OK
    with open_log(directory, end=1000, ahead_bytes=16384) as log:
        append(log, 1000)
        assert log_write_out(log) == Status.OK
        assert touched(directory) == 16384
        content = file_of(directory, 0).read_bytes()
        assert content[:2000] == record_at(0, 1000) + record_at(1000, 1000)
        assert content[2000:] == bytes(SEGMENT_BYTES - 2000)
