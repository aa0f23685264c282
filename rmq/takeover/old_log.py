"""Old log: finds messages that are only in the old master's files, if these are on this machine.

    left_over(old.settings, end, Path("store/commitlog"))     messages that only these files have

A master that is being stopped goes on for seconds without its slaves: delayed and timed messages
that are due still come into its log. The new master delivers these again, from the waiting
messages. A message from a client would be lost, although its send was answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from mmap import PROT_READ, mmap
from pathlib import Path

from rmq.errors import ProtocolError
from rmq.format.message import MAGIC_BLANK, StoredMessage, decode_message
from rmq.names import OP_HALF_TOPIC

COMPARED_BYTES = 4096
RECORD_BYTES_MAX = 64 << 20
HEAD_BYTES = 8  # size and magic number


def left_over(settings: Mapping[str, str], end: int, copy: Path) -> list[StoredMessage]:
    """The messages behind `end` that clients sent. Empty also when the files are not on this
    machine, or belong to another log, which the bytes before `end` show."""
    text, root = settings.get("storePathCommitLog"), settings.get("storePathRootDir")
    theirs = Path(text) if text else Path(root or "") / "commitlog"
    size_text = settings.get("mappedFileSizeCommitLog", "")
    if not (text or root) or not size_text.isdecimal() or int(size_text) <= 0:
        return []
    begin = end // int(size_text) * int(size_text)
    at = end - begin
    found: list[StoredMessage] = []
    try:
        if theirs.samefile(copy) or _before(theirs, begin, at) != _before(copy, begin, at):
            return []
        is_full = True
        while is_full and (path := theirs / _name(begin)).exists():
            messages, is_full = _sent(path, at)
            found += messages
            begin, at = begin + int(size_text), 0
    except OSError:
        return found
    return found


def _sent(path: Path, at: int) -> tuple[list[StoredMessage], bool]:
    """(clients' messages in the file from `at` on, whether the log goes on in the next file)."""
    found: list[StoredMessage] = []
    with path.open("rb") as file, mmap(file.fileno(), 0, prot=PROT_READ) as data:
        while at + HEAD_BYTES <= len(data):
            if int.from_bytes(data[at + 4 : at + 8], "big") == MAGIC_BLANK:
                return found, True
            size = int.from_bytes(data[at : at + 4], "big")
            try:
                message, _ = decode_message(data[at : at + min(size, RECORD_BYTES_MAX)])
            except ProtocolError:
                return found, False
            at += size
            if not is_made_again(message):
                found.append(message)
    return found, True


def is_made_again(message: StoredMessage) -> bool:
    """Whether the broker made the message from one that waits in its log, as the next broker will
    do again."""
    return message.properties.get("REAL_TOPIC") == message.topic or message.topic == OP_HALF_TOPIC


def _before(directory: Path, begin: int, at: int) -> bytes:
    with (directory / _name(begin)).open("rb") as file:
        file.seek(max(0, at - COMPARED_BYTES))
        return file.read(min(at, COMPARED_BYTES))


def _name(begin: int) -> str:
    return f"{begin:020d}"
