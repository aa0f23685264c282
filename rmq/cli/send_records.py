"""Send records: splits a stream of bytes into messages, at a delimiter.

    for keys, body in records(sys.stdin.buffer, b"\\n", b":"):     b"7:paid\\n" is ("7", b"paid")

Empty records are no messages. Lines may also end with \\r\\n. The stream is read piece by piece,
because it may have any length and go on for days.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from rmq.cli.message_format import escaped
from rmq.cli.options import Parsed
from rmq.errors import MessageError

PIECE_BYTES = 64 << 10
RECORD_BYTES_MAX = 64 << 20  # more than any broker takes


def _delimiter(text: str) -> bytes:
    found = escaped(text)
    if not found:
        raise ValueError("it must not be empty")
    return found


DELIMITER = Parsed("TEXT", _delimiter)


def records(
    stream: BinaryIO, delimiter: bytes, key_delimiter: bytes | None
) -> Iterator[tuple[str | None, bytes]]:
    """Yields (keys or None, body). MessageError: keys are no text, or have no body; a record is
    too long."""
    for number, record in enumerate(_split(stream, delimiter), 1):
        if delimiter == b"\n":
            record = record.rstrip(b"\r")
        if not record:
            continue
        keys, mark, body = record.partition(key_delimiter) if key_delimiter else (b"", b"", record)
        if not mark:
            yield None, record
            continue
        if not body:
            raise MessageError(f"message {number}: it has keys but no body")
        try:
            yield keys.decode() or None, body
        except UnicodeDecodeError:
            raise MessageError(f"message {number}: its keys are not UTF-8 text") from None


def _split(stream: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    # read1() returns what has come so far, so that each line of a log that grows is sent at once.
    read = getattr(stream, "read1", stream.read)
    buffer = bytearray()
    while piece := read(PIECE_BYTES):
        at, looked_at = 0, max(0, len(buffer) - len(delimiter) + 1)
        buffer += piece
        while (end := buffer.find(delimiter, max(at, looked_at))) >= 0:
            yield bytes(buffer[at:end])
            at = end + len(delimiter)
        del buffer[:at]
        if len(buffer) > RECORD_BYTES_MAX:
            raise MessageError(f"a message of more than {RECORD_BYTES_MAX} bytes: is {delimiter!r} "
                               "the right delimiter?")  # fmt: skip
    yield bytes(buffer)
