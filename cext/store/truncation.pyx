"""Truncation: cuts a store's log back to an offset, with all that was derived from the cut part.

A slave whose log differs from its master's cuts it where the two were last the same. The process
may be killed or the power may fail at any moment: the log then ends where it ended before or at the
offset, and no file knows of the cut part:

    1 begin_truncation()    DIR/truncation is written and synced: from now on it will happen
    2 truncate_store()      called before any other code reads the files. Removes what may know of
                            records at or above the offset: queueEnds that know them, rmq's part of
                            the checkpoint, files of the key index and of timers; then segments,
                            the newest first. The segment in which the log is cut reads as zeros
                            from the offset on. Each step is synced before the next
    3 recover()             as at any start: queue entries beyond the log's end are cut
    4 the note              the caller that began the truncation changes its own files by the note
                            it wrote then (rmq/broker/tasks/truncation.py: offsets of groups)
    5 end_truncation()      DIR/truncation is removed, and the removal is synced

Steps 2 to 5 are the same for a start that finds DIR/truncation and for ShardCore.truncate(), which
stops the core of a slave and opens it again. Both do all of them from the beginning, and each step
may have been done before. Nothing is appended before step 5 (ShardCore.start() refuses).

    DIR/truncation   u32 magic "rmqX" | u32 version 1 | i64 offset | 2 * i64 timers
                     u32 bytes of the note | note | u32 crc32 of all before         big-endian

Example: the log ends at 9,000,000, the offset is 5,000,100, segments are 4 MiB: the segment that
starts at 8,388,608 is removed, and the one at 4,194,304 is zeros from byte 805,796 on.
"""
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from libc.stdint cimport int64_t, uint8_t

from cext.store.log.checkpoint cimport CHECKPOINT_BYTES, OWN_AT
from cext.store.queues.queue_ends cimport EndsEntry, EndsHeader, ends_header, ends_next

from cext.store.log.commit_log import SEGMENT_NAME
from rmq.base import atomic_file
from rmq.base.durable_directory import sync_directory
from rmq.errors import StoreCorruptError, StoreError

FORM = ">IIqqqI"
FORM_BYTES, CRC_BYTES = 36, 4
MAGIC, VERSION = 0x726D7158, 1
FLUSHED_AT, CONFIRM_AT = 24, 32                 # in the checkpoint: log offsets
INDEX_HEAD_BYTES, INDEX_END_AT = 40, 24         # in an index file: log offset of its newest record
RUNS_HEAD_BYTES, RUN_BYTES, RUN_END_AT = 32, 48, 40     # of a timer keeper's checkpoint
SLOT_BYTES, SLOTS_AT = 512, (0, 512, 4096)      # of a timer position: timer_position.pxd
SLOT_FORM, SLOT_CRC_AT, SLOT_END_AT = ">IIqqqqqqqqqq", 4, 56


class Truncation(NamedTuple):
    """`timers`: every timed message due before timers[0] (ms of the wall clock) was delivered below
    `offset`, or comes after timers[1] in its queue. `note`: bytes of the caller that began it."""

    offset: int
    timers: tuple[int, int]
    note: bytes


def marker_path(root) -> str:
    return os.path.join(os.fspath(root), "truncation")


def begin_truncation(root, int64_t offset, bytes note, timers) -> None:
    """Makes the next start cut the log at `offset`, even after a power cut. A record must start at
    `offset`, or the last one end there. OSError: nothing will be cut."""
    if offset < 0:
        raise ValueError(f"a log cannot end at {offset}")
    data = struct.pack(FORM, MAGIC, VERSION, offset, *timers, len(note)) + note
    atomic_file.replace(Path(marker_path(root)), data + struct.pack(">I", zlib.crc32(data)))


def wanted_truncation(root) -> "Truncation | None":
    """The truncation that was begun, or None. StoreCorruptError: its file cannot be read, and the
    log must not be used as it is."""
    try:
        with open(marker_path(root), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    if len(data) >= FORM_BYTES + CRC_BYTES:
        magic, version, offset, due_ms, fed, size = struct.unpack_from(FORM, data)
        if (struct.unpack(">I", data[-CRC_BYTES:])[0] == zlib.crc32(data[:-CRC_BYTES])
                and (magic, version) == (MAGIC, VERSION) and offset >= 0
                and len(data) == FORM_BYTES + size + CRC_BYTES):
            return Truncation(offset, (due_ms, fed), data[FORM_BYTES:-CRC_BYTES])
    raise StoreCorruptError(
        f"{marker_path(root)} is damaged: the log was being cut, and it is not known where; remove "
        f"the store and have it copied from the master, or remove that file to keep what is there")


def end_truncation(root) -> None:
    """Step 5: notes that the truncation is done."""
    remove(marker_path(root))
    sync_directory(root)


def truncate_store(root, commitlog, index, int64_t segment_bytes, cut) -> None:
    """Step 2; call it before CommitLog.load(). `index`: directory of the key index, or empty."""
    offset = cut.offset
    root = os.fspath(root)
    for name in ("queueEnds", "queueEnds.synced"):
        if not ends_fit(os.path.join(root, name), offset):
            remove(os.path.join(root, name))
    sync_directory(root)
    truncate_checkpoint(os.path.join(root, "checkpoint"), offset)
    truncate_timers(root, offset, cut.timers)
    if index and os.path.isdir(index):
        truncate_index(index, offset)
    truncate_segments(commitlog, segment_bytes, offset)


def forget_end(root) -> None:
    """Removes every note of where the log ends, for an empty log that will begin elsewhere."""
    remove(os.path.join(root, "rmqKnownEnd"))
    truncate_checkpoint(os.path.join(root, "checkpoint"), 0)
    sync_directory(root)


def truncate_segments(directory, int64_t segment_bytes, int64_t offset) -> None:
    starts = sorted(int(name) for name in os.listdir(directory)
                    if SEGMENT_NAME.fullmatch(name)) if os.path.isdir(directory) else []
    if starts and offset < starts[0]:
        raise StoreError(f"{directory}: the log is to be cut at {offset}, but starts at "
                         f"{starts[0]}: remove the store and have it copied from the master")
    active = offset - offset % segment_bytes
    for start in reversed(starts):
        if start > active:
            os.unlink(f"{directory}/{start:020d}")
            sync_directory(directory)                # so that the log never has a gap
    if active in starts:
        with open(f"{directory}/{active:020d}", "r+b") as file:
            file.truncate(offset - active)
            file.truncate(segment_bytes)
            os.fsync(file.fileno())


cdef bint ends_fit(path, int64_t offset) except -1:
    """Whether a file of queue ends knows no record at or above the offset. False also for a file
    that cannot be read."""
    cdef EndsHeader header
    cdef EndsEntry entry
    cdef int64_t at = 0
    cdef bytes data
    cdef const uint8_t* text
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return True
    text = <const uint8_t*> <const char*> data
    if not ends_header(text, len(data), &header) or header.log_offset > offset:
        return False
    while ends_next(text, len(data), &at, &entry):
        if entry.ends.last_physical >= offset:
            return False
    return True


def truncate_checkpoint(path, int64_t offset) -> None:
    """Clears rmq's own part and lowers the offsets to `offset`; the times in it stay true."""
    if not os.path.exists(path):
        return
    with open(path, "r+b") as file:
        page = bytearray(file.read(CHECKPOINT_BYTES).ljust(CHECKPOINT_BYTES, b"\0"))
        page[OWN_AT:] = bytes(CHECKPOINT_BYTES - OWN_AT)
        for at in (FLUSHED_AT, CONFIRM_AT):
            (was,) = struct.unpack_from(">q", page, at)
            struct.pack_into(">q", page, at, min(was, offset))
        file.seek(0)
        file.write(page)
        file.flush()
        os.fsync(file.fileno())


def truncate_index(directory, int64_t offset) -> None:
    """Removes files with keys of cut records, and all newer files; they are indexed again."""
    gone = False
    for name in sorted(name for name in os.listdir(directory) if name.isdigit()):
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            head = file.read(INDEX_HEAD_BYTES)
        gone = gone or len(head) < INDEX_HEAD_BYTES or (
            struct.unpack_from(">q", head, INDEX_END_AT)[0] >= offset)
        if gone:
            remove(path)
    sync_directory(directory)


def truncate_timers(root, int64_t offset, timers) -> None:
    """Makes timed messages that were delivered at or above the offset be delivered again. Runs may
    no longer have these messages. Such runs are removed before the position is set back, and timed
    messages are read from their queue again."""
    directory = os.path.join(root, "rmqTimers")
    path = os.path.join(directory, "position")
    if not os.path.isdir(directory):
        return
    beyond = os.path.exists(path) and truncate_position(path, offset, None)
    for clock in ("wall", "steady"):
        inner = os.path.join(directory, clock)
        if os.path.isdir(inner) and (
                beyond or not runs_fit(os.path.join(inner, "checkpoint"), offset)):
            shutil.rmtree(inner)
    sync_directory(directory)
    if not os.path.exists(path):
        return
    truncate_position(path, offset, timers)
    remove(os.path.join(root, "config", "timercheck"))  # it would pass for a newer one of Apache's
    if os.path.isdir(os.path.join(root, "config")):
        sync_directory(os.path.join(root, "config"))


def runs_fit(path, int64_t offset) -> bool:
    """Whether no run of a timer keeper has messages from beyond the offset. False also without a
    file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return False
    ends = range(RUNS_HEAD_BYTES + RUN_END_AT, len(data) - CRC_BYTES, RUN_BYTES)
    return all(struct.unpack_from(">q", data, at)[0] <= offset for at in ends)


def truncate_position(path, int64_t offset, timers) -> bool:
    """Returns whether a slot knows more than the log will have. Unless `timers` is None, such slots
    are set back to how far the deliveries below the offset had come."""
    beyond = False
    with open(path, "r+b") as file:
        for at in SLOTS_AT:
            file.seek(at)
            slot = file.read(SLOT_BYTES)
            if len(slot) < SLOT_BYTES or struct.unpack_from(">q", slot, SLOT_END_AT)[0] <= offset:
                continue
            beyond = True
            if timers is not None:
                file.seek(at)
                file.write(slot_before(slot, offset, timers))
        file.flush()
        os.fsync(file.fileno())
    return beyond


def slot_before(slot, int64_t offset, timers) -> bytes:
    (magic, crc, serial, wall_ms, wall_place, steady_ms, steady_place, fed, _, shift_ms, base_ms,
     boot) = struct.unpack_from(SLOT_FORM, slot)
    if wall_ms >= timers[0]:
        wall_ms, wall_place = timers[0], 0
    if steady_ms >= timers[0] + shift_ms:
        steady_ms, steady_place = timers[0] + shift_ms, 0
    rest = struct.pack(SLOT_FORM, magic, 0, serial, wall_ms, wall_place, steady_ms, steady_place,
                       min(fed, timers[1]), offset, shift_ms, base_ms, boot)[SLOT_CRC_AT + 4:]
    good = crc == zlib.crc32(slot[SLOT_CRC_AT + 4:SLOT_CRC_AT + 4 + len(rest)])
    fresh = struct.pack(">II", magic, zlib.crc32(rest) if good else 0) + rest
    return fresh.ljust(SLOT_BYTES, b"\0")


def remove(path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
