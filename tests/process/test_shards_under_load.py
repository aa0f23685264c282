"""Several shards under load: the bus carries no messages, and shards come and go meanwhile.

Method: real processes; producers and consumers on each shard's own port write down what they are
promised (support/compact_ack_history.py). Times are asserted with much room for busy machines.
"""

import asyncio
import itertools
import time
from contextlib import AsyncExitStack
from pathlib import Path

from support.ack_history import GROUP
from support.broker_client import BrokerClient
from support.compact_ack_history import CompactAckHistory, read
from support.forked_commands import run_rmq
from support.lasting_load import QUEUES, TOPICS, LastingLoad
from support.sharded_broker import ShardedBroker, sharded_broker
from support.waiting import until, wait_until

from rmq.client.blocking.cluster import Cluster

REST_S = 2.0
NO_PERMISSION = 16
TOPIC_CONFIG, GROUP_CONFIG = 351, 352
UNBOUND = ["--set", "rmqPinShards=false"]  # bound, more shards than cores are placed in another way


def bus_traffic(broker: ShardedBroker) -> tuple[float, float]:
    """Messages and bytes over the shards' ends of the bus, so far."""
    gauges = [each.gauges for each in broker.stats()]
    messages = sum(each["bus_messages_sent"] + each["bus_messages_received"] for each in gauges)
    return messages, sum(each["bus_bytes_sent"] + each["bus_bytes_received"] for each in gauges)


def routed(broker: ShardedBroker, topic: str) -> set[str]:
    with Cluster(broker.namesrv) as cluster:
        return {entry.broker_name for entry in cluster.route(topic).entries}


async def make_topics(port: int) -> None:
    async with BrokerClient(port) as client:
        for topic, queues in TOPICS:
            reply = await client.call(
                17, topic=topic, readQueueNums=queues, writeQueueNums=queues, perm=6, order="false"
            )
            assert reply.code == 0, reply.remark


async def send_and_pull(ports: list[int], count: int) -> None:
    """Sends so many messages of 1,000 bytes to each shard, and reads each of them once."""
    for port in ports:
        async with BrokerClient(port) as client:
            begins = [int((await client.call(30, topic="t", queueId=q)).fields["offset"])
                      for q in range(4)]  # fmt: skip
            opaques = [client.post_send("t", bytes(1000), n % 4) for n in range(count)]
            for opaque in opaques:
                assert (await client.reply(opaque)).code == 0
            pulled = 0
            for queue_id, begin in enumerate(begins):
                async for message in read(client, ("t", queue_id), begin):
                    pulled += len(message.body) == 1000
            assert pulled == count


async def is_told(port: int) -> bool:
    """Whether the shard knows topic and group, whoever made them."""
    async with BrokerClient(port) as client:
        topic = await client.call(TOPIC_CONFIG, topic="t")
        group = await client.call(GROUP_CONFIG, group=GROUP)
        return topic.code == group.code == 0


def test_no_message_of_a_user_crosses_the_bus(tmp_path: Path) -> None:
    count = 3000
    with sharded_broker(tmp_path, 2) as broker:
        asyncio.run(send_and_pull(broker.ports, 8))  # makes topic and group on all shards
        for port in broker.ports:
            wait_until(lambda port=port: asyncio.run(is_told(port)))
        before, began = bus_traffic(broker), time.monotonic()
        time.sleep(REST_S)
        rest_s = time.monotonic() - began
        rest = [b - a for a, b in zip(before, bus_traffic(broker), strict=True)]
        before, began = bus_traffic(broker), time.monotonic()
        asyncio.run(send_and_pull(broker.ports, count))
        load_s = time.monotonic() - began
        load = [b - a for a, b in zip(before, bus_traffic(broker), strict=True)]
        print(
            f"at rest {rest} messages, bytes in {rest_s:.1f} s; under load {load}, {load_s:.1f} s"
        )
        assert rest[0] > 0  # beats and pulses: the counters work
        for idle, loaded, spare in zip(rest, load, (20, 5000), strict=True):
            assert loaded <= idle / rest_s * load_s * 1.5 + spare


def test_third_shard_joins_two_that_serve_on(tmp_path: Path) -> None:
    async def run(broker: ShardedBroker) -> None:
        for port in broker.ports:
            await make_topics(port)
        ledgers = [CompactAckHistory() for _ in range(3)]
        async with AsyncExitStack() as stack:
            loads = [LastingLoad(port, ledgers[i]) for i, port in enumerate(broker.ports)]
            for load in loads:
                await stack.enter_async_context(load)
            await until(lambda: all(load.acks > 50 for load in loads))
            pids = await asyncio.to_thread(lambda: broker.pids)
            broker.process.kill()  # a clean stop would end the shards; these are adopted
            await asyncio.to_thread(broker.process.wait)
            await asyncio.to_thread(broker.start, 3)
            assert (await asyncio.to_thread(lambda: broker.pids))[:2] == pids
            third = LastingLoad(broker.ports[2], ledgers[2])
            await stack.enter_async_context(third)
            await until(lambda: third.acks > 50)
            for load in loads:
                assert not load.refused
                # Times in which this process or a shard waited for a processor do not count.
                gaps = [b - a for a, b in itertools.pairwise(load.calm)]
                print(f"longest pause {max(gaps):.3f} s among {len(gaps)} acks")
                assert max(gaps) < 3.0
        for port, ledger in zip(broker.ports, ledgers, strict=True):
            assert await ledger.check(port, whole=True) >= ledger.acked
        found = await asyncio.to_thread(routed, broker, TOPICS[0][0])
        assert found == {"broker-a", "broker-a-1", "broker-a-2"}

    with sharded_broker(tmp_path, 2, UNBOUND) as broker:
        asyncio.run(run(broker))


def test_shard_leaves_under_load_when_all_it_has_is_consumed(tmp_path: Path) -> None:
    async def run(broker: ShardedBroker) -> None:
        for port in broker.ports:
            await make_topics(port)
        stays, goes = (LastingLoad(port, CompactAckHistory()) for port in broker.ports)
        async with stays:
            async with goes:
                await until(lambda: stays.acks > 50 and goes.acks > 50)
                shrink = ("broker", "shrink", "--shards", "1", "--store", broker.store)
                done = await asyncio.to_thread(run_rmq, *shrink, "--wait", 90)
                assert done.returncode == 0, done.stderr
                assert str(broker.store / "shard-1") in done.stdout
                # Sends were refused while it was drained, and all that was acked is consumed.
                assert {code for code, _ in goes.refused} <= {NO_PERMISSION, 14}, goes.refused
                promised = goes.ledger.promised
                assert [goes.at[q] for q in QUEUES] == [len(promised[q]) for q in QUEUES]
            before = stays.acks
            await until(lambda: stays.acks > before + 50)
        assert not stays.refused
        assert await stays.ledger.check(broker.ports[0], whole=True) >= stays.ledger.acked
        assert await asyncio.to_thread(routed, broker, TOPICS[0][0]) == {"broker-a"}

    with sharded_broker(tmp_path, 2) as broker:
        asyncio.run(run(broker))
        assert [shard.index for shard in broker.shards()] == [0]
