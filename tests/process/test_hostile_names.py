"""Names of topics and groups that would be paths: no request writes a file by them
(CVE-2019-17572).

Method: a broker process that makes topics on their first use, and requests with such names, with
both kinds of headers. They come from strangers if there are no accounts, and from a user who may do
everything if there are. Then the files of the store and of the folders above it are looked at.
Cannot show: what names are legal (tests/unit/broker/test_name_checks.py).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from support.accounts import ADMIN, ALICE, ARMED, account, command
from support.broker_process import broker_process
from support.shard import Client, send_batch
from support.waiting import wait_until

from rmq.codes import ResponseCode
from rmq.format.remoting import JSON, ROCKETMQ, Command, decode, encode, field_texts
from rmq.format.signature import Credentials
from rmq.names import HALF_TOPIC, SCHEDULE_TOPIC

MADE = "made-by-itself"
NAMES = [
    "../../x", "../x", "..", ".", "./x", "x/", "/x", "a/b", "a/../../../x", "a\\..\\x", "x\0", "\0",
    "../../x\0y", "x\n", "%RETRY%../../x", "%RETRY%../../../x+t", "%RETRY%a/b", "%DLQ%../../x",
    "\N{FULLWIDTH SOLIDUS}..\N{FULLWIDTH SOLIDUS}x",
]  # fmt: skip
# Topics in which messages to MADE are stored, or wait.
KEPT_IN = (MADE, SCHEDULE_TOPIC, HALF_TOPIC)
# Names as a client may escape them in a JSON header; json.dumps escapes the names above otherwise.
ESCAPED = [rb"..\/..\/x", rb"\u002e\u002e\u002f\u002e.\/x", rb"x\u0000"]
BATCH = decode(send_batch("t", [b"one", b"two"])[4:]).body


def requests_of(name: str) -> Iterator[tuple[int, dict[str, object], bytes]]:
    """Requests that would make or use a topic or a group of this name: code, fields, body."""
    long = {
        "producerGroup": "p", "topic": name, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
        "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0, "properties": "",
        "reconsumeTimes": 0, "unitMode": False,
    }  # fmt: skip
    short = {"a": "p", "b": name, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": "",
             "j": 0, "k": False}  # fmt: skip
    yield 10, long, b"x"
    yield 310, short, b"x"
    yield 310, {**short, "i": "DELAY\x011\x02"}, b"x"  # it waits in another topic
    yield 310, {**short, "i": "TRAN_MSG\x01true\x02PGROUP\x01P\x02", "f": 4}, b"x"
    yield 320, {**short, "m": True}, BATCH
    made = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    yield 17, made, b""
    yield 200, {}, json.dumps({"groupName": name}).encode()


def raw(name: bytes) -> bytes:
    """A send whose JSON header has these bytes as the topic's name."""
    fields = next(fields for code, fields, _ in requests_of("NAME") if code == 310)
    whole = encode(Command(code=310, fields=field_texts(fields)))
    header = whole[8:].replace(b"NAME", name)
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


def paths_below(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("is_armed", [False, True], ids=["open", "with accounts"])
def test_no_name_leaves_its_folder(tmp_path: Path, is_armed: bool) -> None:
    folder = tmp_path / "a" / "b" / "c" / "d"
    folder.mkdir(parents=True)
    with (
        broker_process(folder, ARMED if is_armed else ()) as broker,
        account(ADMIN if is_armed else None),
        contextlib.closing(Client(broker.port)) as client,
    ):
        if is_armed:
            with patch.dict(os.environ, {"RMQ_NEW_PASSWORD": ALICE.secret_key}):
                command(broker, "user", "create", "alice")
            command(broker, "acl", "allow", "alice", "*", "-a", "All")
        who = ALICE if is_armed else Credentials("", "")

        def asked(code: int, fields: dict[str, object], body: bytes, kind: int) -> int:
            texts = field_texts(fields)
            signed = who.sign(texts, body) if is_armed else texts
            return client.ask(
                encode(Command(code=code, fields=signed, body=body, serialize_type=kind))
            ).code

        before, was_there = paths_below(tmp_path), Path("/x").exists()
        for name in NAMES:
            for code, fields, body in requests_of(name):
                for kind in (JSON, ROCKETMQ):
                    found = asked(code, fields, body, kind)
                    assert found == ResponseCode.INVALID_PARAMETER, (name, code, kind, found)
        if not is_armed:
            for written in ESCAPED:
                assert client.ask(raw(written)).code == ResponseCode.INVALID_PARAMETER, written
        for code, fields, body in requests_of(MADE):
            assert asked(code, fields, body, JSON) == 0, code
        queues = broker.store / "consumequeue"
        wait_until(lambda: all((queues / topic / "0").is_dir() for topic in KEPT_IN))
    new = paths_below(tmp_path) - before
    folders = {path for path in new if path.is_dir()}
    assert folders == {queues / topic / part for topic in KEPT_IN for part in ("", "0")}
    known = folders | {broker.store / each for each in ("", "commitlog", "config", "index")}
    assert {path.parent for path in new - folders} <= known
    assert not {path for path in new if path.name in ("x", "b", "y")}
    assert Path("/x").exists() == was_there
