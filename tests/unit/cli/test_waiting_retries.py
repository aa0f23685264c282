"""Retries that wait for their delay are counted by group, as far as brokers let them be counted.

Method: a scripted broker that is its own name server, and has one delay level. Cannot show: what
real brokers tell of their levels (tests/process/test_check_command.py).
"""

from __future__ import annotations

from typing import Any

import pytest
from support.scripted_peer import ScriptedPeer

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.waiting_retries import waiting_retries
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format import fastjson
from rmq.format.message import StoredMessage, encode_message, encode_properties
from rmq.format.remoting import Command

MESSAGES = ("%RETRY%g", "orders", "%RETRY%h", "%RETRY%g", "%RETRY%g")  # where each is to go
DELIVERED = 1


class Broker:
    """Gives two messages a pull; the first of all is delivered, and the last came after the look
    began."""

    def __init__(self, **refused: int) -> None:
        """refused: code by what is asked, a table, a filter or a pull."""
        self.refused = refused
        self.pulls: list[tuple[str, int]] = []  # kind of filter, offset
        self.peer = ScriptedPeer({
            Code.GET_BROKER_CLUSTER_INFO: self.cluster,
            Code.GET_BROKER_RUNTIME_INFO: self.table,
            Code.PULL_MESSAGE: self.pull,
        })  # fmt: skip

    def cluster(self, request: Command) -> Command:
        row = {"brokerName": "b", "cluster": "c", "brokerAddrs": {0: self.peer.address}}
        return request.reply(body=fastjson.dumps({"brokerAddrTable": {"b": row}}))

    def table(self, request: Command) -> Command:
        if "table" in self.refused:
            return request.reply(self.refused["table"], "no")
        levels = {"scheduleMessageOffset_3": f"{DELIVERED},{len(MESSAGES) - 1}",
                  "scheduleMessageOffset_4": "9,9", "scheduleMessageOffset_x": "1,2"}  # fmt: skip
        return request.reply(body=fastjson.dumps({"table": levels}))

    def pull(self, request: Command) -> Command:
        kind, offset = request.fields["expressionType"], int(request.fields["queueOffset"])
        self.pulls.append((kind, offset))
        assert (request.fields["topic"], request.fields["queueId"]) == ("SCHEDULE_TOPIC_XXXX", "2")
        if "pull" in self.refused:
            return request.reply(self.refused["pull"], "no")
        if kind == "SQL92" and "filter" in self.refused:
            return request.reply(self.refused["filter"], "does not filter by SQL92")
        records = [stored(each) for each in range(offset, min(offset + 2, len(MESSAGES)))]
        fields = {"nextBeginOffset": offset + len(records), "minOffset": 0,
                  "maxOffset": len(MESSAGES), "suggestWhichBrokerId": 0}  # fmt: skip
        return request.reply(0, None, fields, b"".join(records))

    def count(self, **given: Any) -> tuple[int | None, int | None, bool]:
        """Of g and h, and whether these are all."""
        with self.peer, Cluster(self.peer.address) as cluster:
            found = waiting_retries(cluster, **given)
            return found.of("g"), found.of("h"), found.is_exact


def stored(offset: int) -> bytes:
    properties = encode_properties({"REAL_TOPIC": MESSAGES[offset], "RETRY_TOPIC": "orders"})
    return encode_message(StoredMessage(
        topic="SCHEDULE_TOPIC_XXXX", queue_id=2, queue_offset=offset, properties_bytes=properties,
        body=b"x",
    ))  # fmt: skip


def test_what_waits_is_counted_from_where_the_level_is_delivered_to_its_end() -> None:
    broker = Broker()
    assert broker.count() == (1, 1, True)
    assert broker.pulls == [("SQL92", 1), ("SQL92", 3)]


def test_where_brokers_do_not_filter_all_is_read() -> None:
    broker = Broker(filter=ResponseCode.SYSTEM_ERROR)
    assert broker.count() == (1, 1, True)
    assert broker.pulls == [("SQL92", 1), ("TAG", 1), ("TAG", 3)]


def test_when_time_is_over_the_count_is_said_to_be_a_part() -> None:
    assert Broker().count(look_s=0) == (0, 0, False)


@pytest.mark.parametrize("what", ["table", "pull"])
def test_who_may_not_look_gets_no_number(what: str) -> None:
    assert Broker(**{what: ResponseCode.NO_PERMISSION}).count() == (None, None, False)
