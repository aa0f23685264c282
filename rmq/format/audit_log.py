"""Audit log: its lines, and the request for the newest of them (GET_AUDIT_LOG).

    line = decode_line(b'{"time":"2026-11-27T03:20:00.123Z","verdict":"allowed","user":"alice",..}')
    line.time_ms, line.verdict, line.user           1764213600123, "allowed", "alice"

    wanted = AuditQuery(count=50, user="alice")
    wanted.fields()                                 the fields of a request
    AuditQuery.of(request)                          what a request asks for; ProtocolError
    AuditTail(..)                                   the answer, as JSON

rmq/auth/audit.py writes the lines, in the JSON of rmq/logs.py. A tail says which file it is from:
the shards of a broker write to the same file, and each of them answers for all.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import msgspec

from rmq.errors import ProtocolError
from rmq.format.remoting import Command

LINES_MAX = 1000  # in an answer
TEXT_MAX = 512  # characters of a text that is searched for
VERDICTS = ("allowed", "refused")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME_MAX_MS = (1 << 63) - 1


class AuditLine(msgspec.Struct, omit_defaults=True):
    """Who asked a server for what. Absent texts are empty."""

    time: Annotated[datetime, msgspec.Meta(tz=True)]
    verdict: str = ""  # of VERDICTS
    user: str = ""  # if refused, the user that the request named; if allowed, the proven user
    peer: str = ""  # host:port
    code: int = 0
    request: str = ""  # the code's name
    resources: str = ""  # what was allowed
    reason: str = ""  # why it was refused
    by: str = ""  # the proof: signature, certificate or address
    broker: str = ""  # the server
    message: str = ""  # the whole line, for people

    @property
    def time_ms(self) -> int:
        return (self.time - _EPOCH) // timedelta(milliseconds=1)

    @property
    def what(self) -> str:
        return self.resources or self.reason


class AuditQuery(msgspec.Struct, frozen=True):
    """Which lines are wanted: the newest `count` of those that match. An empty text matches any."""

    count: int = 200
    begin_ms: int = 0  # the first moment, since 1970
    end_ms: int | None = None  # the last moment; None: until now
    user: str = ""  # exactly this user
    verdict: str = ""
    text: str = ""  # anywhere in the line, whether in upper or lower case

    def fields(self) -> dict[str, Any]:
        given = {
            "maxNum": self.count, "beginTimestamp": self.begin_ms, "endTimestamp": self.end_ms,
            "user": self.user, "verdict": self.verdict, "text": self.text,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value not in (None, "")}

    @classmethod
    def of(cls, request: Command) -> AuditQuery:
        """Reads a request; ProtocolError: a field has a wrong type, or exceeds its limit."""
        texts = {name: request.text_field(name) or "" for name in ("user", "verdict", "text")}
        for name, value in texts.items():
            if len(value) > TEXT_MAX:
                raise ProtocolError(f"field {name} has more than {TEXT_MAX} characters")
        return cls(
            request.int_field("maxNum", cls().count, 1, LINES_MAX),
            request.int_field("beginTimestamp", 0, 0, _TIME_MAX_MS),
            request.int_field("endTimestamp", None, 0, _TIME_MAX_MS),
            **texts,
        )

    def fits(self, line: AuditLine) -> bool:
        if self.verdict and line.verdict != self.verdict:
            return False
        if self.user and line.user != self.user:
            return False
        if not self.begin_ms <= line.time_ms <= (_TIME_MAX_MS if self.end_ms is None
                                                 else self.end_ms):  # fmt: skip
            return False
        return not self.text or self.text.lower() in f"{line.message} {line.broker}".lower()


class AuditTail(msgspec.Struct, rename="camel"):
    """The answer of one server."""

    file: str  # equal for all servers that write to the same file
    lines: list[AuditLine]  # the newest first
    has_more: bool = False  # older lines match, too: ask for those before the last of these
    is_whole: bool = True  # the file was searched from its beginning


def decode_line(line: bytes) -> AuditLine | None:
    """The line; None: it is none."""
    try:
        return _LINES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_tail(body: bytes) -> AuditTail:
    """The answer in a body; ProtocolError: it is none."""
    try:
        return _TAILS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the answer is no part of an audit log: {error}") from None


_LINES = msgspec.json.Decoder(AuditLine)
_TAILS = msgspec.json.Decoder(AuditTail)
