"""Store files: reads segments of the commit log, queue files and the checkpoint in plain Python.

    commitlog/<20 digits: first offset>             records and, at the end, a BLANK
    consumequeue/<topic>/<queueId>/<20 digits>      entries: log offset i64, size i32, tags code i64
    checkpoint                                      4096 bytes, see below

This is the twin of cext/store (log_scan, queue_scan, checkpoint), with which the offline checker
and the dump tool read. Nothing here writes. Damage is a value, not an exception, so that a scan can
go on.

Checkpoint: five i64 (physicMsgTimestamp, logicsMsgTimestamp, indexMsgTimestamp,
masterFlushedOffset, confirmPhyOffset), zeros, and at 1024 the part of rmq: "rmqC", version 1, 16
bytes boot id, copy of physicMsgTimestamp, persisted offset, synced offset, queue count, two
anchors, CRC-32 of all that.

A store says where its log ends in the checkpoint and in queueEnds, or in its queues if Apache's
broker has stopped cleanly. Readers of the log need that: Segment(path, persisted_ends(root)).

Example: a segment with a record of 97 bytes at 0, then zeros: scan_segment gives Record(offset=0,
size=97) and End(offset=97, what="zeros").
"""

import mmap
import os
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Container, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rmq.codes import (
    BORNHOST_V6_FLAG,
    MAGIC_V1,
    MAGIC_V2,
    STOREHOSTADDRESS_V6_FLAG,
    SYS_FLAGS_KNOWN,
)
from rmq.errors import ProtocolError
from rmq.format.message import MAGIC_BLANK, record_crc_fits
from rmq.format.queue_ends import decode_head
from rmq.limits import RECORD_BYTES_MIN

QUEUE_ENTRY = struct.Struct(">qiq")
QUEUE_ENTRY_BYTES = QUEUE_ENTRY.size
BLANK_ENTRY = (0, 0x7FFFFFFF, 0)
RESYNC_BYTES = 64 << 20
CHECKPOINT_OWN_AT = 1024

_HEAD = struct.Struct(">IIIiiqqi")
_NAME = re.compile(r"\d{20}")
_OWN = struct.Struct(">4sI16sqqqqqqI")


class Record(NamedTuple):
    offset: int  # in the log
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_ms: int
    properties: bytes
    body_at: int  # from the record's start
    body_bytes: int


class Blank(NamedTuple):
    """The rest of a segment."""

    offset: int
    size: int


class Damage(NamedTuple):
    """Bytes that are no record, with a valid record behind them, here or in a later segment."""

    offset: int
    size: int
    what: str


class End(NamedTuple):
    """No record from here on: only zeros, or the remains of a torn write."""

    offset: int
    what: str


class Segment:
    """One mapped file of the commit log; close() when done."""

    def __init__(self, path: Path, persisted_ends: Container[int] = frozenset()) -> None:
        """`persisted_ends`: as the function of that name returns them."""
        self.path = path
        self.persisted_ends = persisted_ends
        self.start = int(path.name)
        self.size = path.stat().st_size
        with path.open("rb") as file:
            self.data: mmap.mmap | bytes = b""
            if self.size:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        if isinstance(self.data, mmap.mmap):
            self.data.close()


class Checkpoint(NamedTuple):
    physic_ms: int
    logics_ms: int
    index_ms: int
    own_problem: str  # why rmq's own part is not believed; "": it is
    boot_id: bytes
    persisted_offset: int
    synced_offset: int
    queue_count: int


def numbered_files(directory: Path) -> tuple[list[Path], list[Path]]:
    """(files named by 20 digits, in order; everything else)."""
    entries = sorted(directory.iterdir()) if directory.is_dir() else []
    named = [path for path in entries if _NAME.fullmatch(path.name)]
    return named, [path for path in entries if not _NAME.fullmatch(path.name)]


def record_at(data: mmap.mmap | bytes, at: int, offset: int) -> Record | Blank:
    """The record at position `at`, which must name `offset` as its own log offset.

    ProtocolError says why there is none.
    """
    left = len(data) - at
    if left < 8:
        raise ProtocolError(f"{left} bytes left")
    size, magic = struct.unpack_from(">II", data, at)
    if magic == MAGIC_BLANK:
        return Blank(offset, size)
    if size == 0 and magic == 0:
        raise ProtocolError("zeros")
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise ProtocolError(f"magic {magic:08X}")
    if not RECORD_BYTES_MIN <= size <= left:
        raise ProtocolError(f"size {size}, {left} bytes left")
    _size, _magic, crc, queue_id, _flag, queue_offset, position, sys_flag = _HEAD.unpack_from(
        data, at
    )
    if position != offset:
        raise ProtocolError(f"record of offset {position}")
    if sys_flag & ~SYS_FLAGS_KNOWN:
        raise ProtocolError(f"unknown system flags {sys_flag:#x}")
    to = at + 48 + (20 if sys_flag & BORNHOST_V6_FLAG else 8)
    end = at + size
    if to + 32 > end:
        raise ProtocolError("fields do not add up")
    (store_ms,) = struct.unpack_from(">q", data, to)
    to += 8 + (20 if sys_flag & STOREHOSTADDRESS_V6_FLAG else 8) + 12
    body, to = _counted(data, to, 4, end)
    topic, to = _counted(data, to, 1 if magic == MAGIC_V1 else 2, end)
    properties, to = _counted(data, to, 2, end)
    if to != end:
        raise ProtocolError("fields do not add up")
    if body and zlib.crc32(body) & 0x7FFFFFFF != crc:
        raise ProtocolError("body checksum")
    if not record_crc_fits(data[at:end], properties):
        raise ProtocolError("record checksum")
    body_at = end - at - len(properties) - 2 - len(topic) - (1 if magic == MAGIC_V1 else 2)
    return Record(offset, size, topic, queue_id, queue_offset, sys_flag, store_ms, properties,
                  body_at - len(body), len(body))  # fmt: skip


def _counted(data: mmap.mmap | bytes, at: int, width: int, end: int) -> tuple[bytes, int]:
    if at + width > end:
        raise ProtocolError("fields do not add up")
    length = int.from_bytes(data[at : at + width], "big")
    if length > end - at - width:
        raise ProtocolError("fields do not add up")
    at += width
    return data[at : at + length], at + length


def scan_segment(
    segment: Segment, start: int = 0, followed: bool = False
) -> Iterator[Record | Blank | Damage | End]:
    """Everything in a segment from position `start`, by the rules of a start of the broker
    (cext/store/log/log_scan.pxd); a Blank or an End comes last.

    Damage is reported with the size up to the next valid record, be it zeros or anything else.
    `followed`: a later segment has records, so the log does not end here, and instead of an End
    there is damage up to the segment's end.
    """
    at = start
    while True:
        found: Record | Blank | Damage
        try:
            found = _counting(segment, at, followed)
        except ProtocolError as error:
            if followed and at >= len(segment.data) > 0:
                return  # the last record fills the segment
            behind = next_record(segment, at + 1)
            if behind < 0 and not followed:
                yield End(segment.start + at, str(error))
                return
            end = behind if behind >= 0 else len(segment.data)
            damage = Damage(segment.start + at, end - at, str(error))
            found = _written_meanwhile(segment, at, followed) or damage
        yield found
        at += found.size
        if isinstance(found, Blank) or (isinstance(found, Damage) and at >= len(segment.data)):
            return


def _counting(segment: Segment, at: int, followed: bool) -> Record | Blank:
    """Like record_at(), except for a record that ends in zeros: no checksum covers topic and
    properties, so the record may be torn. It counts if a record follows it, or damage that is not
    the log's end, or if the store says that it has the whole record."""
    found = record_at(segment.data, at, segment.start + at)
    behind = at + found.size
    if isinstance(found, Blank) or not _ends_in_zero(found) or behind >= len(segment.data):
        return found
    try:
        record_at(segment.data, behind, segment.start + behind)
    except ProtocolError:
        is_damage = any(segment.data[behind : behind + 8])
        is_whole = is_damage and (followed or next_record(segment, behind + 1) >= 0)
        if not is_whole and segment.start + behind not in segment.persisted_ends:
            raise ProtocolError("its topic or properties end in zeros") from None
    return found


def _ends_in_zero(record: Record) -> bool:
    return (record.properties or record.topic)[-1:] in (b"\0", b"")


def _written_meanwhile(segment: Segment, at: int, followed: bool) -> Record | Blank | None:
    """A record that a serving broker has written since the scan looked here. A broker writes in
    order: if there is something behind a place, the place was written before."""
    try:
        return _counting(segment, at, followed)
    except ProtocolError:
        return None


def next_record(segment: Segment, at: int) -> int:
    """Position of the first valid record from `at` on, at most RESYNC_BYTES away, or -1."""
    # A record is longer than its magic number, so the number is not in the last byte. Before Python
    # 3.11.5 (Debian 12 has 3.11.2) mmap.find() looks at the byte behind its range, which may not
    # exist.
    stop = min(len(segment.data) - 1, at + RESYNC_BYTES)
    while True:
        at = segment.data.find(b"\xda\xa3\x20", at + 4, stop) - 4
        if at < 0:
            return -1
        try:
            if isinstance(record_at(segment.data, at, segment.start + at), Record):
                return at
        except ProtocolError:
            pass
        at += 1


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint; None when there is no file or it is too short."""
    try:
        page = path.read_bytes()
    except OSError:
        return None
    if len(page) < 40:
        return None
    physic_ms, logics_ms, index_ms = struct.unpack_from(">qqq", page)
    page = page.ljust(4096, b"\0")
    magic, version, boot, copy, persisted, synced, queues, _anchor, _synced_anchor, crc = (
        _OWN.unpack_from(page, CHECKPOINT_OWN_AT)
    )
    problem = ""
    if magic != b"rmqC" or version != 1:
        problem = "none"
    elif zlib.crc32(page[CHECKPOINT_OWN_AT : CHECKPOINT_OWN_AT + _OWN.size - 4]) != crc:
        problem = "checksum"
    elif copy != physic_ms:
        problem = "another broker wrote the store since"
    return Checkpoint(physic_ms, logics_ms, index_ms, problem, boot, persisted, synced, queues)


def encode_checkpoint(synced_offset: int) -> bytes:
    """The checkpoint for a store that no broker has used yet: all of its log, up to
    `synced_offset`, is on the disk."""
    own = _OWN.pack(b"rmqC", 1, bytes(16), 0, synced_offset, synced_offset, 0, -1, -1, 0)[:-4]
    own += struct.pack(">I", zlib.crc32(own))
    return (bytes(CHECKPOINT_OWN_AT) + own).ljust(4096, b"\0")


def persisted_ends(root: Path, commit_log: Path | None = None) -> Container[int]:
    """Log offsets up to which the store says that everything is written: those at which a start may
    begin (rows S4, S5 and S6 in cext/store/recovery.pxd). A record that ends at one of them is
    whole, even if it ends in zeros and nothing follows (E7 in cext/store/log/log_scan.pxd). Call it
    before reading the log, because a broker may be writing both. `commit_log`: where the log is, if
    not below the store. Queues are read only once, and only when a record needs them, because there
    may be many thousand."""
    ends: set[int] = set()
    checkpoint = read_checkpoint(root / "checkpoint")
    if checkpoint is not None and not checkpoint.own_problem:
        ends.add(checkpoint.synced_offset)
        if is_present_boot(checkpoint.boot_id):
            ends.add(checkpoint.persisted_offset)
        is_clean = False
    else:
        is_clean = not (root / "abort").exists()
    for name, is_synced in (("queueEnds", False), ("queueEnds.synced", True)):
        with suppress(OSError, ValueError):
            boot_id, log_offset, _ = decode_head((root / name).read_bytes())
            if is_synced or is_present_boot(boot_id):
                ends.add(log_offset)
    return _CleanEnds(ends, root, commit_log or root / "commitlog") if is_clean else frozenset(ends)


class _CleanEnds:
    """The persisted ends of a store that Apache's broker has stopped cleanly."""

    def __init__(self, ends: set[int], root: Path, commit_log: Path) -> None:
        """`ends`: those known without reading the queues."""
        self._ends = ends
        self._root = root
        self._commit_log = commit_log

    def __contains__(self, offset: object) -> bool:
        return offset in self._ends or offset == self._of_queues

    @cached_property
    def _of_queues(self) -> int:
        """The end that the queues show; -1: they show none, or a broker has begun to write them
        meanwhile."""
        with suppress(OSError, ProtocolError):
            end = _clean_end(self._root / "consumequeue", self._commit_log)
            return -1 if (self._root / "abort").exists() else end
        return -1


def _clean_end(queues: Path, commit_log: Path) -> int:
    """The log's end in a store that Apache's broker has stopped cleanly: behind the highest record
    that a queue names. ProtocolError: the log has no such record with this size and a right
    checksum."""
    physical, size = -1, 0
    for _topic, _queue_id, directory in queue_directories(queues):
        with suppress(OSError):  # a queue that cannot be read is passed over
            entry = _last_entry(directory)
            if sum(entry) > physical + size:
                physical, size = entry
    segments = [path for path in numbered_files(commit_log)[0] if int(path.name) <= physical]
    if not segments:
        raise ProtocolError("no segment")
    # Read, not mapped, as queues are, too: in a mapping a disk error would end this process
    # (SIGBUS).
    with segments[-1].open("rb") as file:
        at = physical - int(segments[-1].name)
        left = max(os.fstat(file.fileno()).st_size - at, 0)
        found = record_at(os.pread(file.fileno(), min(size, left), at), 0, physical)
    if isinstance(found, Blank) or found.size != size:
        raise ProtocolError(f"{found.size} bytes, a queue says {size}")
    return physical + size


def _last_entry(directory: Path) -> tuple[int, int]:
    """(log offset, size) of a queue's last record; (-1, 0): its files have none."""
    for path in reversed(numbered_files(directory)[0]):
        with path.open("rb") as file:
            used = _used_entries(file.fileno())
            if used > 0:  # an empty file was made ahead, or a crash came while it was made
                entry = _entry(file.fileno(), used - 1)
                return (-1, 0) if entry == BLANK_ENTRY[:2] else entry
    return -1, 0


def _used_entries(fd: int) -> int:
    """How many entries are before the first empty one. It is a binary search, because most of a
    file is zeros and there may be many thousand queues."""

    def is_none(index: int) -> bool:
        physical, size = _entry(fd, index)
        return physical < 0 or size <= 0

    return bisect_left(range(os.fstat(fd).st_size // QUEUE_ENTRY_BYTES), True, key=is_none)


def _entry(fd: int, index: int) -> tuple[int, int]:
    """(log offset, size) of an entry; zeros if the file has become shorter."""
    data = os.pread(fd, QUEUE_ENTRY_BYTES, index * QUEUE_ENTRY_BYTES)
    physical, size, _code = QUEUE_ENTRY.unpack(data.ljust(QUEUE_ENTRY_BYTES, b"\0"))
    return physical, size


def current_boot_id() -> bytes:
    """The boot id of the running kernel; zeros if it has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


def is_present_boot(boot_id: bytes) -> bool:
    """Whether a file with this id was written since the machine was started. False when the running
    kernel has no boot id."""
    return boot_id == current_boot_id() != bytes(16)


def queue_directories(directory: Path) -> Iterator[tuple[bytes, int, Path]]:
    """(topic, queue id, path) of every directory that looks like a queue."""
    if not directory.is_dir():
        return
    for topic in sorted(path.name for path in directory.iterdir() if path.is_dir()):
        for name in sorted(path.name for path in (directory / topic).iterdir()):
            if name.isdigit() and str(int(name)) == name:
                yield os.fsencode(topic), int(name), directory / topic / name
