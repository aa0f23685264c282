"""The allocation strategies: each queue has one owner, members that are Java clients agree with
rmq's, and a strategy that raises for one topic keeps no other topic back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from support.consuming import API_TIMEOUT_MS, Kept, consumer_of, create
from support.waiting import wait_until

from rmq import ConfigError, PullConsumer, RmqError
from rmq.client.allocation import (
    AllocateMessageQueueStrategy,
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    allocation_of,
    strategy_of,
)
from rmq.client.pull import consumer as pull_consumer
from rmq.client.push import rebalance
from rmq.format.fastjson import MessageQueue
from rmq.pytest_plugin import RunningBroker

MEMBERS = ["10.0.0.1@1", "10.0.0.2@2", "10.0.0.3@3"]


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("t", broker, i) for i in range(count)]


def shares(
    strategy: AllocateMessageQueueStrategy, there: list[MessageQueue], members: list[str] = MEMBERS
) -> list[list[int]]:
    return [
        [each.queue_id for each in strategy.allocate("g", member, there, members)]
        for member in members
    ]


def test_runs_and_circles() -> None:
    assert shares(Averagely(), queues(8)) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert shares(Averagely(), queues(2)) == [[0], [1], []]
    assert shares(AveragelyByCircle(), queues(8)) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert shares(AveragelyByCircle(), queues(2)) == [[0], [1], []]


@pytest.mark.parametrize(
    "strategy", [Averagely(), AveragelyByCircle(), ConsistentHash(), ByMachineRoom({"room"})],
    ids=lambda each: each.name,
)  # fmt: skip
@pytest.mark.parametrize("members", range(1, 6))
@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_every_queue_has_one_owner(
    strategy: AllocateMessageQueueStrategy, members: int, count: int
) -> None:
    there = queues(count, "room@b")
    ids = [f"m{i}" for i in range(members)]
    found = [each for share in shares(strategy, there, ids) for each in share]
    assert sorted(found) == list(range(count))
    assert strategy.allocate("g", "stranger", there, ids) == []


def test_configured_queues_are_taken_where_they_exist() -> None:
    strategy = ByConfig([*queues(2), MessageQueue("other", "b", 0)])
    assert shares(strategy, queues(8)) == [[0, 1]] * 3


def test_queues_of_other_rooms_are_left_alone() -> None:
    there = [*queues(5, "far@b"), *queues(7, "near@b"), *queues(2, "plain")]
    assert shares(ByMachineRoom({"near"}), there) == [[0, 1, 6], [2, 3], [4, 5]]


def test_members_share_the_queues_of_their_room_and_of_empty_rooms() -> None:
    strategy = MachineRoomNearby(
        Averagely(), lambda queue: queue.broker_name, lambda member: member[:1]
    )
    there = [*queues(4, "1"), *queues(2, "2"), *queues(3, "3")]
    found = [
        [(each.broker_name, each.queue_id)
         for each in strategy.allocate("g", member, there, ["1a", "1b", "2a"])]
        for member in ("1a", "1b", "2a")
    ]  # fmt: skip
    assert found == [
        [("1", 0), ("1", 1), ("3", 0)], [("1", 2), ("1", 3), ("3", 1)],
        [("2", 0), ("2", 1), ("3", 2)],
    ]  # fmt: skip
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    nowhere = MachineRoomNearby(Averagely(), lambda queue: "", lambda member: "1")
    with pytest.raises(ConfigError, match="no machine room"):
        nowhere.allocate("g", "1a", there, ["1a"])


def test_few_queues_move_on_the_ring() -> None:
    strategy, there = ConsistentHash(), queues(64)
    before = shares(strategy, there)
    after = shares(strategy, there, MEMBERS[:2])
    for kept, then in zip(after, before, strict=False):
        assert set(then) <= set(kept)


def test_the_ring_is_that_of_java() -> None:
    """Places on the ring are the first four bytes of MD5, and a queue's text is the one that Java
    makes, so that Java's members find the same shares."""
    assert ConsistentHash().hash("10.0.0.1@1-0") == 0xB2B6568D  # printf 10.0.0.1@1-0 | md5sum
    texts: list[str] = []
    ConsistentHash(1, lambda text: len(texts.append(text) or texts)).allocate(
        "g", "m", queues(1), ["m"]
    )
    assert texts == ["m-0", "MessageQueue [topic=t, brokerName=b, queueId=0]"]
    assert shares(ConsistentHash(1, lambda text: 5 if text.endswith("-0") else 9), queues(2)) == [
        [], [], [0, 1],
    ]  # fmt: skip


def test_strategies_are_chosen_by_name_or_object() -> None:
    assert strategy_of(None).name == "AVG"
    assert strategy_of("CONSISTENT_HASH").name == "CONSISTENT_HASH"
    own = ByConfig([])
    assert strategy_of(own) is own
    for wrong in ("CONFIG", "avg", 7):
        with pytest.raises(ConfigError):
            strategy_of(wrong)


class Refusing(Averagely):
    """A strategy that raises for one topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.refusals = 0

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        if queues[0].topic == self.topic:
            self.refusals += 1
            raise KeyError("of the strategy")
        return super().allocate(group, member, queues, members)


@pytest.mark.parametrize("kind", ["push", "pull"])
def test_a_strategy_that_raises_for_one_topic_keeps_no_other_back(
    broker: RunningBroker, kind: str, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A strategy that raises for a topic must be asked again for it, and the log must say only once
    that it raises."""
    for module in (rebalance, pull_consumer):
        monkeypatch.setattr(module, "AGAIN_MS", 10)
    address, group = broker.namesrv_addr, f"share-{kind}"
    topics = [f"{group}-{number}" for number in range(2)]
    for topic in topics:
        create(address, topic)
    strategy = Refusing(topics[0])
    changes: dict[str, Any] = {
        "allocate_message_queue_strategy": strategy, "mq_client_api_timeout": API_TIMEOUT_MS,
    }  # fmt: skip
    consumer: Any = (
        consumer_of(address, group, Kept(), **changes)
        if kind == "push"
        else PullConsumer(group, namesrv_addr=address, **changes)
    )
    with consumer:
        for topic in topics:
            consumer.subscribe(topic)
        wait_until(lambda: [each.topic for each in consumer.assignment()] == topics[1:])
        wait_until(lambda: strategy.refusals > 3)
        warnings = [each.getMessage() for each in caplog.records
                    if each.levelno == logging.WARNING]  # fmt: skip
        (said,) = [each for each in warnings if "strategy" in each]
        assert f"rebalance of {topics[0]}" in said
        assert "KeyError('of the strategy')" in said
        strategy.topic = ""
        wait_until(lambda: [each.topic for each in consumer.assignment()] == topics)


@pytest.mark.parametrize("found", [None, ["q"], [("t", "b", 0)]])
def test_a_share_is_made_of_queues(found: Any) -> None:
    class Odd(Averagely):
        def allocate(
            self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
        ) -> list[MessageQueue]:
            return found

    with pytest.raises(RmqError, match="the allocate_message_queue_strategy: "):
        allocation_of(Odd(), "g", MEMBERS[0], queues(2), MEMBERS)
