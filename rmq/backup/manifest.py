"""Manifest: lists the files of a copy of a store (`rmqBackup.json`).

    DIR/rmqBackup.json              the manifest of the last backup that was finished
    DIR/rmqBackup.partial.json      segments that an unfinished backup has copied whole
    DIR/rmqBackup.lock              held while a backup writes or a restore reads
    DIR/commitlog/<20 digits>       the log, files of their full length
    DIR/state-7/config/..           configuration and offsets, as of the 7th backup
    DIR/state-7/queueEnds.synced    where each queue ends, for queues whose messages are deleted
    DIR/state-7/rmqTimers/position  how far timed messages are delivered
    DIR/config                      a link to state-7/config, for programs that read it as a store
    DIR/shard-1/..                  the same for further shards

A manifest is valid until the next one is there: the files that it names are never changed, only
extended. For the last segment it says how far its content is valid; what is behind that comes from
a later, unfinished backup. So a backup may be killed at any moment.

    {"crc32":"5a0c11d2","manifest":{"version":1,"number":7,..,"stores":[{"directory":".",
     "state":"state-7","files":[{"path":"config/topics.json","bytes":8123,"crc32":17}],
     "segments":[{"start":0,"bytes":1073741824,"end":1073741824,"crc32":99,..}]}]}}
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import msgspec

from rmq.base import atomic_file
from rmq.base.atomic_file import PUBLIC
from rmq.errors import ConfigError, StoreCorruptError, StoreError

NAME = "rmqBackup.json"
PARTIAL_NAME = "rmqBackup.partial.json"
VERSION = 1
OFFSET_MAX = 2**62
DIRECTORY = re.compile(r"\.|shard-[1-9][0-9]{0,3}")
STATE = re.compile(r"state-[1-9][0-9]{0,17}")
QUEUE_ENDS = "queueEnds.synced"
TIMER_POSITION = "rmqTimers/position"
CONFIG_FILE = re.compile(r"config/[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
PRIVATE = 0o600


class DamagedPlace(msgspec.Struct):
    """Bytes of the store that were no record when they were copied."""

    at: int  # in the segment, bytes
    bytes: int
    what: str


class SegmentCopy(msgspec.Struct):
    """A file of the log."""

    start: int  # log offset of its first byte: its name
    bytes: int  # of the file
    end: int  # how many bytes are copied; all when the segment is complete
    crc32: int  # of the copied bytes
    last_record: int = -1  # where in it the last whole record begins; -1: it has none
    records: int = 0
    complete: bool = False  # the store does not write into it any more
    damaged: list[DamagedPlace] = []

    @property
    def name(self) -> str:
        return f"{self.start:020d}"


class FileCopy(msgspec.Struct):
    """A small file."""

    path: str  # below the state's directory
    bytes: int
    crc32: int


class StoreCopy(msgspec.Struct):
    """The store of one shard."""

    directory: str  # "." or "shard-1"
    state: str
    files: list[FileCopy]
    segments: list[SegmentCopy]

    @property
    def log_begin(self) -> int:
        return self.segments[0].start if self.segments else 0

    @property
    def log_end(self) -> int:
        return self.segments[-1].start + self.segments[-1].end if self.segments else 0


class Manifest(msgspec.Struct):
    """A finished backup."""

    number: int  # of the backup, from 1 on
    began_ms: int
    ended_ms: int
    source: str  # the store's directory
    stores: list[StoreCopy]
    version: int = VERSION

    def of(self, directory: str) -> StoreCopy | None:
        return next((each for each in self.stores if each.directory == directory), None)


class Envelope(msgspec.Struct):
    crc32: str
    manifest: msgspec.Raw


def save(path: Path, manifest: Manifest) -> None:
    """Replaces the manifest, durably."""
    fault = _fault(manifest)
    if fault:
        raise StoreError(f"{path} is not written: {fault}; the backup before this one counts")
    text = msgspec.json.encode(manifest)
    head = f'{{"crc32":"{zlib.crc32(text):08x}","manifest":'.encode()
    atomic_file.replace(path, head + text + b"}\n")


def load(path: Path) -> Manifest | None:
    """The manifest; None when there is none; StoreCorruptError when it is damaged."""
    data = atomic_file.read(path)
    if data is None:
        return None
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
        if f"{zlib.crc32(envelope.manifest):08x}" != envelope.crc32:
            raise ValueError("its checksum does not fit")
        manifest = msgspec.json.decode(envelope.manifest, type=Manifest)
        fault = _fault(manifest)
        if fault:
            raise ValueError(fault)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreCorruptError(
            f"{path} is damaged: {error}. Without it nobody knows what the copy holds: make "
            "another one in a new directory"
        ) from None
    return manifest


def required(directory: Path) -> Manifest:
    """The manifest of a copy; ConfigError where there is no copy."""
    manifest = load(directory / NAME)
    if manifest is None:
        raise ConfigError(
            f"{directory} is no backup: there is no {NAME} in it. Make one with "
            "`rmq store backup --store STORE --to DIR`"
        )
    return manifest


def _fault(manifest: Manifest) -> str:
    """What no backup of this version can have written; empty: nothing. So no name in a manifest
    becomes a path unchecked."""
    if manifest.version != VERSION:
        return f"it is of version {manifest.version}, this rmq knows {VERSION}"
    if len({store.directory for store in manifest.stores}) != len(manifest.stores):
        return "a store is named twice"
    return next((fault for store in manifest.stores if (fault := _store_fault(store))), "")


def _store_fault(store: StoreCopy) -> str:
    if not DIRECTORY.fullmatch(store.directory):
        return f"{store.directory!r} is no store's directory"
    if not STATE.fullmatch(store.state):
        return f"{store.state!r} is no state's directory"
    for file in store.files:
        if file.path not in (QUEUE_ENDS, TIMER_POSITION) and not CONFIG_FILE.fullmatch(file.path):
            return f"{file.path!r} is no file of a state"
    following = store.log_begin
    for segment in store.segments:
        if not 0 <= segment.start < OFFSET_MAX or segment.start != following:
            return f"no segment may begin at {segment.start}"
        if not 0 <= segment.end <= segment.bytes or not 0 < segment.bytes < OFFSET_MAX:
            return f"segment {segment.name} has {segment.end} of {segment.bytes} bytes"
        if segment.last_record >= segment.end or segment.start % segment.bytes:
            return f"segment {segment.name} does not add up"
        following += segment.bytes
    if any(not each.complete for each in store.segments[:-1]):
        return "a segment before the last is not complete"
    return ""


def mode_of(path: str) -> int:
    """The mode of a file in a store or its backup: only the owner may read passwords."""
    return PRIVATE if "rmqAccounts" in path else PUBLIC
