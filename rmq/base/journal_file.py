"""Journal file: records appended to one file, each whole or not there.

    header     magic "RMQJ", record with sequence 0: {"identity":"..","version":1}
    record     magic u32 | payload bytes u32 | sequence u64 | crc32 u32 | payload

Numbers are big endian; the checksum covers length, sequence and payload. append() returns when the
records are on the disk. It opens the file each time: a journal that was moved away or replaced
gets no record that its reader would not find.

    journal.create("5f0c..")                a new, empty file in the place of the old one
    journal.append([(7, b"{..}")])
    journal.read()                          JournalContent("5f0c..", [(7, b"{..}")], 63, "")

What a crash left of the last append is no record: read() ends before it. A damaged record in the
middle is passed over, to the next one that is whole. `damage` says in words what was passed over;
who reads judges what that means. After a failed append nothing more may be appended to the file: a
later sync that succeeds would not cover what the failed one lost.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rmq.base import atomic_file

MAGIC = 0x524D514A  # RMQJ
VERSION = 1
HEAD = struct.Struct(">IIQI")
PAYLOAD_BYTES_MAX = 1 << 30


class Header(msgspec.Struct):
    identity: str
    version: int


@dataclass
class JournalContent:
    """What a journal holds."""

    identity: str = ""  # empty: no journal, or none that can be used
    records: list[tuple[int, bytes]] = field(default_factory=list)  # sequence, payload
    size_bytes: int = 0
    damage: str = ""  # what was passed over; empty: nothing
    is_torn: bool = False  # nothing whole follows the damage: a crash may have left it


class JournalFile:
    """Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, identity: str) -> int:
        """An empty journal in the place of what was there; its size. OSError."""
        text = _framed(0, msgspec.json.encode(Header(identity, VERSION)))
        atomic_file.replace(self.path, text)
        return len(text)

    def append(self, records: Iterable[tuple[int, bytes]]) -> int:
        """Returns when they are on the disk; how many bytes they take. OSError."""
        text = b"".join(_framed(sequence, payload) for sequence, payload in records)
        with self.path.open("r+b", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            written = 0
            while written < len(text):
                written += file.write(text[written:])
            os.fsync(file.fileno())
        return len(text)

    def read(self) -> JournalContent:
        """Everything that is whole, in order. OSError other than that there is no file."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return JournalContent()
        first = _record_at(data, 0)
        try:
            header = msgspec.json.decode(first[1] if first else b"", type=Header)
        except msgspec.DecodeError:
            header = Header("", 0)
        if first is None or header.version != VERSION:
            return JournalContent(size_bytes=len(data), damage="its header is damaged")
        content = JournalContent(header.identity, size_bytes=len(data))
        at, last = HEAD.size + len(first[1]), 0
        while at < len(data):
            record = _record_at(data, at)
            if record is not None and record[0] > last:
                content.records.append(record)
                last = record[0]
                at += HEAD.size + len(record[1])
                continue
            following = _next_record(data, at + 1, last)
            content.is_torn = following == len(data)
            content.damage += f"{following - at} bytes at {at} are no record; "
            at = following
        content.damage = content.damage.removesuffix("; ")
        return content


def _framed(sequence: int, payload: bytes) -> bytes:
    return HEAD.pack(MAGIC, len(payload), sequence, _checksum(sequence, payload)) + payload


def _checksum(sequence: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(struct.pack(">QI", sequence, len(payload))))


def _record_at(data: bytes, at: int) -> tuple[int, bytes] | None:
    """The whole record that begins there."""
    if at + HEAD.size > len(data):
        return None
    magic, length, sequence, checksum = HEAD.unpack_from(data, at)
    begin = at + HEAD.size
    if magic != MAGIC or length > PAYLOAD_BYTES_MAX or begin + length > len(data):
        return None
    payload = data[begin : begin + length]
    return (sequence, payload) if _checksum(sequence, payload) == checksum else None


def _next_record(data: bytes, at: int, after: int) -> int:
    """Where the next whole record begins; the end of the data when there is none."""
    mark = MAGIC.to_bytes(4, "big")
    while True:
        at = data.find(mark, at)
        if at < 0:
            return len(data)
        record = _record_at(data, at)
        if record is not None and record[0] > after:
            return at
        at += 1
