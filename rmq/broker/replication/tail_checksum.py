"""Tail checksum: a checksum of the last bytes of a slave's log, by which its master sees whether
both have the same log.

    tail_of(settings, (0, 9000))             as slave: from, end, CRC-32: "4904 9000 2774892531"
    tail_fault(settings, (0, 12000), text)   as master: what is wrong with it, or nothing

Without a controller nothing else tells two logs apart: a slave may have what the master lost in a
power cut, and when the master's log has grown again, it has other bytes at the same offsets. The
slave would acknowledge those without having them.

The bytes are read from the file, at most TAIL_BYTES and only from one segment. What fills a segment
behind the head of its BLANK is not part of the log; the file may hold old bytes there. So a log
that ends with the end of a segment is compared only up to that head. RocketMQ's brokers neither
send such a checksum nor check one.
"""

from __future__ import annotations

import os
import zlib

from rmq.config import Settings
from rmq.format.message import MAGIC_BLANK

TAIL_BYTES = 4096
REST_BYTES_MAX = 1 << 17  # of a record, without its body
_MAGIC = MAGIC_BLANK.to_bytes(4, "big")
DIGITS_MAX = 19


def tail_of(settings: Settings, log_range: tuple[int, int]) -> str:
    """The text for the master; empty for an empty log. OSError: the log cannot be read."""
    start, end = log_range
    if start >= end:
        return ""
    end = _end_of_data(settings, start, end)
    segment = settings.mappedFileSizeCommitLog
    first = max(start, (end - 1) // segment * segment, end - TAIL_BYTES)
    return f"{first} {end} {_crc(settings, first, end)}"


def _end_of_data(settings: Settings, start: int, end: int) -> int:
    """Where the data ends: behind the head of the BLANK, if the log ends with one. The BLANK begins
    less than a record before the log's end, and says how far away that is. If several match, the
    first counts: the filler may come from a file that was used before, with its own BLANK."""
    segment: int = settings.mappedFileSizeCommitLog
    if end % segment:
        return end
    first: int = max(start, end - segment, end - settings.maxMessageSize - REST_BYTES_MAX)
    data = _read(settings, first, end)
    magic = data.find(_MAGIC, 4)
    while magic >= 0:
        if int.from_bytes(data[magic - 4 : magic], "big") == len(data) - magic + 4:
            return first + magic + 4
        magic = data.find(_MAGIC, magic + 1)
    return end


def tail_fault(settings: Settings, log_range: tuple[int, int], text: str) -> str:
    """What is wrong with the slave's checksum; empty: nothing. OSError: the log here cannot be
    read."""
    parts = text.split(" ")
    if len(parts) != 3 or not all(p.isdecimal() and len(p) <= DIGITS_MAX for p in parts):
        return f"{text[:80]!r} is no end of a log"
    first, end, crc = map(int, parts)
    start, own_end = log_range
    if end > own_end:
        return (
            f"this slave's log ends at {end}, beyond the master's end at {own_end}: it has what is "
            "lost here. Make it the master"
        )
    segment = settings.mappedFileSizeCommitLog
    if not 0 < end - first <= TAIL_BYTES or first // segment != (end - 1) // segment:
        return f"{text[:80]!r} is no end of a log"
    if first < start or _crc(settings, first, end) == crc:
        return ""  # these bytes have left the log here and cannot be compared
    return (
        f"this slave's log has other bytes than the master's below {end}, as when a power cut took "
        "the end of the master's. Make the slave the master if it has what was lost here, or empty "
        "the slave's store, and it copies this log"
    )


def _crc(settings: Settings, first: int, end: int) -> int:
    return zlib.crc32(_read(settings, first, end))


def _read(settings: Settings, first: int, end: int) -> bytes:
    """Reads bytes that are all in one segment."""
    segment = settings.mappedFileSizeCommitLog
    at = first // segment * segment
    descriptor = os.open(settings.commit_log_directory / f"{at:020d}", os.O_RDONLY)
    try:
        return os.pread(descriptor, end - first, first - at)
    finally:
        os.close(descriptor)
