"""Goal: the bytes of one log, in any pieces, make another log that is the same; other bytes are
refused.

Method: logs of 64 KiB segments without threads, records of other logs, garbled records.
"""

import random

import pytest
from support.logs import MAX_RECORD_BYTES, SEGMENT_BYTES, fill, open_log, record_at

from cext.base.status import Status
from cext.store.log.preparer import Preparer
from cext.store.log.record import RecordProblem
from cext.testing.store_probe import (
    log_counters,
    log_new_turn,
    log_raw_append,
    log_read,
    log_watermarks,
    log_write_out,
    preparer_step,
)


def raw_of(log):
    """The log as it is in its files, which is what a master sends."""
    marks = log_watermarks(log)
    data = log_read(log, 0, marks["written"])
    assert len(data) == marks["written"]
    return data


def take(log, data, seed):
    """Appends the data in random pieces, with steps of the preparer and of the turn in between."""
    maker, preparer, at, got = random.Random(seed), Preparer(log), 0, 0
    while at < len(data):
        got = min(len(data), max(at, got) + maker.choice((1, 8, 99, 1000, 20000)))
        if got <= at:
            continue
        log_new_turn(log)
        status, _, at = log_raw_append(log, at, data[at:got])
        if status == Status.NOT_READY:
            preparer_step(preparer)
        else:
            assert status in (Status.OK, Status.RING_FULL)
        assert log_write_out(log) == 0
    return at


@pytest.mark.parametrize("seed", range(5))
def test_random_pieces_make_the_same_log(tmp_path, seed):
    with open_log(tmp_path / "a") as a, open_log(tmp_path / "b") as b:
        written = fill(a, 3, size=700 + 13 * seed)
        data = raw_of(a)
        assert take(b, data, seed) == len(data) == log_watermarks(b)["written"]
        assert log_counters(b)["rolls"] == 3
        for offset, record in written:
            assert b.read_record(offset) == record


def test_filler_behind_a_blank_need_not_come(tmp_path):
    with open_log(tmp_path / "a") as a, open_log(tmp_path / "b") as b:
        written = fill(a, 1, size=1000)
        last = max(o for o, _ in written if o < SEGMENT_BYTES) + 1000
        data = raw_of(a)
        take(b, data[:last], 1)
        preparer_step(Preparer(b))
        status, _, end = log_raw_append(b, last, data[last : last + 8])
        assert (status, end) == (Status.OK, SEGMENT_BYTES)
        status, _, end = log_raw_append(b, end, data[end:])
        assert (status, end) == (Status.OK, len(data))


def test_what_is_cut_off_is_taken_with_its_rest(tmp_path):
    with open_log(tmp_path / "log") as log:
        record = record_at(0, 300)
        for size in (0, 1, 7, 8, 90, 299):
            assert log_raw_append(log, 0, record[:size]) == (Status.OK, 0, 0)
        assert log_raw_append(log, 0, record) == (Status.OK, 0, 300)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (bytes(200), RecordProblem.AT_END),
        (b"\1" * 200, RecordProblem.BAD_MAGIC),
        (record_at(400, 300), RecordProblem.BAD_POSITION),
        (record_at(0, 300)[:200] + b"\0" * 100, RecordProblem.BAD_LENGTHS),
        (bytes([0, 0, 0, 90]) + record_at(0, 300)[4:], RecordProblem.BAD_SIZE),
        (bytes([0x7F, 0, 0, 0]) + record_at(0, 300)[4:], RecordProblem.BAD_SIZE),
        (bytes.fromhex("0000ffffcbd43194"), RecordProblem.BAD_SIZE),
        (bytes.fromhex("00000008cbd43194"), RecordProblem.BAD_SIZE),
    ],
)
def test_nothing_of_what_is_no_record_is_taken(tmp_path, data, problem):
    with open_log(tmp_path / "log") as log:
        status, found, end = log_raw_append(log, 0, data)
        assert (status, end) == (Status.CORRUPT, 0)
        assert found in (problem, RecordProblem.BAD_BODY_CRC)
        good = record_at(0, 300)
        # What is good before the bad bytes is taken.
        status, _, end = log_raw_append(log, 0, good + data)
        assert (status, end) == (Status.CORRUPT, 300)


def test_every_flipped_bit_of_a_body_is_seen(tmp_path):
    with open_log(tmp_path / "log") as log:
        record = record_at(0, 150)
        for at in range(88, 145):
            for bit in range(8):
                torn = bytearray(record)
                torn[at] ^= 1 << bit
                assert log_raw_append(log, 0, bytes(torn))[0] == Status.CORRUPT
        assert log_watermarks(log)["appended"] == 0


def test_only_the_end_of_the_log_takes_bytes(tmp_path):
    with open_log(tmp_path / "log") as log:
        assert log_raw_append(log, 0, record_at(0, 200))[2] == 200
        for offset in (0, 199, 201, 1 << 40, -1):
            got = log_raw_append(log, offset, record_at(200, 200))
            assert got == (Status.NOT_FOUND, 0, 200)


def test_a_record_that_this_log_could_not_take_itself_is_refused(tmp_path):
    with open_log(tmp_path / "log") as log:
        got = log_raw_append(log, 0, record_at(0, MAX_RECORD_BYTES + 1))
        assert got == (Status.TOO_LARGE, 0, 0)


def test_a_full_ring_is_said_and_what_came_before_is_taken(tmp_path):
    with open_log(tmp_path / "log") as log:
        data, at = b"", 0
        while at < SEGMENT_BYTES - 2000:
            data, at = data + record_at(at, 1000), at + 1000
        status, _, end = log_raw_append(log, 0, data)
        while status == Status.RING_FULL:
            assert log_write_out(log) == 0
            log_new_turn(log)
            status, _, end = log_raw_append(log, end, data[end:])
        assert (status, end) == (Status.OK, len(data))


def test_a_closed_log_takes_nothing(tmp_path):
    with open_log(tmp_path / "log") as log:
        pass
    assert log_raw_append(log, 0, record_at(0, 200))[0] == Status.CLOSED
