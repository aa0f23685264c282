"""Segment scan: how far a segment of the log holds whole records, while a broker may write it.

    found = scan_segment(segment, at=0, followed=False)
    found.end, found.complete, found.damaged

The rules are those of a start (cext/store/log/log_scan.pxd): each record's lengths, magic, place
and checksums; a BLANK ends the segment; what is no record and has valid ones behind it is damage,
which is copied as it is and named; what has none behind it is the end. A record at the end whose
topic or properties end in zeros is one that is being written, since no checksum covers these.
Zeros are what a disk leaves of a page that it has lost, too: they are no end by themselves.

A writer appends in order: so a place that was no record, with a valid one behind, is looked at
again before it is called damage.

Example: a segment of 4096 bytes, records at 0 and 300, the third being written at 600: end 600.
"""

from __future__ import annotations

from collections.abc import Callable

from rmq.backup.manifest import DamagedPlace
from rmq.errors import ProtocolError
from rmq.format.store_files import (
    RESYNC_BYTES,
    Blank,
    Record,
    Segment,
    next_record,
    record_at,
)

TOLD_BYTES = 1 << 20


class SegmentScan:
    """What was found from a place on."""

    def __init__(self, at: int) -> None:
        self.begin = at
        self.end = at  # bytes of the segment that hold whole records, or damage between them
        self.complete = False  # nothing more is written into it
        self.last_record = -1
        self.records = 0
        self.damaged: list[DamagedPlace] = []


def scan_segment(
    segment: Segment, at: int, followed: bool, told: Callable[[int], None] = lambda _: None
) -> SegmentScan:
    """`followed`: a later segment has records, so this one is not written any more."""
    scan = SegmentScan(at)
    before_last, last_ends_in_zero, told_at = -1, False, at
    while scan.end < segment.size:
        at = scan.end
        if at - told_at >= TOLD_BYTES:
            told(at - told_at)
            told_at = at
        try:
            found = record_at(segment.data, at, segment.start + at)
        except ProtocolError as error:
            if _pass_damage(segment, scan, str(error), followed):
                continue
            break
        if isinstance(found, Blank):
            if found.size != segment.size - at:
                what = f"blank says {found.size} bytes, {segment.size - at} are left"
                scan.damaged.append(DamagedPlace(at, segment.size - at, what))
            scan.end, last_ends_in_zero = segment.size, False
            break
        scan.records += 1
        before_last, scan.last_record = scan.last_record, at
        last_ends_in_zero = _ends_in_zero(found)
        scan.end = at + found.size
    if last_ends_in_zero and not followed and scan.end < segment.size:
        scan.end, scan.last_record = scan.last_record, before_last
        scan.records -= 1
    scan.complete = followed or scan.end == segment.size
    told(scan.end - told_at)
    return scan


def _pass_damage(segment: Segment, scan: SegmentScan, what: str, followed: bool) -> bool:
    """Moves behind what is no record; False: the log ends here."""
    at = scan.end
    behind = next_record(segment, at + 1)
    if behind < 0 and not followed:
        return False
    if _found_at(segment, at) is not None:
        return True  # it was being written
    scan.end = behind if behind >= 0 else segment.size
    scan.damaged.append(DamagedPlace(at, scan.end - at, what))
    return True


def _ends_in_zero(record: Record) -> bool:
    return (record.properties or record.topic)[-1:] in (b"\0", b"")


def has_record(segment: Segment) -> bool:
    """Whether something was written into it, which need not begin with a record any more."""
    return next_record(segment, 0) >= 0


def begins_with_record(segment: Segment) -> bool:
    return isinstance(_found_at(segment, 0), Record)


def is_across(segment: Segment, at: int) -> bool:
    """Whether a record, or the BLANK, begins before the place and reaches over it."""
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
