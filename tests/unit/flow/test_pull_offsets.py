"""Up to where a group has pulled, in addition to what it has committed (208): real sockets and
reactor."""

import asyncio
from pathlib import Path

from support.broker_client import BrokerClient
from support.live_broker import served
from support.name_server import in_loop
from support.page_cache import drop_page_cache
from support.shard import HELD_MS
from support.waiting import until

from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

STATS, RESET, COMMIT = 208, 222, 15


async def offsets(
    client: BrokerClient, queue_id: int = 1, group: str = "g", topic: str = "t"
) -> tuple[int, int, int]:
    """(the broker's offset, the pulled offset, the committed offset)"""
    reply = await client.call(STATS, consumerGroup=group, topic=topic)
    row = fastjson.loads(reply.body)["offsetTable"][MessageQueue(topic, "broker-a", queue_id)]
    return row["brokerOffset"], row["pullOffset"], row["consumerOffset"]


async def commit(client: BrokerClient, offset: int, queue_id: int = 1) -> None:
    reply = await client.call(
        COMMIT, consumerGroup="g", topic="t", queueId=queue_id, commitOffset=offset
    )
    assert reply.code == 0


@in_loop
async def test_what_was_pulled_is_told_from_what_is_committed(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        for number in range(10):
            assert (await client.send("t", b"%d" % number, 1)).code == 0
        await client.heartbeat("g", "t")
        assert await offsets(client) == (10, 0, 0)
        assert len(await client.pulled("g", "t", queue=1, maxMsgNums=4)) == 4
        assert await offsets(client) == (10, 4, 0)
        await commit(client, 2)
        assert await offsets(client) == (10, 4, 2)
        assert len(await client.pulled("g", "t", queue=1, offset=4)) == 6
        assert await offsets(client) == (10, 10, 2)
        await commit(client, 10)
        # A second consumer begins anew. The newest pull counts, but never less than the commits.
        assert len(await client.pulled("g", "t", queue=1, maxMsgNums=3)) == 3
        assert await offsets(client) == (10, 10, 10)
        assert await offsets(client, 3) == (0, 0, 0)


@in_loop
async def test_a_held_pull_counts_when_it_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client), BrokerClient(broker.core.port) as other:
        await client.send("t", b"make", 1)
        await client.heartbeat("g", "t")
        held = asyncio.create_task(other.pull("g", "t", queue=1, offset=1, hold_ms=HELD_MS))
        while (await offsets(client))[1] != 1:
            pass
        await client.send("t", b"new", 1)
        assert (await held).code == 0
        assert await offsets(client) == (2, 2, 0)


@in_loop
async def test_what_a_filter_passed_over_counts_and_a_reset_forgets(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        for _ in range(5):
            await client.send("t", b"x", 1, i="TAGS\x01other\x02")
        await client.heartbeat("g", "t")
        reply = await client.pull("g", "t", queue=1, sysFlag=4, subscription="wanted")
        assert (reply.code, reply.fields["nextBeginOffset"]) == (20, "5")
        assert await offsets(client) == (5, 5, 0)
        broker.core.reset_offset(b"g", b"t", 1, 2)
        assert await offsets(client) == (5, 2, 2)
        assert (await client.pull("g", "t", queue=1, offset=5)).code == 21
        assert await offsets(client) == (5, 2, 2)


@in_loop
async def test_pulls_from_the_disk_count_and_lags_see_them(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        for _ in range(3000):
            client.post_send("t", b"x" * 4000, 1)
        await client.send("t", b"last", 1)
        await client.heartbeat("g", "t")
        await commit(client, 0)
        drop_page_cache(tmp_path / "commitlog")
        reply = await client.pull("g", "t", queue=1)
        assert reply.code == 0
        following = int(reply.fields["nextBeginOffset"])
        assert following > 0
        assert (await offsets(client))[1] == following
        assert broker.core.offsets(1)[b"t@g"][1] == following
        assert broker.core.offsets()[b"t@g"][1] == 0


@in_loop
async def test_a_group_that_is_gone_has_pulled_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"x", 1)
        await client.heartbeat("g", "t")
        await client.pulled("g", "t", queue=1)
        await until(lambda: broker.core.pulled(b"g", b"t") == {1: 1})
        assert (await client.call(207, groupName="g", cleanOffset="true")).code == 0
        assert broker.core.pulled(b"g", b"t") == {}
        assert broker.core.pulled(b"nobody", b"t") == broker.core.pulled(b"g", b"nothing") == {}
