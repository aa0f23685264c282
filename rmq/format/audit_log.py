"""Audit log: its lines, and how a server is asked for the newest of them (GET_AUDIT_LOG).

    line = decode_line(b'{"time":"2026-11-27T03:20:00.123Z","verdict":"allowed","user":"alice",..}')
    line.time_ms, line.verdict, line.user           1764213600123, "allowed", "alice"

    wanted = AuditQuery(count=50, user="alice")
    wanted.fields()                                 of a request
    AuditQuery.of(request)                          what it asks for; ProtocolError
    AuditTail(..)                                   what it is answered, as JSON

Lines are written by rmq/auth/audit.py as rmq/logs.py has JSON. A tail says of which file it is: the
shards of a broker write to one, and each of them tells of all.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import msgspec

from rmq.errors import ProtocolError
from rmq.format.remoting import Command

LINES_MAX = 1000  # of an answer
TEXT_MAX = 512  # characters of what is looked for
VERDICTS = ("allowed", "refused")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME_MAX_MS = (1 << 63) - 1


class AuditLine(msgspec.Struct, omit_defaults=True):
    """Who asked a server for what. Absent texts are empty."""

    time: Annotated[datetime, msgspec.Meta(tz=True)]
    verdict: str = ""  # of VERDICTS
    user: str = ""  # of a refusal whom the request named; of what was allowed who proved it
    peer: str = ""  # host:port
    code: int = 0
    request: str = ""  # the code's name
    resources: str = ""  # what was allowed
    reason: str = ""  # why it was refused
    by: str = ""  # signature, certificate or address
    broker: str = ""  # the server
    message: str = ""  # all of it, for people

    @property
    def time_ms(self) -> int:
        return (self.time - _EPOCH) // timedelta(milliseconds=1)

    @property
    def what(self) -> str:
        return self.resources or self.reason


class AuditQuery(msgspec.Struct, frozen=True):
    """Which lines are wanted: the newest `count` of those that fit. Empty: any."""

    count: int = 200
    begin_ms: int = 0  # the first moment, since 1970
    end_ms: int | None = None  # the last one; None: until now
    user: str = ""  # this one exactly
    verdict: str = ""
    text: str = ""  # somewhere in the line, large letters as small ones

    def fields(self) -> dict[str, Any]:
        given = {
            "maxNum": self.count, "beginTimestamp": self.begin_ms, "endTimestamp": self.end_ms,
            "user": self.user, "verdict": self.verdict, "text": self.text,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value not in (None, "")}

    @classmethod
    def of(cls, request: Command) -> AuditQuery:
        """ProtocolError: a field is none of its kind, or beyond its limit."""
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
    """What one server answers."""

    file: str  # the same of all servers that write to the same one
    lines: list[AuditLine]  # the newest first
    has_more: bool = False  # older ones fit, too: ask for what is before the last of these
    is_whole: bool = True  # the file was looked through from its beginning


def decode_line(line: bytes) -> AuditLine | None:
    """None: it is none."""
    try:
        return _LINES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_tail(body: bytes) -> AuditTail:
    """ProtocolError: it is none."""
    try:
        return _TAILS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the answer is no part of an audit log: {error}") from None


_LINES = msgspec.json.Decoder(AuditLine)
_TAILS = msgspec.json.Decoder(AuditTail)
