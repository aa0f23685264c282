"""Queue columns: a consume queue's files as numpy arrays, an array for each field.

    columns = queue_columns(Path("/var/rmq"), "T", 0)
    columns.offset              array([0, 1, 2, ..])        offsets in the queue
    columns.physical_offset     where each message's record is in the log
    columns.size                bytes of the record
    columns.tags_code           hash of its tag; in queues of delay levels the time it is due
    columns.store_time          datetime64[ms], UTC: when the broker stored it
    columns.body_size           bytes of the body in it, as it is stored: packed or not

    columns.size.mean(); numpy.diff(columns.store_time).max()       mean size, longest pause

The first four come from the queue's files (entries of 20 bytes, big-endian), the last two from the
heads of the log's records. store_time is NaT (no time) and body_size -1 where the log has no record
of the message: either retention has deleted it, or the files contradict each other, which
`rmq store check` reports. No body is read.

Files are only read, through mappings, which also works beside a running broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rmq.codes import BORNHOST_V6_FLAG, MAGIC_V1, MAGIC_V2, STOREHOSTADDRESS_V6_FLAG
from rmq.format.store_files import BLANK_ENTRY, QUEUE_ENTRY_BYTES, numbered_files

# One entry, and the head of a record up to the length of its body. An IPv6 address of the sender
# moves all that follows by 12 bytes, and so does an IPv6 address of the broker.
QUEUE_ENTRY_TYPE = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
HEAD_TYPE = np.dtype({
    "names": ["magic", "queue_offset", "physical_offset", "sys_flag", "store_ms", "store_ms_v6",
              "body_size", "body_size_v6", "body_size_two_v6"],
    "offsets": [4, 20, 28, 36, 56, 68, 84, 96, 108],
    "formats": [">u4", ">i8", ">i8", ">i4", ">i8", ">i8", ">i4", ">i4", ">i4"],
    "itemsize": 112,
})  # fmt: skip
HEAD_BYTES_MIN = 88  # with two addresses of IPv4; no record is shorter
HEADS_AT_ONCE = 65_536  # gathered at a time, in 7 MB
NO_SIZE = -1


class QueueColumns(NamedTuple):
    """A row for each entry, in the order of the queue; all arrays have the same length."""

    offset: NDArray[np.int64]
    physical_offset: NDArray[np.int64]
    size: NDArray[np.int32]
    tags_code: NDArray[np.int64]
    store_time: NDArray[np.datetime64]
    body_size: NDArray[np.int32]


def queue_columns(
    store: Path,
    topic: str,
    queue_id: int,
    start: int = 0,
    count: int | None = None,
    commit_log: Path | None = None,
) -> QueueColumns:
    """The queue's rows from offset `start` on, at most `count`.

    `commit_log`: where the log is, if not below the store. NotADirectoryError: no such queue.
    """
    directory = store / "consumequeue" / topic / str(queue_id)
    log = commit_log if commit_log is not None else store / "commitlog"
    return read_columns(directory, log, start, count)


def read_columns(
    directory: Path, commit_log: Path, start: int = 0, count: int | None = None
) -> QueueColumns:
    """The same for a queue that is given by its directory."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is no directory: not a queue")
    offset, entries = _entries(directory, start, count)
    physical_offset = entries["physical_offset"].astype(np.int64)
    size = entries["size"].astype(np.int32)
    return QueueColumns(
        offset,
        physical_offset,
        size,
        entries["tags_code"].astype(np.int64),
        *_of_records(commit_log, offset, physical_offset, size),
    )


def _mapped(path: Path, kind: Any) -> NDArray[Any]:
    """The file's whole items, without a part of one at its end."""
    items = path.stat().st_size // np.dtype(kind).itemsize
    if not items:
        return np.empty(0, kind)
    return np.memmap(path, kind, "r", shape=(items,))


def _entries(directory: Path, start: int, count: int | None) -> tuple[NDArray[np.int64], Any]:
    """(offsets, entries), without entries that are not written yet and blanks at a file's front."""
    offsets = [np.empty(0, np.int64)]
    parts = [np.empty(0, QUEUE_ENTRY_TYPE)]
    left = count
    for path in numbered_files(directory)[0]:
        first = int(path.name) // QUEUE_ENTRY_BYTES
        entries = _mapped(path, QUEUE_ENTRY_TYPE)
        if first + len(entries) <= start:
            continue
        blank = (entries["physical_offset"] == BLANK_ENTRY[0]) & (entries["size"] == BLANK_ENTRY[1])
        wanted = np.flatnonzero((entries["size"] != 0) & ~blank)
        wanted = wanted[wanted >= start - first][:left]
        offsets.append(wanted + first)
        parts.append(entries[wanted])
        if left is not None:
            left -= len(wanted)
            if left <= 0:
                break
    return np.concatenate(offsets), np.concatenate(parts)


def _of_records(
    log: Path,
    offset: NDArray[np.int64],
    physical_offset: NDArray[np.int64],
    size: NDArray[np.int32],
) -> tuple[NDArray[np.datetime64], NDArray[np.int32]]:
    """(store times, sizes of bodies) of the records to which these entries lead."""
    times = np.full(len(offset), np.datetime64("NaT", "ms"))
    sizes = np.full(len(offset), NO_SIZE, np.int32)
    segments = [path for path in numbered_files(log)[0] if path.stat().st_size]
    if not segments:
        return times, sizes
    starts = np.array([int(path.name) for path in segments], np.int64)
    place = np.searchsorted(starts, physical_offset, "right") - 1
    for number in np.unique(place[place >= 0]):
        data = _mapped(segments[number], np.uint8)
        rows = np.flatnonzero(place == number)
        rows = rows[physical_offset[rows] - starts[number] <= len(data) - HEAD_BYTES_MIN]
        for first in range(0, len(rows), HEADS_AT_ONCE):
            some = rows[first : first + HEADS_AT_ONCE]
            heads, longer = _heads(data, physical_offset[some] - starts[number])
            found = (
                np.isin(heads["magic"], (MAGIC_V1, MAGIC_V2))
                & (heads["physical_offset"] == physical_offset[some])
                & (heads["queue_offset"] == offset[some])
                & (physical_offset[some] - starts[number] + HEAD_BYTES_MIN + longer <= len(data))
            )
            is_v6 = heads["sys_flag"] & BORNHOST_V6_FLAG != 0
            stored = np.where(is_v6, heads["store_ms_v6"], heads["store_ms"])[found]
            times[some[found]] = stored.astype("datetime64[ms]")
            names = ("body_size", "body_size_v6", "body_size_two_v6")
            bodies = np.choose(longer // 12, [heads[name] for name in names])
            room = size[some] - HEAD_BYTES_MIN - longer  # of the record: no body is larger
            whole = found & (bodies >= 0) & (bodies <= room)
            sizes[some[whole]] = bodies[whole]
    return times, sizes


def _heads(data: NDArray[Any], at: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
    """The heads of the records at these places, and by how many bytes each is longer than the
    shortest head. Bytes that would lie behind the file's end are filled with its last byte, so that
    the last head of a file can be read like all others."""
    bytes_of_head = HEAD_TYPE.itemsize
    packed = np.empty((len(at), bytes_of_head), np.uint8)
    inside = at <= len(data) - bytes_of_head
    if inside.any():
        packed[inside] = np.lib.stride_tricks.sliding_window_view(data, bytes_of_head)[at[inside]]
    at_end = at[~inside, None] + np.arange(bytes_of_head)
    packed[~inside] = data[np.minimum(at_end, len(data) - 1)]
    heads = packed.view(HEAD_TYPE)[:, 0]
    flags = heads["sys_flag"]
    longer = np.where(flags & BORNHOST_V6_FLAG, 12, 0)
    return heads, longer + np.where(flags & STOREHOSTADDRESS_V6_FLAG, 12, 0)
