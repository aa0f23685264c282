"""One config file kept as JSON, such that a crash at any moment leaves a whole file behind.

    topics.json        the newest content
    topics.json.bak    the content before that, as RocketMQ keeps it
    topics.json.tmp    being written; what a crash left of it is overwritten by the next save

save() writes the .tmp and syncs it, links the present file as .bak, renames the .tmp over the file
and syncs the directory. So the name always stands for either the old or the new content, and the
.bak for a content that was whole once.

load() reads the file, or the .bak when the file is missing, empty or damaged. It takes fastjson's
liberties (integer keys without quotes), so a file written by Apache RocketMQ loads unchanged.
Both damaged is an error that names both: starting with an empty table would look like data loss.

The last member is a checksum over all bytes before it, so that a flipped bit that leaves valid JSON
(another offset, another name) is damage too. RocketMQ ignores the member and drops it when it
writes the file; a file without it is believed. Who edits a file by hand removes the member.

    ...\n  },\n  "rmqChecksum": "1c291ca3"\n}

Example: JsonFile(Path("config/topics.json")).save({"dataVersion": {"counter": 1}})

This module knows nothing of settings or of what is in the files.
"""

import logging
import os
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import msgspec

from rmq.durable_directory import make_directory, sync_directory
from rmq.errors import ProtocolError, StoreCorruptError
from rmq.format import fastjson

log = logging.getLogger("rmq.broker.config_files")

FILE_BYTES_MAX = 1 << 30
CHECKSUM = "rmqChecksum"
CHECKSUM_AT_END = re.compile(rb',\s*"rmqChecksum":\s*"([0-9a-f]{8})"\s*\}\s*\Z')


class JsonFile:
    """A JSON object in a file. save() may run in any thread, but in one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")
        self._new_path = path.with_name(path.name + ".tmp")

    def load(self) -> dict[Any, Any] | None:
        """The newest whole content; None when neither the file nor its .bak exists."""
        damage = []
        for path in (self.path, self.backup_path):
            try:
                content = _read_object(path)
            except FileNotFoundError:
                continue
            except (OSError, ProtocolError) as error:
                damage.append(f"{path}: {error}")
                log.warning("%s is damaged: %s", path, error)
                continue
            if damage or path is self.backup_path:
                log.warning("%s is used instead of %s", path, self.path)
            return content
        if damage:
            raise StoreCorruptError(
                "no whole copy is left; mend or remove it: " + "; ".join(damage)
            )
        return None

    def save(self, content: Any) -> None:
        """Replaces the content; when this returns, a power cut does not bring the old one back."""
        text = _with_checksum(msgspec.json.format(msgspec.json.encode(content), indent=2))
        make_directory(self.path.parent)
        descriptor = os.open(self._new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(descriptor, text)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._keep_backup()
        self._new_path.replace(self.path)
        sync_directory(self.path.parent)

    def _keep_backup(self) -> None:
        """The present file becomes the .bak too, unless it is empty (a .bak must be whole)."""
        try:
            if self.path.stat().st_size == 0:
                return
        except FileNotFoundError:
            return
        spare = self.backup_path.with_name(self.backup_path.name + ".tmp")
        spare.unlink(missing_ok=True)
        try:
            os.link(self.path, spare)
        except OSError:  # a file system without hard links
            shutil.copyfile(self.path, spare)
        spare.replace(self.backup_path)


def _read_object(path: Path) -> dict[Any, Any]:
    size = path.stat().st_size
    if size == 0:
        raise ProtocolError("the file is empty")
    if size > FILE_BYTES_MAX:
        raise ProtocolError(f"{size} bytes: more than {FILE_BYTES_MAX}")
    data = path.read_bytes()
    _check(data)
    content = fastjson.loads(data)
    if not isinstance(content, dict):
        raise ProtocolError("the file does not hold a JSON object")
    content.pop(CHECKSUM, None)
    return content


def _with_checksum(text: bytes) -> bytes:
    """The JSON object with its checksum as its last member; an empty one stays as it is."""
    if not text.endswith(b"\n}"):
        return text
    head = text[:-2]
    return head + f',\n  "{CHECKSUM}": "{zlib.crc32(head):08x}"\n}}'.encode()


def _check(data: bytes) -> None:
    """ProtocolError when there is a checksum (or what is left of one) that does not fit."""
    found = CHECKSUM_AT_END.search(data, max(0, len(data) - 256))
    if found is not None and int(found[1], 16) == zlib.crc32(data[: found.start()]):
        return
    if found is not None or CHECKSUM.encode() in data[-256:]:
        raise ProtocolError(
            f"its content does not fit its {CHECKSUM}; who changed the file by hand has to remove "
            "that member"
        )


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
