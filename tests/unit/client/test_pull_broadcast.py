"""Pull consumers that keep their offsets elsewhere: in a file when broadcasting, or in a user's
store."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.consuming import committed, create, numbers, once_each, send
from support.waiting import HANG_S, wait_until

from rmq import MessageExt, PullConsumer, RmqError
from rmq.format.fastjson import MessageQueue
from rmq.pytest_plugin import RunningBroker


def puller(broker: RunningBroker, group: str, **changes: Any) -> PullConsumer:
    changes = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", **changes}
    return PullConsumer(group, namesrv_addr=broker.namesrv_addr, **changes)


def gather(consumer: PullConsumer, count: int) -> list[int]:
    found: list[MessageExt] = []
    until = time.monotonic() + HANG_S
    while len(found) < count and time.monotonic() < until:
        found += consumer.poll(500)
    return [int(each.body) for each in found]


def test_every_member_reads_everything_and_goes_on_by_its_file(
    broker: RunningBroker, tmp_path: Path
) -> None:
    queues = create(broker.namesrv_addr, "pull-cast", 3)
    send(broker.namesrv_addr, numbers("pull-cast", 0, 90))
    for folder in ("1", "2"):
        given = {"message_model": "BROADCASTING", "local_offset_store_dir": str(tmp_path / folder)}
        with puller(broker, "pull-cast", **given) as consumer:
            consumer.subscribe("pull-cast")
            assert consumer.assignment() == queues
            assert once_each(gather(consumer, 90), 0, 90)
            consumer.commit()
            assert sum(consumer.committed(each) or 0 for each in queues) == 90
    send(broker.namesrv_addr, numbers("pull-cast", 90, 100))
    with puller(broker, "pull-cast", **given) as consumer:
        consumer.subscribe("pull-cast")
        assert once_each(gather(consumer, 10), 90, 100)
    assert committed(broker.namesrv_addr, "pull-cast", queues) == [None, None, None]


def test_two_that_broadcast_do_not_share(broker: RunningBroker, tmp_path: Path) -> None:
    queues = create(broker.namesrv_addr, "pull-cast-two", 2)
    given = {"message_model": "BROADCASTING"}
    with (
        puller(broker, "pull-cast-two", local_offset_store_dir=str(tmp_path / "a"), **given) as one,
        puller(broker, "pull-cast-two", local_offset_store_dir=str(tmp_path / "b"), **given) as two,
    ):
        for each in (one, two):
            each.subscribe("pull-cast-two")
        send(broker.namesrv_addr, numbers("pull-cast-two", 0, 40))
        for each in (one, two):
            assert once_each(gather(each, 40), 0, 40)
            assert each.assignment() == queues


class Store:
    """Offsets in memory."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.loaded = 0

    def load(self) -> None:
        self.loaded += 1

    def read(self, queue: MessageQueue) -> int | None:
        return self.offsets.get(queue)

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        self.offsets.update(offsets)


def test_a_store_of_ones_own_and_news_of_the_queues(broker: RunningBroker) -> None:
    (queue,) = create(broker.namesrv_addr, "pull-store", 1)
    send(broker.namesrv_addr, numbers("pull-store", 0, 20))
    store = Store()
    store.offsets[queue] = 5
    told: list[tuple[str, int, list[MessageQueue]]] = []

    def listener(topic: str, all_queues: list[MessageQueue], own: list[MessageQueue]) -> None:
        told.append((topic, len(all_queues), own))

    with puller(
        broker, "pull-store", offset_store=store, message_queue_listener=listener,
        register_topics=("pull-store",),
    ) as consumer:  # fmt: skip
        assert gather(consumer, 15) == list(range(5, 20))
        assert told == [("pull-store", 1, [queue])]
    assert store.offsets == {queue: 20}
    assert store.loaded == 1
    assert committed(broker.namesrv_addr, "pull-store", [queue]) == [None]


class AwayStore(Store):
    """A store that cannot be reached at its first look, nor whenever the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = True

    def _reach(self) -> None:
        if self.is_away:
            raise ConnectionError("of the store")

    def read(self, queue: MessageQueue) -> int | None:
        try:
            self._reach()
        finally:
            self.is_away = False
        return super().read(queue)

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        self._reach()
        super().persist(offsets, wait=wait)


def test_a_store_that_raises_is_asked_again(broker: RunningBroker) -> None:
    (queue,) = create(broker.namesrv_addr, "pull-away", 1)
    send(broker.namesrv_addr, numbers("pull-away", 0, 5))
    store = AwayStore()
    with puller(
        broker, "pull-away", offset_store=store, auto_commit=False,
        pull_time_delay_mills_when_exception=10,
    ) as consumer:  # fmt: skip
        consumer.subscribe("pull-away")
        assert gather(consumer, 5) == list(range(5))
        store.is_away = True
        with pytest.raises(RmqError, match=r"offset 5 of .* is not kept"):
            consumer.commit()
        store.is_away = False
        consumer.commit()
    assert store.offsets == {queue: 5}


@pytest.mark.parametrize("given", ["2", b"2"])
def test_a_store_that_gives_no_number_is_asked_again(broker: RunningBroker, given: Any) -> None:
    topic = f"pull-no-number-{type(given).__name__}"
    (queue,) = create(broker.namesrv_addr, topic, 1)
    send(broker.namesrv_addr, numbers(topic, 0, 5))
    answers = [given]

    class Database(Store):
        def read(self, queue: MessageQueue) -> Any:
            return answers.pop() if answers else super().read(queue)

    store = Database()
    store.offsets[queue] = 2
    with puller(
        broker, topic, offset_store=store, pull_time_delay_mills_when_exception=10
    ) as consumer:
        consumer.subscribe(topic)
        assert gather(consumer, 3) == [2, 3, 4]
    assert not answers


def test_where_a_new_group_begins_is_kept(broker: RunningBroker) -> None:
    """A new group's start must be kept even if its first member polls nothing and leaves: what is
    sent then must come to the next member."""
    create(broker.namesrv_addr, "pull-start", 1)
    send(broker.namesrv_addr, numbers("pull-start", 0, 10))
    given = {"consume_from_where": "CONSUME_FROM_LAST_OFFSET", "offset_store": Store()}
    with puller(broker, "pull-start", **given) as consumer:
        consumer.subscribe("pull-start")
        wait_until(lambda: len(consumer.assignment()) == 1)
        assert consumer.position(consumer.assignment()[0]) == 10
    send(broker.namesrv_addr, numbers("pull-start", 10, 15))
    with puller(broker, "pull-start", **given) as consumer:
        consumer.subscribe("pull-start")
        assert gather(consumer, 5) == list(range(10, 15))
