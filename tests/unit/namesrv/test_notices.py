"""Goal: brokers of a name are told at once when another process leads it, and only if they asked
for that.

Method: a socket of the test stands for the slave, and reads what the name server sends. Not shown
here: what Apache's slave does with it.
"""

import asyncio

import pytest
from support.name_server import Client, in_loop, name_server
from support.waiting import HANG_S, until

from rmq.format.remoting import Command, decode


class Slave:
    """A listening socket that keeps the commands it is sent."""

    async def __aenter__(self) -> "Slave":
        self.heard: asyncio.Queue[Command] = asyncio.Queue()
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *ignored: object) -> None:
        self.server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")
        await self.heard.put(decode(await reader.readexactly(length)))
        writer.close()

    async def hears(self) -> Command:
        return await asyncio.wait_for(self.heard.get(), HANG_S)


@in_loop
async def test_a_slave_hears_that_its_master_left_and_that_one_came() -> None:
    async with (
        name_server(notifyMinBrokerIdChanged=True) as server,
        Slave() as slave,
        Client(server.port) as client,
    ):
        await client.register(address=slave.address, broker_id=1, enableActingMaster=True)
        await client.register(address="h1:1", broker_id=0, enableActingMaster=True)
        came = await slave.hears()
        assert (came.code, came.is_oneway) == (905, True)
        assert came.fields == {
            "minBrokerId": "0",
            "minBrokerAddr": "h1:1",
            "haBrokerAddr": "10.0.0.1:10912",
        }
        await client.call(
            104, clusterName="C", brokerName="broker-a", brokerAddr="h1:1", brokerId=0
        )
        left = await slave.hears()
        assert left.fields == {
            "minBrokerId": "1",
            "minBrokerAddr": slave.address,
            "offlineBrokerAddr": "h1:1",
        }


@in_loop
async def test_nobody_is_told_unless_the_setting_says_so() -> None:
    async with name_server() as server, Slave() as slave, Client(server.port) as client:
        await client.register(address=slave.address, broker_id=1, enableActingMaster=True)
        await client.register(address="h1:1", broker_id=0, enableActingMaster=True)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slave.heard.get(), 0.2)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "", ":", "127.0.0.1:999999"])
@in_loop
async def test_a_peer_that_cannot_be_reached_does_no_harm(address: str) -> None:
    async with name_server(notifyMinBrokerIdChanged=True) as server, Client(server.port) as client:
        await client.register(address=address, broker_id=1, enableActingMaster=True)
        await client.register(address="h1:1", broker_id=0, enableActingMaster=True)
        await until(lambda: not server._notices._one_way._tasks)
        assert (await client.call(105, topic="T")).code == 0
