"""From where and how far a stream reads, by what a master or its slave says of a queue's ends.

Method: scripted peers: a name server, and a broker whose queue begins and ends where a test says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from support.scripted_peer import ScriptedPeer

pytest.importorskip("pyspark", reason="needs the extra: pip install -e .[spark]")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rmq.arrow.options import read_options
from rmq.arrow.queues import DataLossError
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.demo.ports import free_port
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command
from rmq.spark import stream as stream_module
from rmq.spark.columns import default_schema
from rmq.spark.input_partitions import QueueRanges
from rmq.spark.stream import RmqStreamReader

MASTER, SLAVE = "0", "1"


def at(offset: int) -> dict[str, Any]:
    return {"t": {"broker-a": {"0": offset}}}


class Brokers:
    """One broker that answers, and others that do not."""

    def __init__(self, broker_id: str, *away: str) -> None:
        """away: ids of brokers that the name server still knows."""
        self.first = self.end = 0
        self.committed: int | None = None
        self.broker = ScriptedPeer({
            Code.GET_TOPIC_STATS_INFO: self._stats, Code.QUERY_CONSUMER_OFFSET: self._offset,
        })  # fmt: skip
        self.names = ScriptedPeer({
            Code.GET_ROUTEINFO_BY_TOPIC: self._route, Code.GET_BROKER_CLUSTER_INFO: self._cluster,
        })  # fmt: skip
        self.addresses = {each: f"127.0.0.1:{free_port()}" for each in away}
        self.addresses[broker_id] = self.broker.address

    def _stats(self, request: Command) -> Command:
        row = {"minOffset": self.first, "maxOffset": self.end, "lastUpdateTimestamp": 0}
        table = {"offsetTable": {MessageQueue("t", "broker-a", 0): row}}
        return request.reply(body=fastjson.dumps(table))

    def _offset(self, request: Command) -> Command:
        if self.committed is None:
            return request.reply(ResponseCode.QUERY_NOT_FOUND, "none")
        return request.reply(fields={"offset": self.committed})

    def _entry(self) -> dict[str, Any]:
        return {"brokerName": "broker-a", "cluster": "c", "brokerAddrs": self.addresses}

    def _route(self, request: Command) -> Command:
        queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
        route = {"brokerDatas": [self._entry()], "queueDatas": [queues]}
        return request.reply(body=fastjson.dumps(route))

    def _cluster(self, request: Command) -> Command:
        return request.reply(body=fastjson.dumps({"brokerAddrTable": {"broker-a": self._entry()}}))


@contextmanager
def stream(brokers: Brokers, **options: str) -> Iterator[RmqStreamReader]:
    given = {"nameserver": brokers.names.address, "topic": "t", **options}
    read = read_options(given, streaming=True)
    with brokers.names, brokers.broker:
        reader = RmqStreamReader(read, default_schema(read))
        try:
            yield reader
        finally:
            reader.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("away", [(), (MASTER,)])
def test_a_slave_that_lacks_what_was_read_has_nothing_new(fail: str, away: tuple[str, ...]) -> None:
    """If a slave lacks messages that were already read, the stream must neither end nor go back: as
    long as the master is away they are not lost."""
    brokers = Brokers(SLAVE, *away)
    with stream(brokers, failOnDataLoss=fail) as reader:
        brokers.end = 900
        assert reader.latestOffset(at(1000), ReadAllAvailable()) == at(1000)
        assert reader.reportLatestOffset() == at(1000)
        brokers.end = 1010
        assert reader.latestOffset(at(1000), ReadAllAvailable()) == at(1010)


def test_a_master_that_lacks_what_was_read_has_lost_it() -> None:
    brokers = Brokers(MASTER)
    brokers.end = 900
    with (
        stream(brokers) as reader,
        pytest.raises(DataLossError, match="ends at 900, but 1000 was read already"),
    ):
        reader.latestOffset(at(1000), ReadAllAvailable())
    brokers = Brokers(MASTER)
    brokers.end = 900
    with stream(brokers, failOnDataLoss="false") as reader:
        assert reader.latestOffset(at(1000), ReadAllAvailable()) == at(900)


def test_available_now_begins_no_later_than_it_ends() -> None:
    """Messages that come between the plan of the run and the look at where to begin must not let it
    begin beyond its end."""
    brokers = Brokers(MASTER)
    with stream(brokers, startingOffsets="latest") as reader:
        brokers.end = 5
        reader.prepareForTriggerAvailableNow()
        brokers.end = 9
        start = reader.initialOffset()
        assert start == at(5)
        assert reader.latestOffset(start, ReadAllAvailable()) == at(5)
    with stream(brokers := Brokers(MASTER), startingOffsets="latest") as reader:
        brokers.end = 9
        assert reader.initialOffset() == at(9)


def test_available_now_ends_where_its_master_did() -> None:
    """The run must end where the master's queue ended, even if the master is gone since: what the
    slave lacks must be waited for, and is not the end of the run."""
    brokers = Brokers(MASTER)
    with stream(brokers) as reader:
        brokers.end = 2000
        reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(at(0), ReadMaxRows(1500)) == at(1500)
        brokers.addresses[SLAVE] = brokers.addresses.pop(MASTER)
        brokers.end = 900
        assert reader.latestOffset(at(1500), ReadAllAvailable()) == at(2000)
        assert reader.latestOffset(at(2000), ReadAllAvailable()) == at(2000)
        assert reader.latestOffset({}, ReadAllAvailable()) == at(2000)


def test_available_now_goes_back_behind_no_checkpoint() -> None:
    """The run must not end before a checkpoint. A slave that is behind said where it ends; what the
    master has beyond that is for the next run."""
    brokers = Brokers(SLAVE)
    with stream(brokers) as reader:
        brokers.end = 900
        reader.prepareForTriggerAvailableNow()
        brokers.addresses[MASTER] = brokers.addresses.pop(SLAVE)
        brokers.end = 1010
        assert reader.latestOffset(at(1000), ReadAllAvailable()) == at(1000)
        brokers.end = 990
        with pytest.raises(DataLossError, match="ends at 990, but 1000 was read already"):
            reader.latestOffset(at(1000), ReadAllAvailable())


def test_a_broker_that_never_comes_back_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With failOnDataLoss=false a broker that never comes back must be waited for only once,
    because a checkpoint names former brokers for ever."""
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=sleep)
    monkeypatch.setattr(stream_module, "time", clock)
    brokers = Brokers(MASTER)
    gone = {"broker-0": {"0": 7}}
    with stream(brokers, failOnDataLoss="false", pollTimeoutMs="60s") as reader:
        reached: dict[str, Any] = {"t": {**gone, **at(0)["t"]}}
        waited = []
        for end in (3, 5, 9):
            brokers.end, began_s = end, now_s
            reached = reader.latestOffset(reached, ReadAllAvailable())
            assert reached == {"t": {**gone, **at(end)["t"]}}
            waited.append(now_s - began_s)
    assert waited[0] >= 60
    assert waited[1:] == [0, 0]


def ranges(reader: RmqStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    tasks = reader.partitions(start, end)
    return [each[1:3] for task in tasks if isinstance(task, QueueRanges) for each in task.ranges]


def test_a_new_queue_begins_at_its_first_message() -> None:
    """A new queue must begin at its first message. Its first batch may be planned again hours
    later, when some of these messages have expired: that is a loss."""
    brokers = Brokers(MASTER)
    with stream(brokers) as reader:
        brokers.end = 9
        end = reader.latestOffset({}, ReadAllAvailable())
        assert end == at(9)
        assert ranges(reader, {}, end) == [(0, 9)]
        brokers.first = 4
        with pytest.raises(DataLossError, match="is new to the query and begins at 4, not at 0"):
            reader.partitions({}, end)
        brokers.first = brokers.end = 12
        with pytest.raises(DataLossError, match="begins at 12"):
            reader.partitions({}, end)
        # Not a new queue: the reader of the range notices the loss.
        assert ranges(reader, at(3), end) == [(3, 9)]


def test_a_new_queue_that_has_lost_messages_may_be_read_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers = Brokers(MASTER)
    with stream(brokers, failOnDataLoss="false") as reader:
        brokers.first, brokers.end = 4, 9
        assert ranges(reader, {}, at(9)) == [(4, 9)]
    assert "is new to the query and begins at 4, not at 0; going on" in caplog.text


def test_what_a_slave_lacks_of_a_new_queue_its_master_is_asked_for() -> None:
    brokers = Brokers(SLAVE, MASTER)
    with stream(brokers) as reader:
        brokers.first, brokers.end = 4, 9
        assert ranges(reader, {}, at(9)) == [(0, 9)]


@pytest.mark.parametrize(("first", "end", "committed"), [(5, 9, 3), (9, 9, 3), (0, 9, 12)])
def test_a_groups_offset_that_is_gone_is_a_loss(
    first: int, end: int, committed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """If the group's offset no longer exists, there is a loss: what the group has not read has
    expired, perhaps all of it, or its queue was cut."""
    brokers = Brokers(MASTER)
    brokers.first, brokers.end, brokers.committed = first, end, committed
    text = f"group g: offset {committed} of queue 0 of topic t on broker-a is not there"
    with (
        stream(brokers, startingOffsets="group", group="g") as reader,
        pytest.raises(DataLossError, match=text),
    ):
        reader.initialOffset()
    brokers = Brokers(MASTER)
    brokers.first, brokers.end, brokers.committed = first, end, committed
    options = {"startingOffsets": "group", "group": "g", "failOnDataLoss": "false"}
    with stream(brokers, **options) as reader:
        assert reader.initialOffset() == at(min(max(committed, first), end))
    assert f"{text}, it has {first} to {end}; the nearest is taken" in caplog.text


def test_a_group_begins_where_it_is_or_at_what_is_there() -> None:
    brokers = Brokers(MASTER)
    with stream(brokers, startingOffsets="group", group="g") as reader:
        brokers.first, brokers.end = 5, 9
        assert reader.initialOffset() == at(5)
        brokers.committed = 7
        assert reader.initialOffset() == at(7)
    brokers = Brokers(SLAVE, MASTER)
    with stream(brokers, startingOffsets="group", group="g") as reader:
        brokers.first, brokers.end, brokers.committed = 5, 9, 3
        assert reader.initialOffset() == at(3)  # only the master could say that 3 is gone
