"""Queues whose ends move under a consumer: no message that exists is passed over.

A master without its newest messages is the broker with an earlier copy of its store. Retention is
the broker without the first file of its log.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_pair import Pair
from support.consuming import Kept, committed, consumer_of, create, numbers, once_each, send
from support.store_copies import copy_store
from support.waiting import wait_until

from rmq import Message, MessageExt, PullConsumer
from rmq.base import clock
from rmq.client.consumer import pull_answers
from rmq.client.push.process_queue import ProcessQueue
from rmq.codes import RequestCode

TOPIC, GROUP = "moved", "moved-readers"
QUICK: dict[str, Any] = {"poll_name_server_interval": 1_000,
                         "pull_time_delay_mills_when_exception": 100}  # fmt: skip
SLAVE = ("--set", "brokerRole=SLAVE", "--set", "brokerId=1")
SEGMENT_BYTES, BODY_BYTES = 256 << 10, 4_000  # too small to be compressed


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Pair]:
    broker = Pair(tmp_path, "--set", f"mappedFileSizeCommitLog={SEGMENT_BYTES}")
    try:
        yield broker
    finally:
        broker.kill()


class Store:
    """A copy of a broker's store, to which the broker can be set back."""

    def __init__(self, broker: Pair) -> None:
        self._broker = broker
        self._kept = broker.directory / "before"
        broker.kill()
        copy_store(broker.broker.store, self._kept)
        broker.start()

    def comes_back(self) -> None:
        self._broker.kill()
        shutil.rmtree(self._broker.broker.store)
        self._kept.rename(self._broker.broker.store)
        self._broker.start()


def lose_the_beginning(broker: Pair, *options: str) -> None:
    broker.kill()
    first, *others = sorted((broker.broker.store / "commitlog").iterdir())
    assert others
    first.unlink()
    broker.start(*options)


class Pulls:
    """A hook that notes the offsets from which the topic is pulled."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def before_request(self, address: str, code: int, fields: Any, body: bytes) -> None:
        codes = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        if code in codes and fields["topic"] == TOPIC:
            self.offsets.append(int(fields["queueOffset"]))

    def after_response(self, address: str, code: int, fields: Any, reply: Any) -> None:
        pass


class Gate(Kept):
    """A listener that handles so many messages and keeps the next ones waiting."""

    def __init__(self, count: int) -> None:
        super().__init__(self._wait)
        self._passes = threading.Semaphore(count)

    def _wait(self, messages: list[MessageExt], context: Any) -> None:
        self._passes.acquire()

    def let(self, count: int) -> None:
        self._passes.release(count)


def one_queue(consumer: Any) -> ProcessQueue:
    (found,) = [each for each in consumer._client.process_queues() if each.wire.topic == TOPIC]
    assert isinstance(found, ProcessQueue)
    return found


def big_numbers(begin: int, end: int) -> list[Message]:
    return [Message(TOPIC, f"{i:<{BODY_BYTES}}") for i in range(begin, end)]


def pull_consumer(broker: Pair, **changes: Any) -> PullConsumer:
    return PullConsumer(GROUP, namesrv_addr=broker.namesrv, **QUICK, **changes)


def offsets(messages: list[MessageExt]) -> list[int]:
    """The queue offsets of the messages. Bodies may be out of order, because some sends are tried
    again while the broker makes its next log file."""
    return [each.queue_offset for each in messages]


def read(consumer: PullConsumer, last: int) -> list[MessageExt]:
    """Polls until the message at this offset has come."""
    found: list[MessageExt] = []

    def comes() -> bool:
        found.extend(consumer.poll(100, 1_000))
        return last in offsets(found)

    wait_until(comes)
    return found


def test_a_lost_tail_takes_nothing_before_it_from_a_listener(broker: Pair) -> None:
    queues = create(broker.namesrv, TOPIC)
    send(broker.namesrv, numbers(TOPIC, 0, 150))
    store = Store(broker)
    send(broker.namesrv, numbers(TOPIC, 150, 200))
    kept = Gate(100)
    threads = {"consume_thread_min": 1, "consume_thread_max": 1}
    with consumer_of(broker.namesrv, GROUP, kept, **threads, **QUICK) as consumer:
        consumer.subscribe(TOPIC)
        kept.wait(101)  # the listener keeps the last of them waiting
        wait_until(lambda: one_queue(consumer).pull_offset == 200)
        store.comes_back()
        wait_until(lambda: one_queue(consumer).pull_offset == 150)
        assert one_queue(consumer).progress == 100
        kept.let(1_000)
        send(broker.namesrv, numbers(TOPIC, 200, 210))
        wait_until(lambda: len(kept.messages) >= 161)
        assert offsets(kept.messages) == [*range(101), *range(100, 160)]
        assert once_each(kept.bodies[-10:], 200, 210)
        wait_until(lambda: one_queue(consumer).progress == 160)
    assert committed(broker.namesrv, GROUP, queues) == [160]


def test_a_lost_tail_takes_nothing_before_it_from_polls(broker: Pair) -> None:
    queues = create(broker.namesrv, TOPIC)
    send(broker.namesrv, numbers(TOPIC, 0, 150))
    store = Store(broker)
    send(broker.namesrv, numbers(TOPIC, 150, 200))
    with pull_consumer(broker) as consumer:
        consumer.assign(queues)
        state = consumer._client._assigned.of(queues[0])
        wait_until(lambda: state.count == 200)
        assert offsets(consumer.poll(0, 100)) == [*range(100)]
        store.comes_back()
        wait_until(lambda: state.pull_offset == 150)
        assert (state.done, state.position) == (0, 100)
        send(broker.namesrv, numbers(TOPIC, 200, 210))
        found = read(consumer, 159)
        assert offsets(found) == [*range(100, 160)]
        assert once_each([int(each.body) for each in found[-10:]], 200, 210)
    assert committed(broker.namesrv, GROUP, queues) == [160]


def test_retention_takes_nothing_from_a_listener_that_was_pulled(broker: Pair) -> None:
    create(broker.namesrv, TOPIC)
    send(broker.namesrv, big_numbers(0, 160))
    kept = Gate(0)
    few = {"consume_thread_min": 1, "consume_thread_max": 1, "pull_batch_size": 4,
           "pull_threshold_for_queue": 8}  # fmt: skip
    with consumer_of(broker.namesrv, GROUP, kept, **few, **QUICK) as consumer:
        consumer.subscribe(TOPIC)
        wait_until(lambda: one_queue(consumer).is_waiting)
        pulled = one_queue(consumer).count
        lose_the_beginning(broker)
        kept.let(pulled - 4)  # there is room for more, but not everything is handled
        wait_until(lambda: (one_queue(consumer).pull_offset or 0) > pulled)
        assert one_queue(consumer).progress <= pulled - 4
        kept.let(1_000)
        wait_until(lambda: 159 in offsets(kept.messages))
    found = offsets(kept.messages)
    assert found[pulled] > pulled
    assert found == [*range(pulled), *range(found[pulled], 160)]


def test_retention_takes_nothing_from_polls_that_was_pulled(broker: Pair) -> None:
    queues = create(broker.namesrv, TOPIC)
    send(broker.namesrv, big_numbers(0, 160))
    few = {"pull_batch_size": 4, "pull_threshold_for_queue": 8}
    consumer = pull_consumer(broker, **few).start()
    try:
        consumer.assign(queues)
        state = consumer._client._assigned.of(queues[0])
        wait_until(lambda: state in consumer._client._pulls._full)
        assert state.count == 8
        lose_the_beginning(broker)
        assert offsets(consumer.poll(0, 2)) == [0, 1]
        wait_until(lambda: (state.pull_offset or 0) > 8)
        assert (state.done, state.position) == (0, 2)
        found = offsets(read(consumer, 159))
        assert found[6] > 8
        assert found == [*range(2, 8), *range(found[6], 160)]
    finally:
        # As if the messages of the last poll were not handled.
        consumer._client.close(finished=False)
    assert committed(broker.namesrv, GROUP, queues) < [160]


@pytest.mark.parametrize("is_pushed", [True, False])
def test_a_slave_that_lacks_the_beginning_is_not_asked_without_pause(
    broker: Pair, monkeypatch: pytest.MonkeyPatch, is_pushed: bool
) -> None:
    monkeypatch.setattr(pull_answers, "SOON_PAUSE_MS", 3_600_000)
    queues = create(broker.namesrv, TOPIC)
    send(broker.namesrv, big_numbers(0, 160))
    with pull_consumer(broker, auto_commit=False) as consumer:
        consumer.assign(queues)
        consumer.commit({queues[0]: 3})
    broker.broker.stop()
    lose_the_beginning(broker, *SLAVE)  # now it is a slave, and there is no master
    pulls = Pulls()
    with (
        consumer_of(broker.namesrv, GROUP, Kept(), rpc_hook=pulls, subscription={TOPIC: "*"})
        if is_pushed
        else pull_consumer(broker, rpc_hook=pulls)
    ) as reader:
        if isinstance(reader, PullConsumer):
            reader.assign(queues)
        timers = reader._client.instance.timers

        def pauses() -> bool:
            return any(due - clock.monotonic() > 3_000 for due, *_ in list(timers._heap))

        wait_until(lambda: len(pulls.offsets) > 3 or (pulls.offsets and pauses()))
        assert pulls.offsets == [3]
