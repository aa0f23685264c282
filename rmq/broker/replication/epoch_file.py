"""Epoch file: the epochs of the log on disk, in RocketMQ's place and form.

    <storePathRootDir>/epochFileCheckpoint         2              entries
                                                   1382409182     CRC-32 of the lines, 31 bits of it
                                                   1-0            epoch-start
                                                   2-4096
    .. and .bak beside it: a copy

A write is on the disk when write() returns; a crash leaves the old or the new file, whole. The two
files are written one after the other with the same content. (RocketMQ's .bak is the file before the
last change. Read in place of the file, it would lack an entry, and the log's end would count as of
an older epoch and as equal to bytes that differ.) For an empty list the files are removed, as
RocketMQ does it.
"""

from __future__ import annotations

import logging
import zlib
from pathlib import Path

from rmq.base import atomic_file
from rmq.base.durable_directory import sync_directory
from rmq.broker.replication.epochs import Epoch, Epochs
from rmq.config import Settings
from rmq.errors import StoreCorruptError

FILE_BYTES_MAX = 1 << 20
LINES_MAX = 20_000
NOT_CHECKED = 0  # stands instead of a CRC
CRC_MASK = 0x7FFFFFFF
DIGITS_MAX = 19

log = logging.getLogger("rmq.broker.epoch_file")


class EpochFile:
    """Owned by the control thread; one writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._backup = path.with_name(path.name + ".bak")

    def read(self) -> Epochs:
        """StoreCorruptError when a file exists but neither can be read."""
        problems: list[str] = []
        for path in (self.path, self._backup):
            try:
                content = atomic_file.read(path)
                if content is None:
                    continue
                found = decode(content)
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {error}")
                continue
            if path is self._backup:
                problem = problems[0] if problems else f"{self.path} is missing"
                log.error("%s; %s is used instead", problem, path)
            return found
        if problems:
            raise StoreCorruptError(
                "; ".join(problems) + ". Without it nobody knows which part of this log its "
                "master has. If another replica is in sync (mqadmin getSyncStateSet), empty this "
                "store, and it copies the log; if this is the last one, remove both files"
            )
        return Epochs()

    def write(self, epochs: Epochs) -> None:
        """OSError when the write fails; the file then has its old content or this one."""
        if not epochs.entries:
            for path in (self._backup, self.path):
                path.unlink(missing_ok=True)
            if self.path.parent.is_dir():
                sync_directory(self.path.parent)
            return
        content = encode(epochs)
        for path in (self.path, self._backup):
            atomic_file.replace(path, content)


def epoch_path(settings: Settings) -> Path:
    given = settings.storePathEpochFile
    return Path(given or Path(settings.storePathRootDir) / "epochFileCheckpoint").expanduser()


def encode(epochs: Epochs) -> bytes:
    lines = "".join(f"{each.epoch}-{each.start}\n" for each in epochs.entries).encode()
    return b"%d\n%d\n%b" % (len(epochs.entries), zlib.crc32(lines) & CRC_MASK, lines)


def decode(content: bytes) -> Epochs:
    """ValueError with the reason."""
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"{len(content)} bytes, more than {FILE_BYTES_MAX}")
    head = content.split(b"\n", 2)
    if len(head) < 3:
        raise ValueError("it ends before its first entry")
    count, crc = _number(head[0]), _number(head[1])
    lines = head[2].splitlines()
    if count != len(lines) or count > LINES_MAX:
        raise ValueError(f"{len(lines)} entries, where its first line says {count}")
    if crc not in (NOT_CHECKED, zlib.crc32(head[2]) & CRC_MASK):
        raise ValueError("its checksum is that of another content")
    return Epochs(tuple(_entry(line) for line in lines))


def _entry(line: bytes) -> Epoch:
    epoch, separator, start = line.partition(b"-")
    if not separator:
        raise ValueError(f"{line[:40]!r} is not epoch-start")
    return Epoch(_number(epoch), _number(start))


def _number(text: bytes) -> int:
    text = text.strip()
    if not text.isdigit() or len(text) > DIGITS_MAX:
        raise ValueError(f"{text[:40]!r} is no number")
    return int(text)
