"""Dump: a store file row by row: a log segment, a queue file, an index file, the checkpoint.

    for row in dump_file(Path(".../commitlog/00000000000000000000")): print(line(row))

The kind follows from the path: .../commitlog/<20 digits>, .../<topic>/<queueId>/<20 digits>,
.../index/<17 digits>, or a file called checkpoint. There is one row for each record, queue entry or
index entry, and one for bytes that are no record. Offsets are log offsets in a segment, queue
offsets in a queue file, and numbers of entries in an index file.

Example:
    0 97 T/0 #0 stored 2026-11-21T12:00:00.000Z KEYS=k TAGS=TagA
    97 end: zeros
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rmq.errors import ProtocolError
from rmq.format.index_file import HEAD, read_header
from rmq.format.message import decode_message, decode_properties
from rmq.format.store_files import (
    BLANK_ENTRY,
    QUEUE_ENTRY,
    QUEUE_ENTRY_BYTES,
    Blank,
    Damage,
    End,
    Record,
    Segment,
    persisted_ends,
    read_checkpoint,
    scan_segment,
)
from rmq.offline.index_check import DEFAULT_SHAPE, NAME, IndexFile, Shape

BODY_BYTES_SHOWN = 200


def time_text(milliseconds: int) -> str:
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dump_log(path: Path, start: int, bodies: bool) -> Iterator[dict[str, Any]]:
    log = path.absolute().parent
    segment = Segment(path, persisted_ends(log.parent, log))
    for found in scan_segment(segment):
        if found.offset < start and isinstance(found, Record):
            continue
        row: dict[str, Any] = {"offset": found.offset}
        if isinstance(found, End):
            row["end"] = found.what
        elif isinstance(found, Damage):
            row |= {"size": found.size, "damage": found.what}
        elif isinstance(found, Blank):
            row |= {"size": found.size, "blank": True}
        else:
            row |= {
                "size": found.size, "topic": found.topic.decode("utf-8", "replace"),
                "queue_id": found.queue_id, "queue_offset": found.queue_offset,
                "sys_flag": found.sys_flag, "stored": time_text(found.store_ms),
                "stored_ms": found.store_ms,
                "properties": decode_properties(found.properties),
            }  # fmt: skip
            if bodies:
                at = found.offset - segment.start
                row["body"] = body_of(segment.data[at : at + found.size])
        yield row
    segment.close()


def body_of(record: bytes) -> str:
    try:
        body = decode_message(record)[0].body
    except ProtocolError as error:
        return f"({error})"
    return body[:BODY_BYTES_SHOWN].decode("utf-8", "backslashreplace")


def dump_queue(path: Path, start: int) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    first = int(path.name) // QUEUE_ENTRY_BYTES
    zeros = 0
    count = len(data) // QUEUE_ENTRY_BYTES
    for index, entry in enumerate(QUEUE_ENTRY.iter_unpack(data[: count * QUEUE_ENTRY_BYTES])):
        if entry == (0, 0, 0):
            zeros += 1
            continue
        if first + index < start:
            continue
        row: dict[str, Any] = {"offset": first + index}
        if entry == BLANK_ENTRY:
            row["blank"] = True
        else:
            row |= {"physical_offset": entry[0], "size": entry[1], "tags_code": entry[2]}
        yield row
    yield {"offset": first + count - zeros, "end": f"{zeros} entries of zeros"}


def dump_checkpoint(path: Path) -> Iterator[dict[str, Any]]:
    found = read_checkpoint(path)
    if found is None:
        yield {"offset": 0, "damage": "shorter than 40 bytes"}
        return
    row = found._asdict()
    row["boot_id"] = found.boot_id.hex()
    for name in ("physic_ms", "logics_ms", "index_ms"):
        row[name.removesuffix("_ms")] = time_text(row[name])
    yield row


def line(row: dict[str, Any]) -> str:
    if "topic" in row:
        properties = " ".join(f"{name}={value}" for name, value in row["properties"].items())
        body = f" body {row['body']!r}" if "body" in row else ""
        return (f"{row['offset']} {row['size']} {row['topic']}/{row['queue_id']} "
                f"#{row['queue_offset']} flags {row['sys_flag']:#x} stored {row['stored']} "
                f"{properties}{body}")  # fmt: skip
    if "end" in row:
        return f"{row['offset']} end: {row['end']}"
    if "damage" in row:
        return f"{row['offset']} {row.get('size', '')} DAMAGE: {row['damage']}"
    if "blank" in row:
        return f"{row['offset']} blank {row.get('size', '')}".rstrip()
    return " ".join(f"{name}={value}" for name, value in row.items())


def dump_index(path: Path, start: int, shape: Shape) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        header = read_header(file.read(HEAD.size).ljust(HEAD.size, b"\0"))
    times = {"begins": time_text(header.begin_ms), "ends": time_text(header.end_ms)}
    yield header._asdict() | times
    if path.stat().st_size != shape.bytes():
        what = f"{path.stat().st_size} bytes, maxHashSlotNum and maxIndexNum make {shape.bytes()}"
        yield {"offset": 0, "damage": what}
        return
    header = header._replace(next_entry=max(1, min(header.next_entry, shape.entries)))
    for number, entry in enumerate(IndexFile(path, header, shape).entries(), 1):
        if number >= start:
            yield {
                "entry": number, "hash": entry.hash, "log_offset": entry.offset,
                "seconds": entry.seconds, "before": entry.before,
            }  # fmt: skip


def dump_file(
    path: Path, start: int = 0, bodies: bool = False, shape: Shape = DEFAULT_SHAPE
) -> Iterator[dict[str, Any]]:
    """The file's rows from offset `start` on. ValueError: by its name it is no file of a store."""
    if path.name == "checkpoint":
        return dump_checkpoint(path)
    if path.parent.name == "index" and NAME.fullmatch(path.name):
        return dump_index(path, start, shape)
    if len(path.name) != 20 or not path.name.isdigit():
        raise ValueError(
            f"{path}: neither a segment nor a queue file nor an index file nor a checkpoint"
        )
    if path.parent.name.isdigit():
        return dump_queue(path, start)
    return dump_log(path, start, bodies)
