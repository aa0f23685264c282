"""The newest lines of an audit file: which ones, how many, and who may have them.

Method: real files, whose lines the audit log itself writes. Not shown here: several servers
(tests/process/test_audit_command.py).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rmq.auth import audit, audit_tail
from rmq.auth.admin import Asker
from rmq.auth.audit_tail import SCANNED_BYTES_MAX, AuditTails, tail
from rmq.auth.authorization import Wanted
from rmq.auth.policy import Action
from rmq.auth.resource import topic
from rmq.auth.user import User, UserType
from rmq.base.audit_file import LOGGER, AuditFile
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, StoreError
from rmq.format.audit_log import LINES_MAX, AuditQuery, AuditTail, decode_tail
from rmq.format.remoting import Command
from rmq.logs import JsonFormatter
from rmq.refusal import Refusal

CREATE = frozenset((Action.CREATE,))
NOBODY = Asker(None, "127.0.0.1:1")  # let in by an address alone, as the files of ACL 1.0 allow
ROOT = Asker(User("root", "secret", UserType.SUPER), "127.0.0.1:1")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The path of a file to which the audit log writes."""
    path, logger = tmp_path / "audit.log", logging.getLogger(LOGGER)
    handler = AuditFile(path)
    handler.setFormatter(JsonFormatter({"broker": "broker-a"}))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield path
    logger.removeHandler(handler)
    handler.close()
    logger.setLevel(level)
    logger.propagate = propagates


def allow(user: str, name: str) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    audit.allowed(code, user, "signature", "10.0.0.1:4711", [Wanted(topic(name), CREATE)])


def refuse(user: str, peer: str, reason: str) -> None:
    audit.refused(RequestCode.SEND_MESSAGE_V2, user, peer, reason, known=True)


def found(path: Path, **query: object) -> list[str]:
    return [line.what for line in tail(path, AuditQuery(**query)).lines]


def test_lines_have_all_that_was_written_and_the_newest_is_first(path: Path) -> None:
    allow("alice", "orders")
    refuse("bob", "10.0.0.2:9", "check signature failed.")
    told = tail(path, AuditQuery())
    newest, oldest = told.lines
    assert (told.has_more, told.is_whole) == (False, True)
    assert (newest.verdict, newest.user, newest.peer) == ("refused", "bob", "10.0.0.2:9")
    assert (newest.code, newest.request) == (310, "SEND_MESSAGE_V2")
    assert newest.what == "check signature failed."
    assert (oldest.verdict, oldest.by, oldest.what) == (
        "allowed", "signature", "Create Topic:orders"
    )  # fmt: skip
    assert oldest.broker == "broker-a"
    assert oldest.time_ms <= newest.time_ms
    text = json.loads(path.read_text().splitlines()[0])["time"]
    assert text == f"{oldest.time:%Y-%m-%dT%H:%M:%S}.{oldest.time_ms % 1000:03d}Z"


def test_what_is_asked_for_is_found(path: Path) -> None:
    for name in ("a", "b"):
        allow("alice", name)
    refuse("bob", "10.0.0.3:9", "User:bob is disabled.")
    assert found(path, user="alice") == ["Create Topic:b", "Create Topic:a"]
    assert found(path, user="ali") == []
    assert found(path, verdict="refused") == ["User:bob is disabled."]
    assert found(path, text="TOPIC:B") == ["Create Topic:b"]
    assert found(path, text="broker-a", verdict="allowed", count=1) == ["Create Topic:b"]
    first, last = (line.time_ms for line in tail(path, AuditQuery()).lines[::-2])
    assert len(found(path, begin_ms=first, end_ms=last)) == 3
    assert found(path, end_ms=first - 1) == found(path, begin_ms=last + 1) == []


def test_a_part_says_that_there_is_more(path: Path) -> None:
    for name in range(5):
        allow("alice", str(name))
    for count, more in ((4, True), (5, False), (6, False)):
        told = tail(path, AuditQuery(count=count))
        assert (len(told.lines), told.has_more) == (min(count, 5), more)


def test_what_is_no_line_is_left_out(path: Path) -> None:
    allow("alice", "first")
    with path.open("ab") as file:
        file.write(
            b"\n\n{}\n[]\nnull\n\xff\xfe\n" + b"[" * 5000 + b"\n"
            b'{"time":"yesterday","user":"eve"}\n{"time":"2026-11-27T03:20:00","user":"eve"}\n'
            b'{"time":"2026-11-27T03:20:00.1Z","user":17}\n{"time":"2026-11-27T03:2'
        )
    assert found(path) == ["Create Topic:first"]
    allow("alice", "behind what is torn")  # two writers' lines in one
    assert found(path) == ["Create Topic:first"]
    allow("alice", "last")
    assert found(path) == ["Create Topic:last", "Create Topic:first"]


def test_of_a_large_file_the_end_is_looked_through(path: Path) -> None:
    allow("alice", "first")
    with path.open("ab") as file:
        file.truncate(SCANNED_BYTES_MAX)
        file.seek(0, 2)
        file.write(b"\n")
    allow("alice", "last")
    told = tail(path, AuditQuery())
    assert [line.what for line in told.lines] == ["Create Topic:last"]
    assert (told.has_more, told.is_whole) == (False, False)


def test_an_answer_is_bounded_in_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in range(5):
        allow("alice", str(name))
    monkeypatch.setattr(audit_tail, "LINES_BYTES_MAX", path.stat().st_size // 2)
    told = tail(path, AuditQuery())
    assert (len(told.lines), told.has_more) == (2, True)


def test_files_are_told_apart_and_one_that_was_moved_away_is_empty(
    path: Path, tmp_path: Path
) -> None:
    allow("alice", "before")
    other = tmp_path / "other.log"
    other.write_bytes(path.read_bytes())
    names = {tail(each, AuditQuery()).file for each in (path, path, other)}
    assert len(names) == 2
    path.rename(tmp_path / "audit.log.1")
    assert tail(path, AuditQuery()) == AuditTail("", [])
    allow("alice", "after")
    assert found(path) == ["Create Topic:after"]


def test_what_is_no_file_is_said_to_be_none(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(StoreError, match="no file that can be read again"):
            tail(path, AuditQuery())
    with pytest.raises(StoreError, match="cannot be read: Not a directory"):
        tail(Path("/dev/null/audit.log"), AuditQuery())


# ---- the request


def answered(path: Path | None, asker: Asker = ROOT, **fields: str) -> Command:
    request = Command(code=RequestCode.GET_AUDIT_LOG, fields=fields)
    return asyncio.run(AuditTails(path).answer(request, asker))


def test_a_request_says_what_it_wants(path: Path) -> None:
    for name in range(3):
        allow("alice", str(name))
    reply = answered(path, maxNum="2", user="alice", verdict="allowed", text="Topic")
    told = decode_tail(reply.body)
    assert (reply.code, told.has_more) == (0, True)
    assert told == tail(path, AuditQuery(count=2))
    query = AuditQuery(7, 1, 2, "u", "refused", "t")
    fields = {name: str(value) for name, value in query.fields().items()}
    assert AuditQuery.of(Command(code=30001, fields=fields)) == query
    assert AuditQuery.of(Command(code=30001)) == AuditQuery()


@pytest.mark.parametrize(
    "fields",
    [{"maxNum": str(LINES_MAX + 1)}, {"maxNum": "0"}, {"maxNum": "x"}, {"endTimestamp": "-1"},
     {"text": "x" * 513}, {"user": "x" * 513}],
)  # fmt: skip
def test_what_is_beyond_a_limit_is_refused(path: Path, fields: dict[str, str]) -> None:
    with pytest.raises(ProtocolError):
        answered(path, **fields)


def test_super_users_alone_may_ask_also_where_nobody_looks_at_entries(path: Path) -> None:
    for asker in (Asker(User("alice", "secret"), "127.0.0.1:1"), NOBODY):
        with pytest.raises(Refusal, match="Super users alone") as refused:
            answered(path, asker)
        assert refused.value.code == ResponseCode.NO_PERMISSION
    assert answered(path, ROOT).code == 0


def test_without_a_file_the_setting_is_named() -> None:
    with pytest.raises(Refusal, match="rmqAuditLog=FILE"):
        answered(None)


def test_what_is_no_answer_is_said_to_be_none() -> None:
    for body in (b"", b"{}", b"[]", b"\xff", msgspec.json.encode({"file": "x", "lines": [1]})):
        with pytest.raises(ProtocolError, match="no part of an audit log"):
            decode_tail(body)
