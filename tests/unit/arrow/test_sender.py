"""Rows on their way: those of one key are stored in their order, whatever happens to a send.

Against a scripted broker that stores, refuses, or breaks connections as a test says.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker

from rmq.arrow.access import Access
from rmq.arrow.options import write_options
from rmq.arrow.sender import WINDOW, Sender
from rmq.codes import RequestCode, ResponseCode
from rmq.format import fastjson
from rmq.format.remoting import Command

COUNT = 30


class Broker(ScriptedBroker):
    """A broker that treats sends as the verdicts say, and stores them when there are no more
    verdicts."""

    def __init__(self, *verdicts: str, queues: int = 1) -> None:
        super().__init__(self._answer)
        self.stored: list[int] = []
        self.queues: list[int] = []  # the queues of the sends, in their order
        self._verdicts: Iterator[str] = itertools.chain(verdicts, itertools.repeat("store"))
        self.queue_count = queues
        self._held: list[Command] = []

    def sender(self, **options: str) -> Sender:
        given = {"nameserver": self.address, "topic": "t", "batchSendBytes": "1k", **options}
        read = write_options(given)
        return Sender(read, Access.of(read))

    def _answer(self, command: Command) -> list[Command] | None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return [command.reply(0, None, None, self._route())]
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            table = {"brokerAddrTable": {"b": self._broker()}}
            return [command.reply(0, None, None, fastjson.dumps(table))]
        verdict = next(self._verdicts)
        if verdict == "busy":
            return [command.reply(ResponseCode.SYSTEM_BUSY, "busy")]
        if verdict == "break":
            return None
        found = re.search(rb"\d{8}", command.body)
        assert found is not None
        self.stored.append(int(found[0]))
        self.queues.append(int(command.fields["e"]))
        if verdict == "break stored":
            return None
        if verdict == "hold":
            self._held.append(command)
            return []
        answered, self._held = [*self._held, command], []
        code = int(verdict) if verdict.isdigit() else 0
        return [
            each.reply(code, None, {"msgId": "F" * 32, "queueId": 0, "queueOffset": 7})
            for each in answered
        ]

    def _broker(self) -> dict[str, Any]:
        return {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": self.address}}

    def _route(self) -> bytes:
        return fastjson.dumps({
            "brokerDatas": [self._broker()],
            "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": self.queue_count,
                            "writeQueueNums": self.queue_count}],
        })  # fmt: skip


def body(number: int) -> bytes:
    """A body of which two are too large for one batch."""
    return b"%08d" % number + b"x" * 600


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("trouble", ["busy", "break", "break stored"])
def test_rows_of_one_key_are_stored_in_their_order(trouble: str, single: bool) -> None:
    verdicts = ("store", trouble, *["store"] * 7, trouble, trouble)
    with Broker(*verdicts) as broker:
        sender = broker.sender()
        for number in range(COUNT):
            sender.add("t", 5, b"", body(number), single=single)
        sender.flush()
        sender.close()
    assert [number for number, _ in itertools.groupby(broker.stored)] == list(range(COUNT))
    assert (len(broker.stored) > COUNT) == (trouble == "break stored")


@pytest.mark.parametrize("shards", [range(WINDOW), [None] * WINDOW])
def test_other_queues_and_rows_without_a_key_do_not_wait(shards: list[int | None]) -> None:
    """The broker answers none of a window's sends before it has all of them, so none may wait for
    another."""
    with Broker(*["hold"] * (WINDOW - 1), queues=WINDOW) as broker:
        sender = broker.sender(sendTimeoutMs="1h")
        for number, shard in enumerate(shards):
            sender.add("t", shard, b"", body(number), single=True)
        sender.flush()
        sender.close()
        assert broker.stored == list(range(WINDOW))


def test_a_key_keeps_its_queue_when_the_topic_gets_more_of_them() -> None:
    """A key must keep its queue when the topic gets more queues. The sender sees them when it reads
    the route again, because a row without a key was refused."""
    with Broker("store", "busy", queues=2) as broker:
        sender = broker.sender()
        sender.add("t", 3, b"", body(0), single=True)
        sender.flush()
        broker.queue_count = 4
        sender.add("t", None, b"", body(1), single=True)
        sender.flush()
        sender.add("t", 3, b"", body(2), single=True)
        sender.flush()
        sender.close()
    sends = [each for each in broker.commands if each.code == RequestCode.SEND_MESSAGE_V2]
    assert [each.fields["e"] for each in sends if each.body != body(1)] == ["1", "1"]


@pytest.mark.parametrize("kind", ["single", "half", "batch"])
def test_rows_without_a_key_go_to_the_queues_in_turn(kind: str) -> None:
    given = {} if kind == "batch" else {kind: True}
    with Broker(queues=4) as broker:
        sender = broker.sender()
        for number in range(12):  # each fills a batch
            sender.add("t", None, b"", body(number), **given)
        sender.flush()
        sender.close()
    assert {each: broker.queues.count(each) for each in range(4)} == dict.fromkeys(range(4), 3)


def test_small_writes_do_not_all_go_to_the_same_queue() -> None:
    """Senders with few rows must not all begin with the same queue: each batch of a stream has a
    sender of its own."""
    with Broker(queues=4) as broker:
        for number in range(40):
            sender = broker.sender()
            sender.add("t", None, b"", body(number))
            sender.flush()
            sender.close()
    assert len(set(broker.queues)) > 1, "by chance once in 4 ** 39"


def test_half_messages_do_not_wait_as_their_order_is_that_of_the_commits() -> None:
    with Broker(*["hold"] * (WINDOW - 1)) as broker:
        sender = broker.sender(sendTimeoutMs="1h")
        for number in range(WINDOW):
            sender.add("t", 0, b"", body(number), half=True)
        sender.flush()
        sender.close()
        assert broker.stored == list(range(WINDOW))


def test_what_is_stored_and_less_safe_than_promised_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Broker("10", "store", "12", "12") as broker:
        sender = broker.sender()
        for number in range(COUNT):
            sender.add("t", 5, b"", body(number), single=True)
        sender.flush()
        sender.flush()
        sender.close()
    assert broker.stored == list(range(COUNT))
    (told,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert told.startswith("3 sends were stored, but are less safe than the broker promises")
    assert told.endswith(": FLUSH_DISK_TIMEOUT 1, FLUSH_SLAVE_TIMEOUT 2")
