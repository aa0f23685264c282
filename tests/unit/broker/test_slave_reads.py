"""What a slave answers to readers. Live brokers in this process, joined by real sockets."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from support.broker_client import BrokerClient
from support.live_broker import live_broker
from support.live_replicas import MASTER, TOPIC, slave_of, until_same_log
from support.name_server import in_loop, name_server
from support.popping import NOTIFICATION, PEEK
from support.waiting import until

from rmq.format import fastjson
from rmq.format.remoting import Command

SUCCESS, BUSY, NOTHING_NEW, AT_ONCE = 0, 2, 19, 20
LONG_MS = 15_000


async def pull(client: BrokerClient, offset: int, hold_ms: int = 0, code: int = 11) -> Command:
    fields: dict[str, Any] = {
        "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
        "sysFlag": 6 if hold_ms else 4, "commitOffset": 0, "suspendTimeoutMillis": hold_ms,
        "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    return await client.call(code, **fields)


async def fill(client: BrokerClient, broker_id: int = 0) -> None:
    await client.call(17, topic="t", **TOPIC)
    body = b'{"groupName":"g","brokerId":%d,"whichBrokerWhenConsumeSlowly":1}' % broker_id
    assert (await client.call(200, body)).code == SUCCESS
    for number in range(5):
        assert (await client.send("t", b"%d" % number)).code == SUCCESS


async def shows_nothing(reader: BrokerClient) -> None:
    """Checks that no request shows the slave's messages, also those that take none and read without
    a check point."""
    assert (await pull(reader, 0)).code == BUSY
    for code, fields in ((PEEK, {"maxMsgNums": 5}), (NOTIFICATION, {"pollTime": 0, "bornTime": 0})):
        named = {"consumerGroup": "g", "topic": "t", "queueId": -1, **fields}
        reply = await reader.call(code, **named)
        assert (reply.code, reply.body) == (BUSY, b""), code
        assert (reply.remark or "").startswith("[REJECTREQUEST]")


@in_loop
async def test_what_may_be_cut_is_shown_to_nobody(tmp_path: Path) -> None:
    """A message that may still be cut off must be shown to nobody, as at a slave under a controller
    until its master says what it has."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
        BrokerClient(master.core.port) as client,
        BrokerClient(slave.core.port) as reader,
    ):
        await fill(client)
        await until_same_log(master, slave)
        await until(lambda: "g" in slave.groups)
        named = {"consumerGroup": "g", "topic": "t", "queueId": -1}
        peeked = await reader.call(PEEK, maxMsgNums=5, **named)
        assert (peeked.code, peeked.body != b"") == (SUCCESS, True)
        slave.core.set_unconfirmed()
        await shows_nothing(reader)


@in_loop
async def test_a_slave_sends_readers_back_while_its_master_lives(tmp_path: Path) -> None:
    async with live_broker(tmp_path / "m", **MASTER, slaveReadEnable="true") as master:
        async with (
            slave_of(master, tmp_path / "s") as slave,
            BrokerClient(master.core.port) as client,
            BrokerClient(slave.core.port) as reader,
        ):
            await fill(client, broker_id=1)
            await until_same_log(master, slave)
            await until(lambda: "g" in slave.groups)
            # If the group's consumers should read at broker 1, the master says so.
            assert (await pull(client, 0)).fields["suggestWhichBrokerId"] == "1"
            reply = await pull(reader, 0)
            assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (SUCCESS, "0")
            # The pull is held, but not as long as it asked for: new messages come to the master
            # first.
            asked = slave.core.stats()["pulls_held"]
            reply = await pull(reader, 5, hold_ms=LONG_MS)
            assert slave.core.stats()["pulls_held"] == asked + 1
            assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (NOTHING_NEW, "0")
            await client.send("t", b"new")
            reply = await pull(reader, 5, hold_ms=LONG_MS)
            assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (SUCCESS, "0")
        # Without a master, the group's setting decides.
        await master.stop()
    async with (
        slave_of(master, tmp_path / "s", rmqMasterAddress="127.0.0.1:1") as slave,
        BrokerClient(slave.core.port) as reader,
    ):
        reply = await pull(reader, 0)
        assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (SUCCESS, "1")


@in_loop
async def test_a_slave_refuses_pulls_only_when_that_is_said(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s", slaveReadEnable="false") as slave,
        BrokerClient(master.core.port) as client,
        BrokerClient(slave.core.port) as reader,
    ):
        await fill(client)
        await until_same_log(master, slave)
        await until(lambda: "g" in slave.groups)
        for code in (11, 361):
            reply = await pull(reader, 0, code=code)
            assert reply.code == BUSY
            assert (reply.remark or "").startswith("[REJECTREQUEST]")
        await shows_nothing(reader)
        # Requests that only ask are answered, as at RocketMQ's slaves.
        assert (await reader.call(30, topic="t", queueId=0)).fields["offset"] == "5"
        await reader.call(25, b"slaveReadEnable=true")
        await until(lambda: slave.settings.slaveReadEnable)
        assert (await pull(reader, 0)).code == SUCCESS
        # A master serves reads whatever this setting is.
        assert (await pull(client, 0)).code == SUCCESS


@in_loop
async def test_a_slave_is_shown_as_a_master_without_writes_while_there_is_none(
    tmp_path: Path,
) -> None:
    async with name_server(supportActingMaster=True) as names, BrokerClient(names.port) as asking:
        where = {"namesrvAddr": f"127.0.0.1:{names.port}", "enableSlaveActingMaster": "true"}

        async def route() -> tuple[dict[str, str], int]:
            reply = await asking.call(105, topic="t", acceptStandardJsonOnly="true")
            found = fastjson.loads_object(reply.body)
            return found["brokerDatas"][0]["brokerAddrs"], found["queueDatas"][0]["perm"]

        brokers = names.tables.brokers
        async with AsyncExitStack() as last:
            async with (
                live_broker(tmp_path / "m", **MASTER, **where) as master,
                BrokerClient(master.core.port) as client,
            ):
                name = master.settings.brokerName
                await fill(client)
                slave = await last.enter_async_context(slave_of(master, tmp_path / "s", **where))
                await until_same_log(master, slave)
                both = {0: master.address, 1: slave.address}
                await until(lambda: brokers[name].addresses == both)
                assert await route() == ({"0": master.address, "1": slave.address}, 6)
            # An old client takes this slave for the master: it reads, and finds no queue to send
            # to.
            await until(lambda: brokers[name].addresses == {1: slave.address})
            assert await route() == ({"0": slave.address}, 4)
