"""The producer of rmq.aio: it waits for sends that are under way, and nothing blocks its loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.scripted_cluster import Cluster, refused, stored
from support.waiting import HANG_S, until

from rmq import BusyError, Message, aio
from rmq.format.remoting import Command

LONG_MS = int(1000 * HANG_S)
SLOTS = 1 << 14  # the most requests that can be under way


class Gate:
    """The answers of a broker, which wait until the test opens the gate."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, request: Command) -> Command:
        self.opened.wait(HANG_S)
        return stored(request)


class Hook:
    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        fields["Signature"] = "mine"

    def after_response(self, *_: Any) -> None:
        pass


def aio_producer(cluster: Cluster, **changes: Any) -> aio.Producer:
    given = {"send_msg_timeout": LONG_MS, **changes}
    return aio.Producer("g", namesrv_addr=cluster.name_server.address, **given)


def limited(**changes: int) -> dict[str, Any]:
    return {"enable_backpressure_for_async_mode": True, **changes}


def test_a_send_that_waits_for_another_try_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq.client.producer.failover_grace.GRACE_MS", LONG_MS)
    has_master = threading.Event()

    def answer(request: Command) -> Command:
        return stored(request) if has_master.is_set() else refused(14)(request)

    async def main() -> None:
        with Cluster(answer) as cluster:
            async with aio_producer(cluster) as producer:
                future = await producer.send_soon(Message("t", b"x"))
                await until(lambda: len(producer._client.delayed_retries))
                flushed = asyncio.create_task(producer.flush(LONG_MS))
                await until(lambda: len(cluster.sends(0)) > 3)
                assert not flushed.done()
                has_master.set()
                assert await flushed
                assert future.done() and future.result().is_ok

    asyncio.run(main())


@pytest.mark.parametrize(
    "limit", [{"back_pressure_for_async_send_size": 350}, {"back_pressure_for_async_send_num": 3}]
)
def test_sends_wait_for_room_in_their_order_while_the_loop_turns(limit: dict[str, int]) -> None:
    """Fifty sends that begin in one turn of the loop must go out in their order, although only the
    loop itself makes room for them."""
    bodies = [b"%100d" % i for i in range(50)]
    gate = Gate()

    async def main() -> None:
        with Cluster(gate) as cluster:
            async with aio_producer(cluster, **limited(**limit)) as producer:
                await producer.queues("t")
                sends = asyncio.gather(*(producer.send(Message("t", each)) for each in bodies))
                await until(lambda: producer._client.messages_in_flight == 3)
                assert producer._client.bytes_in_flight == 300
                gate.opened.set()
                assert all(each.is_ok for each in await sends)
                assert [each.body for each in cluster.sends(0)] == bodies

    asyncio.run(main())


@pytest.mark.parametrize("changes", [{}, {"rpc_hook": Hook()}])
def test_more_sends_than_slots_wait_while_the_loop_turns(changes: dict[str, Any]) -> None:
    gate = Gate()

    async def main() -> None:
        with Cluster(gate) as cluster:
            async with aio_producer(cluster, **changes) as producer:
                await producer.queues("t")
                sends = asyncio.gather(
                    *(producer.send(Message("t", b"x")) for _ in range(SLOTS + 100))
                )
                await until(lambda: producer._client.messages_in_flight > SLOTS - 100)
                assert producer._client.messages_in_flight < SLOTS, "some are left for others"
                gate.opened.set()
                assert all(each.is_ok for each in await sends)

    asyncio.run(main())


def test_a_send_for_which_no_room_comes_is_refused_in_its_own_time() -> None:
    gate = Gate()

    async def main() -> None:
        with Cluster(gate) as cluster:
            limit = limited(back_pressure_for_async_send_num=1)
            async with aio_producer(cluster, **limit) as producer:
                await producer.queues("t")
                first = await producer.send_soon(Message("t", b"1"))
                with pytest.raises(BusyError, match=r"1 messages \(1 bytes\) are under way"):
                    await producer.send(Message("t", b"2"), timeout_ms=20)
                waiting = asyncio.create_task(producer.send(Message("t", b"3")))
                await until(lambda: producer._turn.locked())
                with pytest.raises(BusyError):  # waits behind a send that has more time
                    await producer.send(Message("t", b"4"), timeout_ms=20)
                assert not first.done() and not waiting.done()
                gate.opened.set()
                assert (await first).is_ok and (await waiting).is_ok

    asyncio.run(main())
