"""The consumers of rmq.aio, against an embedded broker."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from support.calm_clock import calm_seconds
from support.consuming import PARAMETERS, committed, create, numbers, once_each, send
from support.waiting import HANG_S

from rmq import ClosedError, ConsumeConcurrentlyStatus, MessageExt, aio
from rmq.pytest_plugin import RunningBroker

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


def test_a_poll_hands_out_what_lies_there_and_waits_for_what_comes(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "aio-poll", 2)
    send(address, numbers("aio-poll", 0, 500))

    async def main() -> None:
        async with aio.PullConsumer("aio-poll", namesrv_addr=address) as consumer:
            await consumer.subscribe("aio-poll")
            found: list[MessageExt] = []
            while len(found) < 500:
                found += await consumer.poll(9_000, 100)
            assert once_each([int(each.body) for each in found], 0, 500)
            began, calm = time.monotonic(), calm_seconds()
            assert await consumer.poll(300) == []
            assert time.monotonic() - began > 0.25
            assert calm_seconds() - calm < 4.5  # a wait at the broker would take 5 s or more
            waiting = asyncio.create_task(consumer.poll(3_600_000))
            for _ in range(100):
                await asyncio.sleep(0)  # the loop must not be blocked meanwhile
            assert not waiting.done()
            await asyncio.to_thread(send, address, numbers("aio-poll", 500, 501))
            assert [each.body for each in await asyncio.wait_for(waiting, HANG_S)] == [b"500"]
            queue = consumer.assignment()[0]
            await consumer.seek_to_begin(queue)
            assert (await consumer.poll(9_000, 1))[0].queue_offset == 0
            await consumer.commit()
            assert await consumer.committed(queue) == 1
            assert await consumer.position(queue) == 1
        with pytest.raises(ClosedError):
            await consumer.poll(0)

    asyncio.run(main())


def test_polls_that_do_not_wait_get_what_is_there(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "aio-pop-now", 2)
    send(address, numbers("aio-pop-now", 0, 10))

    async def main() -> list[int]:
        async with aio.PopConsumer(
            "aio-pop-now", namesrv_addr=address, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
        ) as consumer:
            await consumer.subscribe("aio-pop-now")
            found: list[MessageExt] = []
            while len(found) < 10:
                found += await consumer.poll(0)
            await consumer.ack(found)
            return [int(each.body) for each in found]

    assert once_each(asyncio.run(main()), 0, 10)


def test_iteration_ends_when_it_is_closed(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "aio-iterate")
    send(address, numbers("aio-iterate", 0, 10))

    async def main() -> list[int]:
        found = []
        async with aio.PullConsumer("aio-iterate", namesrv_addr=address) as consumer:
            await consumer.assign([queue])
            async for message in consumer:
                found.append(int(message.body))
                if len(found) == 10:
                    task = asyncio.create_task(consumer.close())
            await task
        return found

    assert asyncio.run(main()) == list(range(10))
    assert committed(address, "aio-iterate", [queue]) == [10]


def test_coroutines_are_called_in_the_loop_many_at_once(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "aio-push", 2)
    send(address, numbers("aio-push", 0, 200))
    state: dict[str, Any] = {"now": 0, "most": 0, "threads": set(), "bodies": []}

    async def main() -> None:
        enough, together = asyncio.Event(), asyncio.Event()

        async def listener(messages: list[MessageExt], context: Any) -> Any:
            state["threads"].add(threading.get_ident())
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
            if state["most"] >= 5:
                together.set()
            await together.wait()
            await asyncio.sleep(0)  # so that others can begin
            state["now"] -= 1
            (message,) = messages
            state["bodies"].append(int(message.body))
            if len(state["bodies"]) == 201:
                enough.set()
            if message.body == b"7" and message.reconsume_times == 0:
                context.delay_level_when_next_consume = 1
                return LATER
            return None

        changes = {**PARAMETERS, "consume_thread_min": 8, "consume_thread_max": 8}
        async with aio.PushConsumer("aio-push", listener, namesrv_addr=address,
                                    **changes) as consumer:  # fmt: skip
            await consumer.subscribe("aio-push")
            await asyncio.wait_for(enough.wait(), HANG_S)
            assert len(consumer.assignment()) == 2
        assert state["threads"] == {threading.get_ident()}

    asyncio.run(main())
    assert 4 < state["most"] <= 8
    assert sorted(state["bodies"]) == sorted([*range(200), 7])


def test_coroutines_in_order_one_at_a_time(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "aio-order", 1)
    send(address, numbers("aio-order", 0, 30))
    found: list[int] = []
    running = 0

    async def main() -> None:
        enough = asyncio.Event()

        async def listener(messages: list[MessageExt], context: Any) -> None:
            nonlocal running
            running += 1
            for _ in range(10):
                await asyncio.sleep(0)
                assert running == 1
            running -= 1
            found.extend(int(each.body) for each in messages)
            if len(found) == 30:
                enough.set()

        async with aio.PushConsumer("aio-order", listener, namesrv_addr=address,
                                    consume_orderly=True, **PARAMETERS) as consumer:  # fmt: skip
            await consumer.subscribe("aio-order")
            await asyncio.wait_for(enough.wait(), HANG_S)

    asyncio.run(main())
    assert found == list(range(30))
