"""Cancelled calls of rmq.aio: the thread that starts or closes a client goes on, and leaves nothing
behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.scripted_cluster import Cluster, stored
from support.waiting import HANG_S, until, wait_until

from rmq import ClosedError, Message, PushConsumer, aio
from rmq.codes import RequestCode as Code
from rmq.format.remoting import Command


class Gate:
    """An answer that waits until the test opens the gate."""

    def __init__(self, answer: Callable[[Command], Any]) -> None:
        self.opened = threading.Event()
        self._answer = answer

    def __call__(self, request: Command) -> Any:
        self.opened.wait(HANG_S)
        return self._answer(request)


def gated(cluster: Cluster) -> Gate:
    """Puts a gate before the name server's routes."""
    answers = cluster.name_server.answers
    gate = Gate(answers[Code.GET_ROUTEINFO_BY_TOPIC])
    answers[Code.GET_ROUTEINFO_BY_TOPIC] = gate
    return gate


def producer_at(address: str) -> Any:
    return aio.Producer("g", namesrv_addr=address, topics=["t"])


def consumer_at(address: str) -> Any:
    subscription = {"unknown": "*"}
    return aio.PushConsumer("g", print, namesrv_addr=address, subscription=subscription)


def threads_of_clients() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("rmq-")]


@pytest.mark.parametrize("client_at", [producer_at, consumer_at])
def test_a_cancelled_start_leaves_nothing_behind(client_at: Callable[[str], Any]) -> None:
    before = threads_of_clients()

    async def main() -> None:
        with Cluster(stored) as cluster:
            gate, client = gated(cluster), client_at(cluster.name_server.address)
            starting = asyncio.create_task(client.start())
            await until(lambda: cluster.name_server.requests)
            starting.cancel()
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert not client._client.is_open
            await until(lambda: set(threads_of_clients()) <= set(before))
            with pytest.raises(ClosedError):
                await client.start()

    asyncio.run(main())


def test_a_consumer_that_is_closed_while_it_starts_does_not_open() -> None:
    before = threads_of_clients()
    with Cluster(stored) as cluster, ThreadPoolExecutor(1) as pool:
        gate = gated(cluster)
        consumer = PushConsumer("g", print, namesrv_addr=cluster.name_server.address)
        consumer.subscribe("unknown", sql="a > 1")  # needs the route first
        starting = pool.submit(consumer.start)
        wait_until(lambda: cluster.name_server.requests)
        consumer.close()
        gate.opened.set()
        with pytest.raises(ClosedError):
            starting.result(HANG_S)
        assert not consumer.is_open
        wait_until(lambda: set(threads_of_clients()) <= set(before))


def test_a_close_that_is_cancelled_goes_on_and_may_be_waited_for_again() -> None:
    before = threads_of_clients()

    async def main() -> None:
        gate = Gate(stored)
        with Cluster(gate) as cluster:
            address = cluster.name_server.address
            producer = aio.Producer("g", namesrv_addr=address, send_msg_timeout=int(HANG_S * 1000))
            await producer.start()
            sending = await producer.send_soon(Message("t", b"x"))
            closing = asyncio.create_task(producer.close())
            for _ in range(10):
                await asyncio.sleep(0)  # until the close has begun
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            with pytest.raises(ClosedError):
                await producer.send(Message("t", b"y"))
            assert not sending.done()
            gate.opened.set()
            await producer.close()
            assert sending.done()
            assert sending.result().is_ok
            assert not producer._client.is_open
            await until(lambda: set(threads_of_clients()) <= set(before))

    asyncio.run(main())
