"""Acks of PopConsumer: few requests, and still each message is told its own result."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest
from support.ack_counter import BATCH, SINGLE, AckCounter
from support.consuming import create, numbers, once_each, send
from support.waiting import HANG_S, wait_until

from rmq import Message, MessageExt, PopConsumer, Producer, RemoteError, aio
from rmq.pytest_plugin import RunningBroker


def popper(broker: RunningBroker, group: str, **changes: Any) -> PopConsumer:
    changes = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", **changes}
    return PopConsumer(group, namesrv_addr=broker.namesrv_addr, **changes)


def take(consumer: PopConsumer, count: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    until = time.monotonic() + HANG_S
    while len(found) < count and time.monotonic() < until:
        found += consumer.poll(1_000)
    assert len(found) == count
    return found


def test_messages_of_many_queues_are_acknowledged_by_one_request(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-batch", 4)
    send(broker.namesrv_addr, numbers("ack-batch", 0, 200))
    counting = AckCounter()
    with popper(broker, "ack-batch", rpc_hook=counting) as consumer:
        consumer.subscribe("ack-batch")
        found = take(consumer, 200)
        kept = [each for each in found if int(each.body) % 50 == 7]
        consumer.ack([each for each in found if each not in kept])
        assert counting.codes[BATCH] == 1
        assert counting.codes[SINGLE] == 0
        assert counting.messages == 196
        for each in kept:
            consumer.change_invisible_time(each, 500)
        again = take(consumer, 4)  # what was not acknowledged, and nothing else
        assert sorted(int(each.body) for each in again) == [7, 57, 107, 157]
        consumer.ack(again)
        assert counting.requests == 2
        assert consumer.poll(300) == []


def test_acks_of_many_threads_share_requests(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-threads")
    send(broker.namesrv_addr, numbers("ack-threads", 0, 320))
    counting = AckCounter()
    with popper(broker, "ack-threads", rpc_hook=counting) as consumer:
        consumer.subscribe("ack-threads")
        found = take(consumer, 320)
        threads = [
            threading.Thread(target=lambda part: [consumer.ack(each) for each in part],
                             args=(found[i::16],)) for i in range(16)
        ]  # fmt: skip
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert counting.requests < 320
        assert counting.codes[BATCH] > 0


def test_acks_of_many_coroutines_share_requests(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-coroutines")
    send(broker.namesrv_addr, numbers("ack-coroutines", 0, 300))
    counting = AckCounter()

    async def main() -> None:
        async with aio.PopConsumer(
            "ack-coroutines", namesrv_addr=broker.namesrv_addr, rpc_hook=counting,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        ) as consumer:  # fmt: skip
            await consumer.subscribe("ack-coroutines")
            found: list[MessageExt] = []
            while len(found) < 300:
                found += await consumer.poll(9_000)
            assert once_each([int(each.body) for each in found], 0, 300)
            await asyncio.gather(*(consumer.ack(each) for each in found))
            assert counting.requests < 150

    asyncio.run(main())


def test_a_refusal_reaches_the_message_it_is_about(broker: RunningBroker) -> None:
    """A broker refuses a batch of acks as a whole. Then each member must be sent alone, so that
    only the message at fault gets the error."""
    create(broker.namesrv_addr, "ack-refused")
    send(broker.namesrv_addr, numbers("ack-refused", 0, 3))
    counting = AckCounter()
    with popper(broker, "ack-refused", rpc_hook=counting) as consumer:
        consumer.subscribe("ack-refused")
        one, two, three = take(consumer, 3)
        parts = two.properties["POP_CK"].split(" ")
        parts[3] = "77"  # there is no such queue of the revive log
        two.properties["POP_CK"] = " ".join(parts)
        ends: dict[bytes, Exception | None] = {}
        done = threading.Semaphore(0)

        def end_of(message: MessageExt) -> Any:
            def ended(error: Exception | None) -> None:
                ends[message.body] = error
                done.release()

            return ended

        with pytest.raises(RemoteError, match="revive"):
            consumer.ack([one, two, three])
        assert (counting.codes[BATCH], counting.codes[SINGLE]) == (1, 3)
        for each in (one, two, three):
            consumer.ack_async(each, end_of(each))
        for _ in range(3):
            assert done.acquire(timeout=HANG_S)
        assert (ends[one.body], ends[three.body]) == (None, None)
        assert isinstance(ends[two.body], RemoteError)


def test_closing_tells_what_was_acknowledged(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-close")
    send(broker.namesrv_addr, numbers("ack-close", 0, 30))
    counting = AckCounter()
    with popper(broker, "ack-close", rpc_hook=counting) as consumer:
        consumer.subscribe("ack-close")
        for each in take(consumer, 30):
            consumer.ack_async(each)
    assert (counting.messages, counting.refused) == (30, 0)


def test_the_callback_of_an_ack_may_acknowledge(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-in-ack")
    send(broker.namesrv_addr, numbers("ack-in-ack", 0, 2))
    told: SimpleQueue[Exception | None] = SimpleQueue()
    with popper(broker, "ack-in-ack") as consumer:
        consumer.subscribe("ack-in-ack")
        one, two = take(consumer, 2)

        def acknowledge(error: Exception | None) -> None:
            consumer.ack(two)
            told.put(error)

        consumer.ack_async(one, acknowledge)
        assert told.get(timeout=HANG_S) is None


def test_an_ack_waits_for_no_callback_thread(broker: RunningBroker) -> None:
    """All of the client's are in callbacks, which acknowledge, too."""
    create(broker.namesrv_addr, "ack-busy")
    create(broker.namesrv_addr, "ack-busy-sent")
    send(broker.namesrv_addr, numbers("ack-busy", 0, 3))
    shared: Any = {"instance_name": "ack-busy", "client_callback_executor_threads": 2}
    begun: SimpleQueue[int] = SimpleQueue()
    told: SimpleQueue[bytes] = SimpleQueue()
    all_have_begun, may_end = threading.Event(), threading.Event()
    with (
        popper(broker, "ack-busy", **shared) as consumer,
        Producer("ack-busy", namesrv_addr=broker.namesrv_addr, **shared) as producer,
    ):
        consumer.subscribe("ack-busy")
        found = take(consumer, 3)

        def acknowledge(message: MessageExt, *_: object) -> None:
            begun.put(threading.get_ident())
            assert all_have_begun.wait(HANG_S)
            consumer.ack(message)
            told.put(message.body)
            assert may_end.wait(HANG_S)

        try:
            threads = set()
            for each in found[:2]:
                sent = Message("ack-busy-sent", each.body)
                producer.send_async(sent, functools.partial(acknowledge, each))
                threads.add(begun.get(timeout=HANG_S))
            assert len(threads) == 2
            all_have_begun.set()
            assert {told.get(timeout=HANG_S) for _ in threads} == {each.body for each in found[:2]}
            consumer.ack(found[2])
        finally:
            may_end.set()


@pytest.mark.parametrize("error", [KeyError("mine"), SystemExit(3)])
def test_a_callback_that_raises_keeps_no_ack_from_going(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    topic = f"ack-raises-{type(error).__name__}"
    create(broker.namesrv_addr, topic)
    send(broker.namesrv_addr, numbers(topic, 0, 20))
    raised: list[Exception | None] = []
    told: list[Exception | None] = []

    def raising(end: Exception | None) -> None:
        raised.append(end)
        raise error

    counting = AckCounter()
    with popper(broker, topic, rpc_hook=counting) as consumer:
        consumer.subscribe(topic)
        found = take(consumer, 20)
        consumer.ack_async(found[0], raising)  # sent alone
        wait_until(lambda: len(raised) == 1)
        consumer.ack_async(found[1:3], raising)  # sent in a batch
        for each in found[3:19]:
            consumer.ack_async(each, told.append)
        wait_until(lambda: len(told) == 16)
        consumer.ack(found[19])
    assert (raised, told) == ([None, None], [None] * 16)
    assert counting.messages == 20
    assert caplog.text.count("the callback of an ack") == 2


def test_what_a_hook_raises_is_the_end_of_that_ack_alone(broker: RunningBroker) -> None:
    class Refusing(AckCounter):
        refuses = True

        def before_request(
            self, address: str, code: int, fields: dict[str, str], body: bytes
        ) -> None:
            super().before_request(address, code, fields, body)
            if code in (SINGLE, BATCH) and self.refuses:
                raise KeyError("of the hook")

    create(broker.namesrv_addr, "ack-hook")
    send(broker.namesrv_addr, numbers("ack-hook", 0, 6))
    hook = Refusing()
    with popper(broker, "ack-hook", rpc_hook=hook) as consumer:
        consumer.subscribe("ack-hook")
        found = take(consumer, 6)
        for part in (found[0], found[1:3]):
            with pytest.raises(KeyError, match="of the hook"):
                consumer.ack(part)
        hook.refuses = False
        consumer.ack(found)


def test_in_order_a_queue_has_one_batch_in_hand(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-order")
    send(broker.namesrv_addr, numbers("ack-order", 0, 20))
    with (
        popper(broker, "ack-order", consume_orderly=True, pop_batch_nums=6) as one,
        popper(broker, "ack-order", consume_orderly=True, pop_batch_nums=6) as two,
    ):
        one.subscribe("ack-order")
        two.subscribe("ack-order")
        found = take(one, 6)
        assert [int(each.body) for each in found] == [0, 1, 2, 3, 4, 5]
        assert two.poll(500) == []  # the queue is taken by the other consumer
        one.ack(found[:5])
        assert two.poll(500) == []  # not before all of the batch is handled
        one.ack(found[5])
        rest: list[int] = []
        until = time.monotonic() + HANG_S
        while len(rest) < 14 and time.monotonic() < until:
            for consumer in (two, one):
                got = consumer.poll(200)
                rest += [int(each.body) for each in got]
                consumer.ack(got)
        assert rest == list(range(6, 20))


def test_in_order_what_failed_comes_again_before_what_follows(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "ack-order-again")
    send(broker.namesrv_addr, numbers("ack-order-again", 0, 8))
    with popper(broker, "ack-order-again", consume_orderly=True, pop_batch_nums=4) as consumer:
        consumer.subscribe("ack-order-again")
        first = take(consumer, 4)
        consumer.ack(first[:2])
        for each in first[2:]:
            consumer.change_invisible_time(each, 500)
        again = take(consumer, 4)
        assert [(int(each.body), each.reconsume_times) for each in again] == [
            (2, 1), (3, 1), (4, 0), (5, 0)]  # fmt: skip
        consumer.ack(again)
        assert [int(each.body) for each in take(consumer, 2)] == [6, 7]
