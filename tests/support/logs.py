"""Logs: small commit logs, with segments of 64 KiB and records whose bytes tell their offset."""

from contextlib import contextmanager

from cext.store.log.commit_log import CommitLog
from cext.store.log.preparer import Preparer
from cext.testing.record_probe import record_encode
from cext.testing.store_probe import (
    log_append,
    log_new_turn,
    log_watermarks,
    log_write_out,
    preparer_step,
)

SEGMENT_BYTES = 1 << 16
MAX_RECORD_BYTES = 8192


def make_log(directory, end=0, **options):
    """A log that is open for writing at `end`; 64 KiB ring, 8 KiB records at most."""
    log = CommitLog(
        str(directory),
        **{
            "segment_bytes": SEGMENT_BYTES,
            "ring_bytes": 1 << 16,
            "max_record_bytes": MAX_RECORD_BYTES,
            **options,
        },
    )
    log.load()
    log.set_end(end)
    return log


@contextmanager
def open_log(directory, end=0, **options):
    """make_log, closed at the end of the block."""
    log = make_log(directory, end, **options)
    try:
        yield log
    finally:
        log.close()


def record_at(offset, size=200, queue_offset=0):
    """A record of `size` bytes that belongs at physical `offset`."""
    body = bytes((offset + i) & 0xFF for i in range(size - 92))
    return record_encode(topic=b"T", body=body, physical_offset=offset, queue_offset=queue_offset)


def append(log, size=200):
    """Appends one record to the active segment; returns its physical offset, or a status.
    AssertionError if the record did not fit into the segment."""
    offset = log_watermarks(log)["appended"]
    data = record_at(offset, size)
    at = log_append(log, data)
    if at in (offset,) or at < 0:
        return at
    raise AssertionError(f"rolled from {offset} to {at}: use append_rolling")


def append_rolling(log, size=200):
    """Appends one record, in the next segment if need be; (offset, data) or (status, None)."""
    marks = log_watermarks(log)
    offset = marks["appended"]
    left = log.segment_bytes - offset % log.segment_bytes
    if size + 8 > left:
        offset += left
    data = record_at(offset, size)
    at = log_append(log, data)
    if at < 0:
        return at, None
    assert at == offset
    return at, data


def fill(log, segments, size=1000):
    """Writes `segments` segments and a bit of the next; returns [(offset, data)]. Needs no
    threads."""
    preparer = Preparer(log)
    written = []
    goal = log_watermarks(log)["appended"] + segments * log.segment_bytes
    while log_watermarks(log)["appended"] <= goal:
        log_new_turn(log)
        offset, data = append_rolling(log, size)
        if offset < 0:
            assert preparer_step(preparer) == -1
            offset, data = append_rolling(log, size)
        assert offset >= 0
        written.append((offset, data))
        assert log_write_out(log) == 0
    return written
