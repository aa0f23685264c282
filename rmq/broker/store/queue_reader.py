"""Queue reader: a queue's entries for slow requests, from the core or from the files.

An entry is 20 bytes: physical offset i64, record bytes i32, tags code i64, big endian. The core
holds the entries that are in no file yet (queue_snapshot); all before them are in
    <store>/consumequeue/<topic>/<queue id>/<20 digits: byte offset of the file's first entry>
where entry n is at byte 20 * n of the sequence of files. An entry that is absent, torn or deleted
reads as None and is never guessed. With `or_fail`, trouble with the disk raises an error instead.

Searches by time read the records' store timestamps. These do not decrease along a queue, so a
binary search needs at most log2(entries) records.

Example: with store times 10, 20, 20, 30 at offsets 0-3, search(20) is 1 and search(20, upper=True)
is 2; search(31) is 4, search(5) is 0.
"""

import os
import struct
from pathlib import Path
from typing import Protocol

import msgspec

from rmq.broker.core_seam import LogCalls, QueueCalls
from rmq.codes import BORNHOST_V6_FLAG
from rmq.errors import StoreError
from rmq.format.store_files import QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from rmq.format.time_search import search_offset

QUEUE_DIGITS_MAX = 5  # of a queue id, as many as TOPIC_QUEUES_MAX has
_SYS_FLAG_AT = 36
_BORN_HOST_AT = 48
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")


class CoreCalls(LogCalls, QueueCalls, Protocol):
    """What is used here of the core."""


class Entry(msgspec.Struct, frozen=True):
    """One consume-queue entry."""

    physical_offset: int
    size: int
    tags_code: int


class QueueView(msgspec.Struct, frozen=True):
    """A queue as of one moment."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int  # of the next entry
    memory_offset: int  # of the first entry in `memory`
    memory: bytes


class QueueReader:
    """Owned by the control thread; may wait for the disk. Topics must be checked names."""

    def __init__(self, core: CoreCalls, directory: Path, file_bytes: int) -> None:
        self._core = core
        self._directory = directory
        self._file_bytes = file_bytes // QUEUE_ENTRY_BYTES * QUEUE_ENTRY_BYTES

    def range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(first readable offset, next offset); (0, 0) for a queue that holds nothing yet."""
        return self._core.queue_range(topic.encode(), queue_id) or (0, 0)

    def ranges(self, topic: str, count: int) -> list[tuple[int, int]]:
        """range() of the queues 0 to count - 1, with few calls of the reactor, not one per
        queue."""
        return self._core.queue_ranges(topic.encode(), count)

    def count(self, topic: str) -> int:
        """One more than the highest number of a queue that has files."""
        try:
            names = [path.name for path in (self._directory / topic).iterdir()]
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if _is_queue(name)), default=0)

    def view(self, topic: str, queue_id: int) -> QueueView | None:
        snapshot = self._core.queue_snapshot(topic.encode(), queue_id)
        if snapshot is None:
            return None
        return QueueView(topic, queue_id, *snapshot)

    def entry(self, view: QueueView, offset: int, or_fail: bool = False) -> Entry | None:
        found = self.entries(view, offset, 1, or_fail)
        return found[0] if found else None

    def entries(
        self, view: QueueView, offset: int, count: int, or_fail: bool = False
    ) -> list[Entry]:
        """Up to `count` entries from `offset`; fewer at the end, before a gap, or where the disk
        cannot be read (with `or_fail` the latter is a StoreError)."""
        if offset < view.min_offset:
            return []
        count = max(0, min(count, view.max_offset - offset))
        data = b""
        if offset < view.memory_offset:
            in_files = min(count, view.memory_offset - offset)
            data = self._read_files(view, offset, in_files, or_fail)
            if len(data) < in_files * QUEUE_ENTRY_BYTES:
                return _parse(data)
        start = max(0, offset - view.memory_offset) * QUEUE_ENTRY_BYTES
        rest = count * QUEUE_ENTRY_BYTES - len(data)
        return _parse(data + view.memory[start : start + rest])

    def store_time(self, view: QueueView, offset: int) -> int:
        """When the message at this offset was stored, in ms; -1 when it cannot be read."""
        entry = self.entry(view, offset)
        if entry is None:
            return -1
        record = self._core.read_record(entry.physical_offset)
        return record_store_time(record) if record is not None else -1

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        view = self.view(topic, queue_id)
        return self.store_time(view, offset) if view is not None else -1

    def search(self, topic: str, queue_id: int, time_ms: int, upper: bool = False) -> int:
        """The first offset stored at or after time_ms (the next offset when there is none); with
        `upper` the last one stored at or before it (the first offset when there is none)."""
        view = self.view(topic, queue_id)
        if view is None:
            return 0
        return search_offset(
            view.min_offset,
            view.max_offset,
            lambda offset: self.store_time(view, offset),
            time_ms,
            upper,
        )

    def _read_files(self, view: QueueView, offset: int, count: int, or_fail: bool) -> bytes:
        directory = self._directory / view.topic / str(view.queue_id)
        at, end = offset * QUEUE_ENTRY_BYTES, (offset + count) * QUEUE_ENTRY_BYTES
        pieces = []
        while at < end:
            start = at // self._file_bytes * self._file_bytes
            wanted = min(end, start + self._file_bytes) - at
            piece = _read(directory / f"{start:020d}", at - start, wanted, or_fail)
            pieces.append(piece)
            if len(piece) < wanted:
                break
            at += wanted
        return b"".join(pieces)


def _is_queue(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= QUEUE_DIGITS_MAX


def record_store_time(record: bytes) -> int:
    """The store timestamp of a stored record, which follows the born host of 8 or 20 bytes."""
    if len(record) < _BORN_HOST_AT + 28:
        return -1
    (sys_flag,) = _I32.unpack_from(record, _SYS_FLAG_AT)
    at = _BORN_HOST_AT + (20 if sys_flag & BORNHOST_V6_FLAG else 8)
    return int(_I64.unpack_from(record, at)[0])


def _parse(data: bytes) -> list[Entry]:
    """The entries before the first one that was never written."""
    found = []
    for at in range(0, len(data) - QUEUE_ENTRY_BYTES + 1, QUEUE_ENTRY_BYTES):
        offset, size, tags_code = QUEUE_ENTRY.unpack_from(data, at)
        if offset < 0 or size <= 0:
            break
        found.append(Entry(offset, size, tags_code))
    return found


def _read(path: Path, at: int, count: int, or_fail: bool) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.pread(descriptor, count, at)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return b""
    except OSError as error:
        if or_fail:
            raise StoreError(f"{path} cannot be read now: {error.strerror}") from None
        return b""
