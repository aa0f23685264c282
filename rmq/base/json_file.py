"""JSON file: one config file that neither a crash nor a damaged copy can empty.

    topics.json                the newest content
    topics.json.bak            the content before that, as RocketMQ keeps it; a copy of the newest
                               after the first save and after a clean stop
    topics.json.tmp            being written; the next save overwrites what a crash left of it
    topics.json.damaged        a file that was found damaged; nothing reads it
    topics.json.bak.damaged

save() writes the .tmp and syncs it, links the present file as .bak, renames the .tmp over the file
and syncs the directory. So the file always has either the old or the new content, and the .bak a
content that was whole once. The two never share blocks, so damage to one does not damage the other.

load() reads the file, or the .bak when the file is missing, empty or damaged, and logs which file
is damaged in what way and since when changes are lost. A file that the disk cannot read, or that
the file system reports as damaged, counts as damaged, too. A file that this process may not read,
or cannot read now, is a StoreError, and stays as it is. load() takes fastjson's liberties (integer
keys without quotes), so a file written by Apache RocketMQ loads unchanged. If no whole copy is
left, the owner of the file decides whether the start goes on:

    lost     it goes on without the content: the text says what is lost, and who can restore it
    advice   it is refused, because going on would do what cannot be undone; the text says what
             helps

    topics.json               refused  topics would be missing, or come back with other permissions.
                                       If the file is missing altogether (or the .bak is used),
                                       topics that have queues are found by these: topics.py
    subscriptionGroup.json    refused  groups that must not consume would be allowed to
    delayOffset.json          refused  every delayed message in the log would be delivered again
    topicQueueMapping.json    refused  messages of static topics would go to, and come from, other
                                       queues
    shards.json               refused  messages of other shards would be out of reach
    consumerOffset.json       goes on  groups begin where their clients want to; can be reset
    consumerOrderInfo.json    goes on  batches popped in order come again, as after their time
    messageRequestMode.json   goes on  groups set to POP pull; can be set again
    rmqDeletedTopics.json     goes on  a topic made anew may show older messages after a crash
    rmqAccounts.json          refused  nobody would be let in, or more users than should be
    rmqLocks.json             goes on  queues in order go to the first client that asks, as always
                                       with Apache's broker

The last member is a checksum over all bytes before it, so that a flipped bit that leaves valid JSON
(another offset, another name) is noticed as damage, too. RocketMQ ignores the member and drops it
when it writes the file; a file without it is believed. If you edit a file by hand, remove the
member.

    ...\n  },\n  "rmqChecksum": "1c291ca3"\n}

Example: JsonFile(Path("config/topics.json")).save({"dataVersion": {"counter": 1}})

This module knows nothing of settings or of what is in the files.
"""

import errno
import logging
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from rmq.base.atomic_file import PUBLIC, rename_synced, write_synced
from rmq.base.durable_directory import make_directory, sync_directory
from rmq.errors import ProtocolError, StoreCorruptError, StoreError
from rmq.format import fastjson

log = logging.getLogger("rmq.base.json_file")

FILE_BYTES_MAX = 1 << 30
# The errors of file systems for a damaged file: the sector cannot be read; in ext4, XFS and btrfs
# the data does not match its checksum, or the structures that lead to it are broken.
UNREADABLE = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN})
CHECKSUM = "rmqChecksum"
CHECKSUM_AT_END = re.compile(rb',\s*"rmqChecksum":\s*"([0-9a-f]{8})"\s*\}\s*\Z')
CONTROL = re.compile(rb"[\x00-\x07\x0b\x0e-\x1f]")  # most often zeros, where a page is gone
CONTROLS = bytes(each for each in range(32) if CONTROL.match(bytes([each])))


class JsonFile:
    """A JSON object in a file. save() and settle() may run in any thread; they wait for each
    other."""

    def __init__(
        self,
        path: Path,
        *,
        tables: tuple[str, ...] = (),
        lost: str = "",
        advice: str = "",
        mode: int = PUBLIC,
        loads: Callable[[bytes], Any] = fastjson.loads,
    ) -> None:
        """`tables`: members that must be objects if they exist; `lost` and `advice`: one of the two
        texts described above; `mode`: who may read the file; `loads`: reads the bytes, or raises
        ProtocolError."""
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")
        self.is_newest = True  # load() read the file itself, or neither file existed
        self.has_checksum = False  # the content that load() returned; if not, rmq did not write it
        self._new_path = path.with_name(path.name + ".tmp")
        self._tables = tables
        self._lost = lost
        self._advice = advice
        self._mode = mode
        self._loads = loads
        self._one_write = threading.Lock()  # two writes at once would mix up .tmp and .bak

    def load(self) -> dict[Any, Any] | None:
        """The newest whole content; None when neither the file nor its .bak exists, or neither is
        whole and the owner can go on without it. StoreError: their content cannot be known now."""
        damaged: dict[Path, str] = {}
        for path in (self.path, self.backup_path):
            try:
                content, self.has_checksum = self._read_object(path)
            except FileNotFoundError:
                continue
            except (OSError, ProtocolError) as error:
                if isinstance(error, OSError) and error.errno not in UNREADABLE:
                    raise StoreError(f"{path} cannot be read: {error.strerror}") from None
                damaged[path] = str(error)
                log.warning("%s is damaged: %s", path, error)
                continue
            self.is_newest = path is self.path
            if not self.is_newest:
                log.warning(
                    "%s is used instead of %s: changes since %s are lost",
                    path, self.path, _written_at(path),
                )  # fmt: skip
            self._set_aside(damaged)
            return content
        self.is_newest = not damaged
        if damaged and not self._lost:
            found = "; ".join(f"{path}: {reason}" for path, reason in damaged.items())
            raise StoreCorruptError(
                f"no whole copy is left: {found}. {self._advice or 'Mend or remove it.'}"
            )
        if damaged:
            log.error("%s: no whole copy is left; the start goes on: %s", self.path, self._lost)
            self._set_aside(damaged)
        return None

    def read(self) -> dict[Any, Any]:
        """The content of the file itself; OSError or ProtocolError, and no file is set aside."""
        content, self.has_checksum = self._read_object(self.path)
        return content

    def save(self, content: Any) -> None:
        """Replaces the content; when this returns, a power cut does not bring the old one back."""
        text = _with_checksum(msgspec.json.format(msgspec.json.encode(content), indent=2))
        make_directory(self.path.parent)
        with self._one_write:
            write_synced(self._new_path, text, self._mode)
            if not self._keep_backup():
                self._copy_to_backup(text)
            rename_synced(self._new_path, self.path)

    def settle(self) -> None:
        """Makes the .bak a copy of the newest content, before a clean stop, so that the next start
        misses nothing if one of the two is damaged by then."""
        with self._one_write:
            try:
                text = self.path.read_bytes()
                if text != self.backup_path.read_bytes():
                    raise FileNotFoundError
            except FileNotFoundError:
                if self.path.exists():
                    self._copy_to_backup(self.path.read_bytes())
                    sync_directory(self.path.parent)

    def _read_object(self, path: Path) -> tuple[dict[Any, Any], bool]:
        """(the content, whether it had a checksum)."""
        size = path.stat().st_size
        if size == 0:
            raise ProtocolError("the file is empty")
        if size > FILE_BYTES_MAX:
            raise ProtocolError(f"{size} bytes: more than {FILE_BYTES_MAX}")
        data = path.read_bytes()
        if len(data.translate(None, CONTROLS)) != len(data):  # ten times as fast as the search
            alien = CONTROL.search(data)
            assert alien is not None
            raise ProtocolError(f"byte {alien.start()} is {alien[0][0]:#04x}, which no JSON has")
        _check(data)
        content = self._loads(data)
        if not isinstance(content, dict):
            raise ProtocolError("the file does not hold a JSON object")
        has_checksum = content.pop(CHECKSUM, None) is not None
        for name in self._tables:
            if content.get(name) is not None and not isinstance(content[name], dict):
                raise ProtocolError(f"its member {name} is not an object")
        return content, has_checksum

    def _keep_backup(self) -> bool:
        """Makes the present file the .bak, unless it is empty (a .bak must be whole); returns
        whether there is a .bak then."""
        try:
            is_empty = self.path.stat().st_size == 0
        except FileNotFoundError:
            is_empty = True
        if is_empty:
            return self.backup_path.exists()
        spare = self.backup_path.with_name(self.backup_path.name + ".tmp")
        spare.unlink(missing_ok=True)
        try:
            os.link(self.path, spare)
        except OSError:  # a file system without hard links
            write_synced(spare, self.path.read_bytes(), self._mode)
        spare.replace(self.backup_path)
        return True

    def _copy_to_backup(self, text: bytes) -> None:
        spare = self.backup_path.with_name(self.backup_path.name + ".tmp")
        spare.unlink(missing_ok=True)
        write_synced(spare, text, self._mode)
        spare.replace(self.backup_path)

    def _set_aside(self, damaged: Iterable[Path]) -> None:
        """Renames damaged files, so that the next save does not make one the .bak, and people can
        still read what is left of them."""
        for path in damaged:
            aside = path.with_name(path.name + ".damaged")
            try:
                path.replace(aside)
            except OSError as error:  # this process may only have permission to read
                log.warning("%s stays where it is: %s", path, error)
            else:
                log.warning("what is left of %s is kept as %s", path, aside)


def _written_at(path: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))


def _with_checksum(text: bytes) -> bytes:
    """The JSON object with its checksum as its last member; an empty object stays as it is."""
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
