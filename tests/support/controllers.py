"""Controllers: a controller in the test's event loop, and a client that speaks to it as a broker.

@in_loop
async def test_x(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        await one.join()                    # it has an id, is registered, and sends heartbeats
        reply = await one.elect()
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from support.name_server import Client
from support.waiting import HANG_S, machine_sleep

from rmq.config import load_properties
from rmq.controller.server import ControllerServer
from rmq.format.remoting import Command

NAME = {"clusterName": "c", "brokerName": "broker-a"}

T = TypeVar("T")


async def seen(
    look: Callable[[], Awaitable[T]] | Callable[[], T], is_it: Callable[[T], object] = bool
) -> T:
    """Looks until the result is as wanted, and returns it. A driven clock does not move
    meanwhile."""
    until = time.monotonic() + HANG_S
    while True:
        found = look()
        value: T = await found if isinstance(found, Awaitable) else found
        if is_it(value):
            return value
        assert time.monotonic() < until, f"waited in vain, at last for {value}"
        await machine_sleep(0.001)


@asynccontextmanager
async def controller(folder: Path, **given: object) -> AsyncIterator[ControllerServer]:
    """A controller on a free port, with its state in the folder, or in the etcd of `rmqEtcd`."""
    texts = {
        "listenPort": "0",
        "controllerStorePath": str(folder / "controller"),
        "configStorePath": str(folder / "controller.properties"),
    }
    texts |= {key: str(value) for key, value in given.items()}
    server = ControllerServer(load_properties(None, texts, server="controller"))
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


class Replica(Client):
    """One broker's connection to a controller."""

    def __init__(self, port: int, broker_id: int) -> None:
        super().__init__(port)
        self.broker_id = broker_id
        self.address = f"127.0.0.1:{10000 + broker_id}"

    async def join(self) -> Command:
        """Gets its id, registers and starts heartbeats. The reply names the master, if there is
        one."""
        code = f"{self.address};1700000000000"
        applied = await self.call(
            1013, appliedBrokerId=self.broker_id, registerCheckCode=code, **NAME
        )
        assert applied.code == 0, applied.remark
        await self.beat()
        return await self.call(1003, brokerId=self.broker_id, brokerAddress=self.address, **NAME)

    async def beat(self, **fields: object) -> None:
        header = {
            "brokerAddr": self.address,
            "brokerId": self.broker_id,
            "epoch": 1,
            "maxOffset": 100,
            "confirmOffset": 100,
            "heartbeatTimeoutMills": 10_000,
            "electionPriority": 5,
        }
        assert (await self.call(904, **{**NAME, **header, **fields})).code == 0

    async def elect(self, **fields: object) -> Command:
        header = {"brokerId": self.broker_id, "designateElect": False}
        return await self.call(1002, **{**NAME, **header, **fields})

    async def alter(self, ids: list[int], set_epoch: int, epoch: int, **fields: object) -> Command:
        body = json.dumps({"syncStateSet": ids, "syncStateSetEpoch": set_epoch}).encode()
        header = {"brokerName": "broker-a", "masterBrokerId": self.broker_id, "masterEpoch": epoch}
        return await self.call(1001, body, **{**header, **fields})

    async def look(self, **fields: object) -> Command:
        return await self.call(1004, brokerName="broker-a", **fields)

    async def renew(self, epoch: int, *, covered: bool = False) -> int:
        """Asks for a lease; returns its milliseconds, or 0 for none."""
        reply = await self.look(
            rmqBrokerId=self.broker_id, rmqMasterEpoch=epoch, rmqCovered=covered
        )
        return int(reply.fields.get("rmqLeaseMillis", "0"))


def in_sync(reply: Command) -> tuple[list[int], int]:
    """The sync state set in a reply's body: (ids, epoch)."""
    body: dict[str, Any] = json.loads(reply.body)
    return body["syncStateSet"], body["syncStateSetEpoch"]
