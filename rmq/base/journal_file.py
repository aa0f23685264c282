"""Journal file: records appended to one file, each whole or not there.

    header     magic "RMQJ", record with sequence 0:
               {"identity":"5f0c..","version":1,"bases":{"topics.json":6}}
    record     magic u32 | payload bytes u32 | sequence u64 | crc32 u32 | payload

Numbers are big endian. A record's checksum covers the journal's identity, length, sequence and
payload. So a record of another journal is not taken for one of this journal, and if the header is
damaged, the records can be read with an identity that is known from elsewhere. `bases` is for the
owner: the sequences on which the journal builds.

    journal.create("5f0c..", {"topics.json": 6})    a new file replaces the old one
    journal.append(7, b"[..]")                      returns when the record is on the disk
    journal.read()                                  JournalContent("5f0c..", [(7, b"[..]")], ..)

append() opens the file each time and expects its end where the last append left it, so that no
record goes into a journal that was moved away or replaced and is not read any more. After a failed
append nothing is appended before the next create(): a later successful sync would not cover what
the failed one lost, and the remains of the failed record would be in front of the next one.

A record is appended only when the one before it is on the disk. So damage with a whole record
behind it is damage to synced data. Damage at the end is what a crash left of the last append, or
damage to the last record; these two cannot be told apart. read() passes over both, and reports it.
"""

import errno
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from rmq.base import atomic_file
from rmq.errors import ProtocolError

METADATA_NAME = "rmqMetadata.journal"  # in config/, of topics and groups
OFFSETS_NAME = "rmqOffsets.journal"  # beside it, of consumer offsets
MAGIC = 0x524D514A  # RMQJ
VERSION = 1
HEAD = struct.Struct(">IIQI")
PAYLOAD_BYTES_MAX = 1 << 30


class Header(msgspec.Struct):
    identity: str
    version: int
    bases: dict[str, int] = {}


class JournalContent(msgspec.Struct):
    """What a journal holds."""

    identity: str = ""  # empty: there is no journal, or it cannot be used
    records: list[tuple[int, bytes]] = []  # sequence, payload
    size_bytes: int = 0
    damage: str = ""  # what was passed over; empty: nothing
    is_torn: bool = False  # no whole record follows the damage, which a crash may have left
    bases: dict[str, int] = {}


class JournalFile:
    """Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = ""  # of the file that was made or read; empty: no appends
        self._end_bytes = 0

    @property
    def is_appendable(self) -> bool:
        """Whether records can be appended: the journal was made, or read without damage, and no
        append has failed since."""
        return bool(self._identity)

    def create(
        self,
        identity: str,
        bases: Mapping[str, int],
        records: Iterable[tuple[int, bytes]] = (),
    ) -> int:
        """Replaces the journal by one with these records, durably; returns its size. After an
        OSError nothing is appended until it succeeds."""
        self._identity = ""
        header = msgspec.json.encode(Header(identity, VERSION, dict(bases)))
        text = _framed(0, header, "") + b"".join(
            _framed(sequence, payload, identity) for sequence, payload in records
        )
        atomic_file.replace(self.path, text)
        self._identity, self._end_bytes = identity, len(text)
        return len(text)

    def append(self, sequence: int, payload: bytes) -> int:
        """Appends a record; when it is on the disk, returns how many bytes it takes. OSError."""
        identity, self._identity = self._identity, ""
        if not identity:
            raise OSError(errno.ESTALE, "an append has failed, or the journal was not read")
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise OSError(errno.EFBIG, f"{len(payload)} bytes are too many for a record")
        text = _framed(sequence, payload, identity)
        with self.path.open("r+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END) != self._end_bytes:
                raise OSError(errno.ESTALE, "somebody else has written the journal")
            written = 0
            while written < len(text):
                written += file.write(text[written:])
            os.fsync(file.fileno())
        self._identity = identity
        self._end_bytes += len(text)
        return len(text)

    def read(self, identity: str = "") -> JournalContent:
        """All whole records, in order. `identity` is used if the header is damaged. OSError, but
        not for a missing file; ProtocolError: a newer version of rmq wrote the journal."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return JournalContent()
        content = JournalContent(identity, size_bytes=len(data))
        first = _record_at(data, 0, "")
        if first is not None:
            header = _header(first[1])
            content.identity, content.bases = header.identity, header.bases
            at = HEAD.size + len(first[1])
        else:
            at = _next_record(data, 0, identity, 0) if identity else len(data)
            content.damage = "its header is damaged; "
        last = 0
        while at < len(data):
            record = _record_at(data, at, content.identity)
            if record is not None and record[0] > last:
                content.records.append(record)
                last = record[0]
                at += HEAD.size + len(record[1])
                continue
            following = _next_record(data, at + 1, content.identity, last)
            content.is_torn = following == len(data) and not content.damage
            content.damage += f"{following - at} bytes at {at} are no record; "
            at = following
        content.damage = content.damage.removesuffix("; ")
        if first is None and not content.records:
            content.identity = ""  # nothing shows that it is this journal
        if not content.damage:
            self._identity, self._end_bytes = content.identity, len(data)
        return content


def _header(payload: bytes) -> Header:
    try:
        header = msgspec.json.decode(payload, type=Header)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"its header is none that this version of rmq knows: {error}") from None
    if header.version != VERSION:
        raise ProtocolError(
            f"it is of version {header.version}, this version of rmq knows {VERSION}: start the "
            "newer rmq that wrote it once more and stop it, then everything is in the JSON files"
        )
    return header


def _framed(sequence: int, payload: bytes, identity: str) -> bytes:
    checksum = _checksum(sequence, payload, identity)
    return HEAD.pack(MAGIC, len(payload), sequence, checksum) + payload


def _checksum(sequence: int, payload: bytes, identity: str) -> int:
    head = identity.encode() + struct.pack(">QI", sequence, len(payload))
    return zlib.crc32(payload, zlib.crc32(head))


def _record_at(data: bytes, at: int, identity: str) -> tuple[int, bytes] | None:
    """The whole record that begins at `at`; None: there is none."""
    if at + HEAD.size > len(data):
        return None
    magic, length, sequence, checksum = HEAD.unpack_from(data, at)
    begin = at + HEAD.size
    if magic != MAGIC or length > PAYLOAD_BYTES_MAX or begin + length > len(data):
        return None
    payload = data[begin : begin + length]
    return (sequence, payload) if _checksum(sequence, payload, identity) == checksum else None


def _next_record(data: bytes, at: int, identity: str, after: int) -> int:
    """Where the next whole record begins; the end of the data when there is none."""
    mark = MAGIC.to_bytes(4, "big")
    while True:
        at = data.find(mark, at)
        if at < 0:
            return len(data)
        record = _record_at(data, at, identity)
        if record is not None and record[0] > after:
            return at
        at += 1
