"""Stores: directories of brokers that have stopped: replicas of one log, and queues made from it.

    check_stores([Path("a/store"), Path("b/store")], messages, findings, all_copies=True)
        # unequal-logs, not-copied, log-damage, queue-files, store-files

The confirmed offset of a replica is the one in its checkpoint; if that has none (plain masters and
slaves), it is the log's end. Logs are compared byte by byte up to the least confirmed offset.
`all_copies`: each of the stores must have all that was acknowledged.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from rmq.errors import ProtocolError
from rmq.format.store_files import (
    Blank,
    Record,
    Segment,
    numbered_files,
    persisted_ends,
    record_at,
    scan_segment,
)
from rmq.offline.checker import check_store
from tests.ha.findings import Findings
from tests.ha.history import Stored
from tests.ha.messages import Messages

CONFIRMED_AT = 32  # in the checkpoint: confirmPhyOffset
PIECE = 4 << 20


class Log(NamedTuple):
    """The log of a replica: where its first file begins and its last record ends, and the confirmed
    offset."""

    store: Path
    begin: int
    end: int
    confirmed: int


def check_stores(
    stores: list[Path], messages: Messages, findings: Findings, all_copies: bool = False
) -> None:
    logs = []
    for store in stores:
        _check_files(store, findings)
        logs.append(read_log(store))
        findings.counts["stores"] += 1
    for other in logs[1:]:
        _compare(logs[0], other, min(each.confirmed for each in logs), findings)
    if all_copies:
        for log in logs:
            _check_copied(log, messages, findings)


def _check_files(store: Path, findings: Findings) -> None:
    report = check_store(store)
    findings.counts["records"] += report.counts.get("records", 0)
    for problem in report.problems:
        top = Path(problem.file).relative_to(store).parts[0]
        rule = {"commitlog": "log-damage", "consumequeue": "queue-files"}.get(top, "store-files")
        findings.violation(rule, str(problem))


def read_log(store: Path) -> Log:
    files = [path for path in numbered_files(store / "commitlog")[0] if path.stat().st_size]
    begin = int(files[0].name) if files else 0
    end, persisted = begin, persisted_ends(store)
    for path in files:
        segment = Segment(path, persisted)
        try:
            for found in scan_segment(segment):
                if isinstance(found, Record | Blank):
                    end = found.offset + found.size
        finally:
            segment.close()
        if end < segment.start + segment.size:
            break
    return Log(store, begin, end, min(_confirmed(store) or end, end))


def _confirmed(store: Path) -> int:
    """The confirmed offset in the checkpoint; 0: there is none."""
    try:
        page = (store / "checkpoint").read_bytes()
    except FileNotFoundError:
        return 0
    return struct.unpack_from(">q", page, CONFIRMED_AT)[0] if len(page) >= CONFIRMED_AT + 8 else 0


def _bytes(log: Log, at: int, size: int) -> bytes:
    """At most `size` bytes at a log offset, all from the file that has the offset."""
    holder = max((p for p in numbered_files(log.store / "commitlog")[0] if int(p.name) <= at),
                 key=lambda path: int(path.name))  # fmt: skip
    with holder.open("rb") as file:
        file.seek(at - int(holder.name))
        return file.read(size)


def _compare(one: Log, other: Log, end: int, findings: Findings) -> None:
    at = max(one.begin, other.begin)
    while at < end:
        size = min(PIECE, end - at)
        left, right = _bytes(one, at, size), _bytes(other, at, size)
        length = min(len(left), len(right))
        if not length or left[:length] != right[:length]:
            place = next((n for n in range(length) if left[n] != right[n]), 0)
            text = f"{one.store} and {other.store} differ at {at + place}, below {end}"
            findings.violation("unequal-logs", text)
            return
        at += length


def _check_copied(log: Log, messages: Messages, findings: Findings) -> None:
    """Checks that a record begins at each log offset that was acknowledged."""
    segments: dict[int, Segment] = {}
    for path in numbered_files(log.store / "commitlog")[0]:
        if path.stat().st_size:
            segments[int(path.name)] = Segment(path)
    starts = sorted(segments)
    try:
        for stored in messages.stored.values():
            if stored.log_offset >= log.begin and not _has_record(segments, starts, stored, log):
                text = f"{stored.message} was acknowledged at {stored.log_offset} of the log, and "
                text += f"{log.store} ends at {log.end}" if stored.log_offset >= log.end else (
                    f"{log.store} has no record there")  # fmt: skip
                findings.violation("not-copied", text, stored)
    finally:
        for segment in segments.values():
            segment.close()


def _has_record(segments: dict[int, Segment], starts: list[int], stored: Stored, log: Log) -> bool:
    if stored.log_offset >= log.end:
        return False
    start = max(each for each in starts if each <= stored.log_offset)
    try:
        place = stored.log_offset - start
        return isinstance(record_at(segments[start].data, place, stored.log_offset), Record)
    except ProtocolError:
        return False
