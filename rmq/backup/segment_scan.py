"""Segment scan: how far a segment of the log holds whole records, while a broker may write it.

    found = scan_segment(segment, at=0, followed=False)
    found.end, found.complete, found.damaged

The rules are those of a start, as rmq/format/store_files.py has them: damage between records is
copied as it is, and reported; a record at the end that is being written is left to the next run.

Example: a segment of 4096 bytes with records at 0 and 300 and a third being written at 600: `end`
is 600.
"""

from __future__ import annotations

from collections.abc import Callable

from rmq.backup.manifest import DamagedPlace
from rmq.errors import ProtocolError
from rmq.format import store_files
from rmq.format.store_files import (
    RESYNC_BYTES,
    Blank,
    Damage,
    End,
    Record,
    Segment,
    next_record,
    record_at,
)

TOLD_BYTES = 1 << 20


class SegmentScan:
    """What was found in a segment from a place on."""

    def __init__(self, at: int) -> None:
        self.begin = at
        self.end = at  # up to here there are whole records, or damage between them
        self.complete = False  # the segment is not written any more
        self.last_record = -1
        self.records = 0
        self.damaged: list[DamagedPlace] = []


def scan_segment(
    segment: Segment, at: int, followed: bool, told: Callable[[int], None] = lambda _: None
) -> SegmentScan:
    """`followed`: a later segment has records, so this one is not written any more."""
    scan, told_at = SegmentScan(at), at
    for found in store_files.scan_segment(segment, at, followed) if at < segment.size else ():
        at = found.offset - segment.start
        if at - told_at >= TOLD_BYTES:
            told(at - told_at)
            told_at = at
        if isinstance(found, End):
            break
        scan.end = segment.size if isinstance(found, Blank) else at + found.size
        if isinstance(found, Record):
            scan.records += 1
            scan.last_record = at
        elif isinstance(found, Damage):
            scan.damaged.append(DamagedPlace(at, found.size, found.what))
        elif found.size != segment.size - at:
            what = f"blank says {found.size} bytes, {segment.size - at} are left"
            scan.damaged.append(DamagedPlace(at, segment.size - at, what))
    scan.complete = followed or scan.end == segment.size
    told(scan.end - told_at)
    return scan


def has_record(segment: Segment) -> bool:
    """Whether the segment has any record; its beginning may be damaged."""
    return next_record(segment, 0) >= 0


def begins_with_record(segment: Segment) -> bool:
    return isinstance(_found_at(segment, 0), Record)


def is_across(segment: Segment, at: int) -> bool:
    """Whether a record, or the BLANK, begins before the place and reaches across it."""
    place = next_record(segment, max(0, at - RESYNC_BYTES))
    while 0 <= place < at:
        found = _found_at(segment, place)
        if isinstance(found, Blank):
            return True
        place = place + found.size if found is not None else next_record(segment, place + 1)
        if found is not None and place > at:
            return True
    return False


def _found_at(segment: Segment, at: int) -> Record | Blank | None:
    try:
        return record_at(segment.data, at, segment.start + at)
    except ProtocolError:
        return None
