"""The pop loop pops, acknowledges everything that came in one batch, and counts what was
acknowledged.

Method: real sockets to a broker whose answers the test scripts; rmq's JSON library reads the acks.
"""

import json
import time
from base64 import b64decode

import pytest
from support.scripted_broker import ScriptedBroker
from support.stored_records import record
from support.waiting import HANG_S

from cext.testing.load_probe import ack_rows
from rmq.format.signature import Credentials, is_right
from rmq.load.frames import Queue
from rmq.load.run import open_popper

POP, BATCH_ACK = 200050, 200151


def bits(text: str) -> list[int]:
    return [8 * n + i for n, byte in enumerate(b64decode(text)) for i in range(8) if byte >> i & 1]


def test_the_texts_of_a_reply_say_which_messages_of_which_check_point() -> None:
    rows = ack_rows(b"0 1 100;1 0 7;0 12 5", b"0 1 100,103;1 0 7;0 12 5,6,40")
    assert [row[:4] for row in rows] == [("0", 1, 100, 2), ("1", 0, 7, 1), ("0", 12, 5, 3)]
    assert [bits(row[4]) for row in rows] == [[0, 3], [0], [0, 1, 35]]
    assert ack_rows(b"", b"") == []


@pytest.mark.parametrize("starts, offsets", [
    (b"0 1 100", b"0 1 "), (b"0 1 100", b"0 1 99"), (b"0 1 100", b"0 2 100"),
    (b"0 1 100", b"0 1 100,"), (b"0 1 100", b"3 1 100"), (b"0 1 x", b"0 1 100"),
    (b"0 1 0", b"0 1 1024"), (b"0 1 100", b"0 1 100 7"), (b"0 1 1", b"0 1 " + b"9" * 30),
    (b"0 1", b"0 1 1"),
])  # fmt: skip
def test_texts_that_cannot_be_right_are_refused(starts: bytes, offsets: bytes) -> None:
    with pytest.raises(ValueError, match="broken"):
        ack_rows(starts, offsets)


class TwoQueues:
    """Answers pops with messages of two queues, three at a time; some are of a retry topic."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.given = 0
        self.acked: list[tuple[str, int, int]] = []
        self.names: set[tuple[str, str, str, int, int]] = set()
        self.refuse = 0

    def __call__(self, command):
        if command.code == BATCH_ACK:
            return self.ack(command)
        assert command.fields["consumerGroup"] == "g"
        assert abs(int(command.fields["bornTime"]) - time.time() * 1000) < 60_000
        if self.left == 0:
            return [command.reply(210)]
        if self.refuse > 0:
            self.refuse -= 1
            return [command.reply(2)]
        self.left -= 3
        first, self.given = self.given, self.given + 2
        fields = {
            "popTime": 1700, "invisibleTime": 60_000, "reviveQid": 5, "restNum": self.left,
            "startOffsetInfo": f"0 1 {first};1 0 {first}",
            "msgOffsetInfo": f"0 1 {first},{first + 1};1 0 {first}",
        }  # fmt: skip
        body = record(first) + record(first + 1) + record(first)
        return [command.reply(fields=fields, body=body)]

    def ack(self, command):
        content = json.loads(command.body)
        assert content["brokerName"] == "broker-a"
        for row in content["acks"]:
            self.names.add((row["c"], row["t"], row["pt"], row["it"], row["rq"]))
            self.acked += [(row["r"], row["q"], row["so"] + bit) for bit in bits(row["b"])]
        return [command.reply()]


@pytest.mark.parametrize("connections, window", [(1, 1), (3, 4)])
def test_all_that_is_popped_is_acknowledged_once(connections: int, window: int) -> None:
    script = TwoQueues(300)
    with ScriptedBroker(script) as broker:
        loop = open_popper([Queue("t", 0)], broker.address, "g", connections=connections,
                           window=window, limit=300)  # fmt: skip
        until = time.monotonic() + HANG_S
        while loop.run(100_000):
            assert time.monotonic() < until, loop.stats()
        stats = loop.stats()
    assert (stats["messages"], stats["again"], stats["failures"]) == (300, 100, {})
    assert (stats["requests"] - stats["empty"], stats["acked"]) == (100, 100)
    assert len(script.acked) == len(set(script.acked)) == 300
    assert script.names == {("g", "t", 1700, 60_000, 5)}


@pytest.mark.parametrize("name", ["alice", 'a "quoted" one', "ålice"])
def test_pops_and_acks_are_signed(name: str) -> None:
    whose = Credentials(name, "wonderland")
    with ScriptedBroker(TwoQueues(6)) as broker:
        loop = open_popper([Queue("t", 0)], broker.address, "g", 2, limit=6, credentials=whose)
        until = time.monotonic() + HANG_S
        while loop.run(50_000):
            assert time.monotonic() < until
        commands = list(broker.commands)
    assert {command.code for command in commands} == {POP, BATCH_ACK}
    for command in commands:
        assert command.fields["AccessKey"] == name
        assert is_right(command.fields, command.body, whose.secret_key)


def test_what_is_refused_is_counted_and_asked_again() -> None:
    script = TwoQueues(6)
    script.refuse = 2
    with ScriptedBroker(script) as broker:
        loop = open_popper([Queue("t", 0)], broker.address, "g", limit=6)
        until = time.monotonic() + HANG_S
        while loop.run(50_000):
            assert time.monotonic() < until, loop.stats()
    assert (loop.stats()["messages"], loop.stats()["failures"]) == (6, {2: 2})


def test_an_empty_topic_is_no_failure_and_asked_in_peace() -> None:
    with ScriptedBroker(TwoQueues(0)) as broker:
        loop = open_popper([Queue("t", 0)], broker.address, "g")
        began = time.monotonic()
        while loop.run(200_000) and loop.stats()["empty"] == 0:
            assert time.monotonic() < began + HANG_S
        stats = loop.stats()
        took = time.monotonic() - began
    assert stats["failures"] == {}
    assert 1 <= stats["empty"] <= 1 + took / 0.01 + 10


def test_an_answer_that_cannot_be_right_is_counted_as_such() -> None:
    def broken(command):
        fields = {"popTime": 1, "invisibleTime": 2, "reviveQid": 3, "startOffsetInfo": "0 0 0",
                  "msgOffsetInfo": "0 0 0,x"}  # fmt: skip
        return [command.reply(fields=fields, body=record(0))]

    with ScriptedBroker(broken) as broker:
        loop = open_popper([Queue("t", 0)], broker.address, "g")
        until = time.monotonic() + HANG_S
        while not loop.stats()["failures"] and time.monotonic() < until:
            loop.run(50_000)
        stats = loop.stats()
        assert {command.code for command in broker.commands} == {POP}
    assert set(stats["failures"]) == {-3}
    assert stats["messages"] == 0
