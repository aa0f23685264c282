"""Queue ends: what the files of all queues held at one moment (`queueEnds`, `queueEnds.synced`).

The layout is described in cext/store/queues/queue_ends.pxd; RocketMQ has no such file.
"""

import struct
import zlib
from typing import NamedTuple

MAGIC = b"rmqE"
VERSION = 1
HEADER = struct.Struct(">4sI16sqq")
ENTRY = struct.Struct(">iqqqqi")
TRAILER = struct.Struct(">qI")


class QueueEnds(NamedTuple):
    """Offsets of a queue's first entry and behind its last one, and the records of both."""

    min_offset: int
    first_physical: int  # log offset; -1: no entry
    end_offset: int
    last_physical: int
    last_size: int


class EndsFile(NamedTuple):
    """All messages below `log_offset` have their queue entries in the files; `queues` may have
    more."""

    boot_id: bytes
    log_offset: int
    anchor: int
    queues: dict[tuple[bytes, int], QueueEnds]


def encode_ends(ends: EndsFile) -> bytes:
    parts = [HEADER.pack(MAGIC, VERSION, ends.boot_id, ends.log_offset, ends.anchor)]
    for (topic, queue_id), entry in ends.queues.items():
        parts.append(bytes([len(topic)]) + topic + ENTRY.pack(queue_id, *entry))
    data = b"".join(parts) + struct.pack(">q", len(ends.queues))
    return data + struct.pack(">I", zlib.crc32(data))


def decode_head(data: bytes) -> tuple[bytes, int, int]:
    """Only boot id, log offset and anchor, because there may be 100,000 queues. ValueError if
    `data` is not a whole file."""
    if len(data) < HEADER.size + TRAILER.size:
        raise ValueError(f"{len(data)} bytes are no queueEnds")
    magic, version, boot_id, log_offset, anchor = HEADER.unpack_from(data)
    _count, crc = TRAILER.unpack_from(data, len(data) - TRAILER.size)
    if magic != MAGIC or version != VERSION:
        raise ValueError("no queueEnds of a version that is known")
    if zlib.crc32(data[:-4]) != crc:
        raise ValueError("wrong checksum")
    return boot_id, log_offset, anchor


def decode_ends(data: bytes) -> EndsFile:
    """The whole file; ValueError if `data` is not one."""
    boot_id, log_offset, anchor = decode_head(data)
    count, _crc = TRAILER.unpack_from(data, len(data) - TRAILER.size)
    queues: dict[tuple[bytes, int], QueueEnds] = {}
    at, end = HEADER.size, len(data) - TRAILER.size
    while at + 1 + data[at] + ENTRY.size <= end:
        topic = data[at + 1 : at + 1 + data[at]]
        at += 1 + len(topic)
        queue_id, *entry = ENTRY.unpack_from(data, at)
        queues[topic, queue_id] = QueueEnds(*entry)
        at += ENTRY.size
    if at != end or len(queues) != count:
        raise ValueError(f"{len(queues)} entries, the file says {count}")
    return EndsFile(boot_id, log_offset, anchor, queues)
