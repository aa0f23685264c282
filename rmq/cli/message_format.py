r"""Message format: what `rmq consume --format` prints of each message.

    %t topic       %p queue id     %o queue offset   %k keys         %s body
    %S its bytes   %K bytes of the keys              %T stored, ms since 1970
    %h properties as JSON          %h{NAME} one of them
    %b broker      %i unique key   %g tag            %r retries so far
    %d stored, local time
    \n \t \r \0 \xNN \\ and %% as usual

The first two lines are kcat's. A part that a message does not have is empty. Nothing is added, not
even a line end, and the body is printed byte for byte: "%k\t%s\n" prints a line of keys and body.
Only on a terminal, which a stranger's body could command, are characters replaced that do so.

Example: MessageFormat("%p:%o %s\n").bytes_of(message) is b"3:17 hello\n".
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from rmq.client.blocking.tail import ReceivedMessage
from rmq.operations.texts import printable, time_text

Part = Callable[[ReceivedMessage], bytes]
_TOKEN = re.compile(r"%h\{([^}]*)\}|%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _property(name: str) -> Part:
    return lambda message: message.properties.get(name, "").encode()


_VERBS: dict[str, Part] = {
    "t": lambda message: message.stored.topic.encode(),
    "p": lambda message: b"%d" % message.stored.queue_id,
    "o": lambda message: b"%d" % message.stored.queue_offset,
    "k": _property("KEYS"),
    "s": lambda message: message.body,
    "S": lambda message: b"%d" % len(message.body),
    "K": lambda message: b"%d" % len(message.properties.get("KEYS", "").encode()),
    "T": lambda message: b"%d" % message.stored.store_timestamp_ms,
    "h": lambda message: msgspec.json.encode(message.properties),
    "b": lambda message: message.broker_name.encode(),
    "i": _property("UNIQ_KEY"),
    "g": _property("TAGS"),
    "r": lambda message: b"%d" % message.stored.reconsume_times,
    "d": lambda message: (time_text(message.stored.store_timestamp_ms) or "").encode(),
    "%": lambda message: b"%",
}


class MessageFormat:
    def __init__(self, text: str) -> None:
        """ValueError: a verb or an escape does not exist; the text lists those that do."""
        self._parts = [_part(found) for found in _TOKEN.finditer(text)]

    def bytes_of(self, message: ReceivedMessage, *, for_terminal: bool = False) -> bytes:
        """for_terminal: what is the message's commands none; what the format says is as it is."""
        shown = _harmless if for_terminal else bytes
        return b"".join(
            part if isinstance(part, bytes) else shown(part(message)) for part in self._parts
        )


def _harmless(value: bytes) -> bytes:
    return printable(value.decode(errors="replace"), "\n\t").encode()


def escaped(text: str) -> bytes:
    """The bytes of a text with escapes: \\n, \\t, \\0, \\x1e. ValueError: one does not exist."""
    return b"".join(_plain_bytes(found) for found in re.finditer(
        r"()()\\x([0-9a-fA-F]{2})|\\(.)|([^\\]+)|(.)", text, re.DOTALL))  # fmt: skip


def _part(found: re.Match[str]) -> Part | bytes:
    name, verb = found[1], found[2]
    if name is not None:
        return _property(name)
    if verb in _VERBS:
        return _VERBS[verb]
    if verb is None:
        return _plain_bytes(found)
    raise _unknown(found)


def _plain_bytes(found: re.Match[str]) -> bytes:
    code, escape, plain = found[3], found[4], found[5]
    if code is not None:
        return bytes.fromhex(code)
    if plain is not None:
        return plain.encode(errors="surrogateescape")
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    raise _unknown(found)


def _unknown(found: re.Match[str]) -> ValueError:
    verbs = " ".join(f"%{each}" for each in _VERBS)
    return ValueError(f"{found[0]!r} is unknown; use {verbs} %h{{NAME}} \\n \\t \\r \\0 \\xNN \\\\")
