"""The producer of rmq.aio: what is under way is waited for."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.scripted_cluster import Cluster, refused, stored
from support.waiting import HANG_S, until

from rmq import Message, aio
from rmq.format.remoting import Command

LONG_MS = int(1000 * HANG_S)


def test_a_send_that_waits_for_another_try_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmq.client.producer.patience.PATIENCE_MS", LONG_MS)
    has_master = threading.Event()

    def answer(request: Command) -> Command:
        return stored(request) if has_master.is_set() else refused(14)(request)

    async def main() -> None:
        with Cluster(answer) as cluster:
            address = cluster.name_server.address
            async with aio.Producer(
                "g", namesrv_addr=address, send_msg_timeout=LONG_MS
            ) as producer:
                future = await producer.send_soon(Message("t", b"x"))
                await until(lambda: len(producer._client.later))
                flushed = asyncio.create_task(producer.flush(LONG_MS))
                await until(lambda: len(cluster.sends(0)) > 3)
                assert not flushed.done()
                has_master.set()
                assert await flushed
                assert future.done() and future.result().is_ok

    asyncio.run(main())
