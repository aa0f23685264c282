"""Goal: rmq's clients use static topics while a queue moves to another broker; the mapping outlives
kill -9.

Method: a name server and two brokers, each a process of its own; mappings as mqadmin sends them.
What RocketMQ's tools and client do with static topics: tests/compat/test_static_topics.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.queue_mappings import FAR, detail, item
from support.replica_set import Server
from support.waiting import wait_until, wait_until_is

from rmq import Message, Producer, PullConsumer, PushConsumer
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

SMALL = (
    "--set", f"mappedFileSizeCommitLog={16 << 20}", "--set", "waitTimeMillsInSendQueue=60000",
    "--set", "osPageCacheBusyTimeOutMills=60000",
)  # fmt: skip

PATIENT = {"send_msg_timeout": 60_000, "mq_client_api_timeout": 60_000}  # with busy machines


class Pair:
    """Brokers a and b; the static topic s has queue 0 on a and queue 1 on b."""

    def __init__(self, folder: Path) -> None:
        self.name_server = Server(folder / "n.txt", "namesrv")
        self.namesrv = self.name_server.address
        self.brokers = {}
        for name in "ab":
            words = ("broker", "-n", self.namesrv, "--store", str(folder / name), *SMALL)
            self.brokers[name] = Server(folder / f"{name}.txt", *words, "--set",
                                        f"brokerName={name}")  # fmt: skip
        self.put("a", {0: [item(0, "a", 0, 0)]})
        self.put("b", {1: [item(0, "b", 0, 0)]})

    def put(self, name: str, queues: dict[int, Any], epoch: int = 1, physical: int = 1) -> None:
        fields = {"topic": "s", "defaultTopic": "TBW102", "readQueueNums": physical,
                  "writeQueueNums": physical, "perm": 6, "topicFilterType": "SINGLE_TAG",
                  "topicSysFlag": 0, "order": False}  # fmt: skip
        body = detail(name, queues, 2, epoch)
        code = RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC
        with Cluster(self.namesrv) as view:
            view.call(self.brokers[name].address, code, fields, body)

    def move(self) -> None:
        """Moves queue 0 to b, as mqadmin does."""
        undecided = [item(0, "a", 0, 0), item(1, "b", 1, -1)]
        other = [item(0, "b", 0, 0)]
        self.put("b", {0: undecided, 1: other}, 2, 2)
        self.put("a", {0: undecided}, 2)
        self.put("b", {0: [item(0, "a", 0, 0), item(1, "b", 1, FAR)], 1: other}, 2, 2)

    def end(self) -> None:
        for each in (*self.brokers.values(), self.name_server):
            each.kill()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_clients_follow_a_queue_to_its_next_broker(pair: Pair) -> None:
    seen: list[tuple[int, int, bytes]] = []

    def listen(messages: list[Any], _: Any) -> None:
        seen.extend((each.queue_id, each.queue_offset, each.body) for each in messages)

    wanted = {b"%d" % n for n in range(80)}
    with (
        Producer("P", namesrv_addr=pair.namesrv, **PATIENT) as producer,
        PushConsumer("g", listen, namesrv_addr=pair.namesrv, subscription={"s": "*"}),
    ):
        queues = producer.queues("s")
        assert queues == [MessageQueue("s", "a", 0), MessageQueue("s", "b", 1)]
        for n in range(40):
            result = producer.send(Message("s", b"%d" % n), queue=queues[n % 2])
            assert (result.queue_id, result.queue_offset) == (n % 2, n // 2)
        wait_until(lambda: len(seen) >= 40)
        pair.move()
        for n in range(40, 80):
            # The queue that the caller knows stands for the same queue at its next broker.
            result = send_patiently(producer, b"%d" % n, queues[n % 2])
            first = FAR - 20 if n % 2 == 0 else 0
            assert (result.queue_id, result.queue_offset) == (n % 2, first + n // 2)
        wait_until(lambda: {body for *_, body in seen} == wanted)
        assert (0, FAR, b"40") in seen and (1, 20, b"41") in seen


def send_patiently(producer: Producer, body: bytes, queue: MessageQueue) -> Any:
    """Sends until that succeeds. The client tries a chosen queue only once, but reads the route
    again meanwhile."""

    def send() -> Any:
        try:
            return producer.send(Message("s", body), queue=queue)
        except RemoteError as error:
            assert error.code == 501, error
            return None

    return wait_until_is(send, lambda sent: sent is not None)


def test_sends_to_any_queue_go_where_it_is_led(pair: Pair) -> None:
    """After a move, sends that name no queue go to the broker that leads the queues now."""
    with Producer("P", namesrv_addr=pair.namesrv, **PATIENT) as producer:
        assert producer.send(Message("s", b"x")).is_ok
        pair.move()
        assert {producer.send(Message("s", b"x")).broker_name for _ in range(10)} == {"b"}


def test_a_mapping_that_was_answered_outlives_a_kill(pair: Pair) -> None:
    with Producer("P", namesrv_addr=pair.namesrv, **PATIENT) as producer:
        for n in range(6):
            producer.send(Message("s", b"%d" % n), queue=producer.queues("s")[n % 2])
    pair.move()
    for broker in pair.brokers.values():
        broker.kill()
        broker.start()
    wait_until(lambda: leaders(pair) == {0: "b", 1: "b"})
    with Producer("P", namesrv_addr=pair.namesrv, **PATIENT) as producer:
        result = producer.send(Message("s", b"6"), queue=producer.queues("s")[0])
        assert (result.broker_name, result.queue_offset) == ("b", FAR)
    with PullConsumer("g", namesrv_addr=pair.namesrv, mq_client_api_timeout=60_000) as consumer:
        queues = [MessageQueue("s", "b", 0), MessageQueue("s", "b", 1)]
        consumer.assign(queues)
        for queue in queues:
            consumer.seek(queue, 0)
        found: list[Any] = []
        wait_until(lambda: found.extend(consumer.poll(200)) or len(found) >= 7)
        assert {each.body for each in found} == {b"%d" % n for n in range(7)}
        assert max(each.queue_offset for each in found) == FAR
        assert consumer.offset_for_timestamp(queues[0], 0) == 0


def leaders(pair: Pair) -> dict[int, str]:
    with Cluster(pair.namesrv) as view:
        try:
            return view.route("s").leaders
        except RemoteError:
            return {}


def test_a_refusal_names_the_queue(pair: Pair) -> None:
    with Cluster(pair.namesrv) as view:
        with pytest.raises(RemoteError, match="queue 1 of the static topic s is not led"):
            fields = {"topic": "s", "queueId": 1}
            view.call(pair.brokers["a"].address, RequestCode.GET_MAX_OFFSET, fields)
        reply = view.call(pair.brokers["a"].address, RequestCode.GET_ALL_TOPIC_CONFIG)
        assert "s" in fastjson.loads_object(reply.body)["topicQueueMappingDetailMap"]
