"""Index file: files of the key index, in plain Python: twin of cext/store/index.

    index/<17 digits>   40 bytes of header, slots x i32, entries x 20 bytes; all big-endian

Tests compare the compiled half with it, and tools read index files with it. Nothing here writes to
a store; `build` makes the bytes of a file for comparison.

Example: key_hash("t", "a") is 112658; the chain of "t#a" starts in slot 112658 % slots.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from rmq.format.message import java_hash

HEAD = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
SLOT = struct.Struct(">i")


class Header(NamedTuple):
    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    used_slots: int
    next_entry: int  # number of the next entry; the first is 1


class Entry(NamedTuple):
    hash: int
    offset: int  # of the record in the log
    seconds: int  # since begin_ms
    before: int  # entry before it in the chain; 0: none


class Put(NamedTuple):
    """One key of one record."""

    hash: int
    offset: int
    store_ms: int


def positive(value: int) -> int:
    """Java's Math.abs, and 0 for the one int that has no absolute value."""
    return 0 if value == -(2**31) else abs(value)


def key_hash(topic: str, key: str, tag: bool = False) -> int:
    """The hash that the index keeps: of topic#key for a key, of topic#T#tag for a tag."""
    return positive(java_hash(f"{topic}#T#{key}" if tag else f"{topic}#{key}"))


def hashes_of(topic: str, properties: dict[str, str], rolled_back: bool = False) -> list[int]:
    """The hashes of a record's keys, in the order in which they are put."""
    if rolled_back:
        return []
    unique, tags = properties.get("UNIQ_KEY"), properties.get("TAGS")
    out = [] if unique is None else [key_hash(topic, unique)]
    out += [key_hash(topic, key) for key in properties.get("KEYS", "").split(" ") if key]
    return out + ([key_hash(topic, tags, tag=True)] if tags else [])


def file_bytes(slots: int, entries: int) -> int:
    return HEAD.size + slots * SLOT.size + entries * ENTRY.size


def build(puts: Iterable[Put], slots: int, entries: int, before: Header | None = None) -> bytes:
    """The whole file that holds these keys."""
    out = bytearray(file_bytes(slots, entries))
    head = Header(0, 0, 0, 0, 0, 1)
    if before is not None:
        head = Header(before.end_ms, before.end_ms, before.end_offset, before.end_offset, 0, 1)
    for put in puts:
        if head.next_entry == 1:
            head = head._replace(begin_ms=put.store_ms, begin_offset=put.offset)
        at = HEAD.size + put.hash % slots * SLOT.size
        newest = SLOT.unpack_from(out, at)[0]
        seconds = max(0, min((put.store_ms - head.begin_ms) // 1000, 2**31 - 1))
        place = HEAD.size + slots * SLOT.size + head.next_entry * ENTRY.size
        ENTRY.pack_into(out, place, put.hash, put.offset, seconds, newest)
        SLOT.pack_into(out, at, head.next_entry)
        head = head._replace(
            end_ms=put.store_ms, end_offset=put.offset, next_entry=head.next_entry + 1,
            used_slots=head.used_slots + (newest == 0),
        )  # fmt: skip
    HEAD.pack_into(out, 0, *head)
    return bytes(out)


def read_header(data: bytes) -> Header:
    return Header(*HEAD.unpack_from(data))
