r"""Message format: what `rmq consume --format` prints of each message.

    %t topic       %b broker     %q queue id     %o queue offset     %i unique key
    %k keys        %g tag        %s stored, ms   %T stored, local    %r times it came again
    %v body        %l its bytes  %p properties as JSON               %p{NAME} one of them
    \n \t \0 \\ and %% as usual

What a message has not is empty. Nothing is added, no line end either, and the body is printed byte
for byte: "%k\t%v\n" is a line of keys and body.

Example: MessageFormat("%q:%o %v\n").bytes_of(message) is b"3:17 hello\n".
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from rmq.client.blocking.tail import ReceivedMessage
from rmq.operations.texts import time_text

Part = Callable[[ReceivedMessage], bytes]
_TOKEN = re.compile(r"%p\{([^}]*)\}|%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _property(name: str) -> Part:
    return lambda message: message.properties.get(name, "").encode()


_VERBS: dict[str, Part] = {
    "t": lambda message: message.stored.topic.encode(),
    "b": lambda message: message.broker_name.encode(),
    "q": lambda message: b"%d" % message.stored.queue_id,
    "o": lambda message: b"%d" % message.stored.queue_offset,
    "i": _property("UNIQ_KEY"),
    "k": _property("KEYS"),
    "g": _property("TAGS"),
    "s": lambda message: b"%d" % message.stored.store_timestamp_ms,
    "T": lambda message: (time_text(message.stored.store_timestamp_ms) or "").encode(),
    "r": lambda message: b"%d" % message.stored.reconsume_times,
    "v": lambda message: message.body,
    "l": lambda message: b"%d" % len(message.body),
    "p": lambda message: msgspec.json.encode(message.properties),
    "%": lambda message: b"%",
}


class MessageFormat:
    def __init__(self, text: str) -> None:
        """ValueError, with what there is, for a verb or an escape that there is not."""
        self._parts = [_part(found) for found in _TOKEN.finditer(text)]

    def bytes_of(self, message: ReceivedMessage) -> bytes:
        return b"".join(part(message) for part in self._parts)


def _part(found: re.Match[str]) -> Part:
    name, verb, escape, plain, _ = found.groups()
    if name is not None:
        return _property(name)
    if verb in _VERBS:
        return _VERBS[verb]
    if plain is not None:
        return _plain(plain.encode(errors="surrogateescape"))
    if escape in _ESCAPES:
        return _plain(_ESCAPES[escape])
    verbs = " ".join(f"%{each}" for each in _VERBS)
    raise ValueError(f"{found[0]!r}: there are {verbs} %p{{NAME}} \\n \\t \\r \\0 \\\\")


def _plain(text: bytes) -> Part:
    return lambda message: text
