"""Overview: a store at a glance: a row for the log, each queue and index file, and the checkpoint.

    for row in overview(Path("/var/rmq")): row.what, row.files, row.size, row.first, row.last

Reads no more than names, lengths and a few bytes of each file, so it is quick on any store.

Example:
    commitlog            12 files  12 GiB   0 .. 12884901888   2026-11-21T09:00 .. 10:12
    consumequeue/T/0      1 file    5.7 MiB  #0 .. #1200
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rmq.errors import ProtocolError
from rmq.format.index_file import HEAD, read_header
from rmq.format.store_files import (
    QUEUE_ENTRY,
    QUEUE_ENTRY_BYTES,
    Blank,
    Segment,
    numbered_files,
    queue_directories,
    read_checkpoint,
    record_at,
)
from rmq.offline.dump import time_text
from rmq.offline.index_check import NAME


class Row(NamedTuple):
    """One part of a store."""

    what: str
    files: int
    size: int  # bytes, by the lengths of the files; holes count
    first: str
    last: str
    since: str | None = None


def overview(root: Path, commit_log: Path | None = None) -> Iterator[Row]:
    """The rows of a store; NotADirectoryError when there is no store."""
    log = commit_log if commit_log is not None else root / "commitlog"
    if not log.is_dir():
        raise NotADirectoryError(f"{log} is no directory: not a store")
    yield _log(log)
    for topic, queue_id, path in queue_directories(root / "consumequeue"):
        name = topic.decode("utf-8", "replace")
        yield _queue(f"consumequeue/{name}/{queue_id}", path)
    yield from _index(root / "index")
    checkpoint = read_checkpoint(root / "checkpoint")
    if checkpoint is not None:
        yield Row("checkpoint", 1, 4096, "", f"{checkpoint.persisted_offset}",
                  time_text(checkpoint.physic_ms))  # fmt: skip
    yield Row("abort" if (root / "abort").exists() else "stopped cleanly", 0, 0, "", "")


def _log(directory: Path) -> Row:
    files, _ = numbered_files(directory)
    size = sum(file.stat().st_size for file in files)
    since = None
    if files and files[0].stat().st_size:
        segment = Segment(files[0])
        try:
            found = record_at(segment.data, 0, segment.start)
            since = None if isinstance(found, Blank) else time_text(found.store_ms)
        except ProtocolError as error:
            since = None if str(error) == "zeros" else f"({error})"
        finally:
            segment.close()
    first = str(int(files[0].name)) if files else ""
    last = str(int(files[-1].name) + files[-1].stat().st_size) if files else ""
    return Row("commitlog", len(files), size, first, last, since)


def _queue(what: str, directory: Path) -> Row:
    files, _ = numbered_files(directory)
    if not files:
        return Row(what, 0, 0, "", "")
    size = sum(file.stat().st_size for file in files)
    first = int(files[0].name) // QUEUE_ENTRY_BYTES
    last = int(files[-1].name) // QUEUE_ENTRY_BYTES + entry_count(files[-1])
    return Row(what, len(files), size, f"#{first}", f"#{last}")


def entry_count(path: Path) -> int:
    """The number of entries before the zeros at a file's end, by a binary search."""
    low, high = 0, path.stat().st_size // QUEUE_ENTRY_BYTES
    with path.open("rb") as file:
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * QUEUE_ENTRY_BYTES)
            if QUEUE_ENTRY.unpack(file.read(QUEUE_ENTRY_BYTES)) == (0, 0, 0):
                high = middle
            else:
                low = middle + 1
    return low


def _index(directory: Path) -> Iterator[Row]:
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    for path in (path for path in paths if NAME.fullmatch(path.name)):
        with path.open("rb") as file:
            header = read_header(file.read(HEAD.size).ljust(HEAD.size, b"\0"))
        yield Row(f"index/{path.name}", 1, path.stat().st_size, "1",
                  str(max(0, header.next_entry - 1)), time_text(header.begin_ms))  # fmt: skip
