"""Several shards are one broker: what is made on one is on all, and messages go to all of them.

Method: real processes, plain clients on each shard's own port. Times are asserted with much room
for busy machines. Cannot prove: official clients; tests/compat has them with one shard.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.calm_clock import calm_seconds
from support.command_line import rmq
from support.recording_name_server import RecordingNameServer
from support.sanitized import SLOWNESS
from support.sharded_broker import ShardedBroker, sharded_broker
from support.topics import make_topic
from support.waiting import HANG_S, until, wait_until

from rmq import Admin, Message, Producer
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import Start, tail
from rmq.errors import RemoteError
from rmq.format import fastjson
from shards.placement import PORT_STEP

UPDATE_TOPIC, DELETE_TOPIC, TOPIC_CONFIG = 17, 215, 351
UPDATE_GROUP, DELETE_GROUP, GROUP_CONFIG, ALL_GROUPS, FORBID = 200, 207, 352, 201, 353
UPDATE_CONFIG, GET_CONFIG = 25, 26
CONSUMER_LIST, CONSUMER_CONNECTIONS, UNREGISTER = 38, 203, 35
NO_TOPIC, NO_GROUP, NO_CONSUMER = 17, 26, 1
QUERY_MESSAGE, QUERY_NOT_FOUND = 12, 22


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    """Two shards, for tests that leave nothing behind but topics and groups of their own."""
    with sharded_broker(tmp_path_factory.mktemp("two"), 2) as broker:
        yield broker


def route(broker: ShardedBroker, topic: str) -> dict[str, int]:
    """{broker name: queues for sends} in the route that a client gets now."""
    with Cluster(broker.namesrv) as cluster, suppress(RemoteError):
        return {entry.broker_name: entry.write_queues for entry in cluster.route(topic).entries}
    return {}


def test_topic_made_by_a_send_to_one_shard_has_queues_on_all(tmp_path: Path) -> None:
    async def send(port: int) -> None:
        async with BrokerClient(port) as client:
            for number in range(3):
                reply = await client.send(f"t{number}")
                assert reply.code == 0, reply.remark

    with RecordingNameServer() as told, sharded_broker(tmp_path, 3, told.options) as broker:
        asyncio.run(send(broker.ports[1]))
        expected = {"broker-a": 4, "broker-a-1": 4, "broker-a-2": 4}
        for number in range(3):
            wait_until(lambda topic=f"t{number}": told.brokers(topic) == set(expected))
            wait_until(lambda topic=f"t{number}": route(broker, topic) == expected)


def test_messages_go_over_all_shards_and_come_back(two: ShardedBroker) -> None:
    def taken() -> list[int]:
        return [each.counters["messages_in"] for each in two.stats()]

    before = taken()
    with Cluster(two.namesrv) as cluster:
        make_topic(cluster, "spread", queues=4)
        with Producer(namesrv_addr=two.namesrv, send_msg_timeout=60_000) as producer:
            results = [producer.send(Message("spread", f"m{number}")) for number in range(80)]
        used = {(each.queue.broker_name, each.queue.queue_id) for each in results}
        assert used == {(name, q) for name in ("broker-a", "broker-a-1") for q in range(4)}
        found = [message.body.decode() for message in tail(cluster, "spread", start=Start("first"))]
        assert sorted(found) == sorted(f"m{number}" for number in range(80))
        assert [now - then for now, then in zip(taken(), before, strict=True)] == [40, 40]


def test_message_of_any_shard_is_found_once_by_key_unique_key_and_id(two: ShardedBroker) -> None:
    """The command asks all brokers of the route, as RocketMQ's tools do. A shard answers only with
    its own messages; otherwise each message would be shown once for every shard."""

    def found(*words: str) -> list[tuple[str, str]]:
        done = rmq("message", "query", *words, "--json", "-n", two.namesrv)
        assert done.returncode == 0, done.stderr
        return [(row["broker"], row["body"]) for row in json.loads(done.stdout)]

    async def own(port: int, key: str) -> int:
        fields = {"beginTimestamp": 0, "endTimestamp": 2**63 - 1, "maxNum": 64}
        async with BrokerClient(port) as client:
            return (await client.call(QUERY_MESSAGE, topic="keyed", key=key, **fields)).code

    names = ["broker-a", "broker-a-1"]
    with Cluster(two.namesrv) as cluster:
        make_topic(cluster, "keyed", queues=2)
    with Producer(namesrv_addr=two.namesrv, send_msg_timeout=60_000) as producer:
        sent = [producer.send(Message("keyed", f"m{n}", keys=f"k{n} all")) for n in range(8)]
    where = [each.queue.broker_name for each in sent]
    assert sorted(where) == [*[names[0]] * 4, *[names[1]] * 4]
    everything = [(name, f"m{n}") for n, name in enumerate(where)]
    assert sorted(found("keyed", "--key", "all")) == sorted(everything)
    for n, result in enumerate(sent):
        here = [(where[n], f"m{n}")]
        assert found("keyed", "--key", f"k{n}") == here
        assert found("keyed", "--unique-key", result.message_id) == here
        assert [body for _, body in found("--id", result.offset_message_id)] == [f"m{n}"]
        codes = [asyncio.run(own(port, f"k{n}")) for port in two.ports]
        assert codes == [0 if name == where[n] else QUERY_NOT_FOUND for name in names]


def test_topics_concern_the_shard_that_is_told_and_the_commands_tell_all(
    two: ShardedBroker,
) -> None:
    """A request that changes a topic counts at the shard that gets it. Commands and Admin send it
    to all shards."""

    def told(*words: str) -> str:
        done = rmq(*words, "-n", two.namesrv)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def check(ports: list[int]) -> None:
        async with BrokerClient(ports[0]) as first, BrokerClient(ports[1]) as second:
            made = await first.call(
                UPDATE_TOPIC, topic="t", readQueueNums=3, writeQueueNums=3, perm=6, order="true"
            )
            assert made.code == 0
            wait_until(lambda: route(two, "t") == {"broker-a": 3})
            assert (await first.send("t", queue=2)).code == 0  # the reactor knows it too
            assert (await first.send("t", queue=3)).code == 29
            await second.call(
                UPDATE_TOPIC, topic="t", readQueueNums=5, writeQueueNums=5, perm=6, order="false"
            )
            wait_until(lambda: route(two, "t") == {"broker-a": 3, "broker-a-1": 5})
            assert (await first.send("t", queue=3)).code == 29
            assert (await second.send("t", queue=4)).code == 0
            assert (await second.call(DELETE_TOPIC, topic="t")).code == 0
            assert (await second.call(TOPIC_CONFIG, topic="t")).code == NO_TOPIC
            kept = await first.call(TOPIC_CONFIG, topic="t")
            config = fastjson.loads_object(kept.body)
            assert (config["readQueueNums"], config["order"]) == (3, True)

    asyncio.run(check(two.ports))
    assert told("topic", "create", "c", "--queues", "2") == (
        "c: 2 queues on broker-a, broker-a-1\n"
    )
    wait_until(lambda: route(two, "c") == {"broker-a": 2, "broker-a-1": 2})
    told("topic", "delete", "c", "--yes")
    wait_until(lambda: route(two, "c") == {})
    with Admin(namesrv_addr=two.namesrv, mq_client_api_timeout=60_000) as client:
        assert {q.broker_name for q in make_topic(client, "a", queues=6).writable()} == {
            "broker-a", "broker-a-1",
        }  # fmt: skip
        client.create_group("g", retryMaxTimes=3)
        client.delete_topic("a")
    wait_until(lambda: route(two, "a") == {})


def test_groups_and_what_they_may_not_read_concern_the_shard_that_is_told(tmp_path: Path) -> None:
    """Settings of a group, and topics that it may not read, count at the shard that was told of
    them."""

    async def check(ports: list[int]) -> None:
        async with BrokerClient(ports[0]) as first, BrokerClient(ports[1]) as second:

            async def times(client: BrokerClient) -> int | None:
                found = await client.call(GROUP_CONFIG, group="g")
                if found.code == NO_GROUP:
                    return None
                return int(fastjson.loads_object(found.body)["retryMaxTimes"])

            async def readable(client: BrokerClient) -> bool:
                asked = await client.call(FORBID, group="g", topic="t")
                return bool(fastjson.loads_object(asked.body)["readable"])

            async def settle() -> None:
                """Waits until all that was said before has reached the other shard, if it is sent
                there at all."""
                await first.send("last")
                await until(lambda: known(second))

            async def known(client: BrokerClient) -> bool:
                return (await client.call(TOPIC_CONFIG, topic="last")).code == 0

            group = {"groupName": "g", "retryMaxTimes": 3, "consumeEnable": True}
            assert (await first.call(UPDATE_GROUP, fastjson.dumps(group))).code == 0
            await first.call(FORBID, group="g", topic="t", readable="false")
            await settle()
            assert (await times(first), await times(second)) == (3, None)
            assert (await readable(first), await readable(second)) == (False, True)
            group["retryMaxTimes"] = 5
            assert (await second.call(UPDATE_GROUP, fastjson.dumps(group))).code == 0
            assert (await times(first), await times(second)) == (3, 5)
            assert (await second.call(DELETE_GROUP, groupName="g")).code == 0
            assert (await times(first), await times(second)) == (3, None)

    with sharded_broker(tmp_path, 2, ["--set", "autoCreateSubscriptionGroup=false"]) as broker:
        asyncio.run(check(broker.ports))


def test_group_made_by_its_consumers_on_one_shard_is_on_all(two: ShardedBroker) -> None:
    async def check(ports: list[int]) -> None:
        async with BrokerClient(ports[0]) as first, BrokerClient(ports[1]) as second:
            await first.heartbeat("made", "t")

            async def known() -> bool:
                body = (await second.call(ALL_GROUPS)).body
                return "made" in fastjson.loads_object(body)["subscriptionGroupTable"]

            await until(known)

    asyncio.run(check(two.ports))


def test_settings_changed_on_one_shard_hold_on_all_but_those_of_one_alone(
    two: ShardedBroker,
) -> None:
    """A setting that is changed on one shard is changed on all, except settings that belong to one
    shard, such as brokerPermission."""

    async def setting(client: BrokerClient, key: str) -> str:
        text = (await client.call(GET_CONFIG)).body.decode()
        return next(line.partition("=")[2] for line in text.splitlines() if line.startswith(key))

    async def check(broker: ShardedBroker) -> None:
        async with BrokerClient(broker.ports[0]) as first, BrokerClient(broker.ports[1]) as second:
            changes = b"fileReservedTime=48\nbrokerPermission=4\n"
            assert (await first.call(UPDATE_CONFIG, changes)).code == 0

            async def changed() -> bool:
                return await setting(second, "fileReservedTime") == "48"

            await until(changed)
            assert await setting(first, "brokerPermission") == "4"
            assert await setting(second, "brokerPermission") == "6"

    asyncio.run(check(two))
    old = two.pids[1]
    subprocess.run(["kill", "-9", str(old)], check=True)
    two.until_serving(1, other_than=old)

    async def still() -> None:
        async with BrokerClient(two.ports[1]) as second:
            assert await setting(second, "fileReservedTime") == "48"
        async with BrokerClient(two.ports[0]) as first:
            assert (await first.call(UPDATE_CONFIG, b"brokerPermission=6")).code == 0

    asyncio.run(still())


def test_members_of_a_group_are_listed_by_every_shard(two: ShardedBroker) -> None:
    async def check(ports: list[int]) -> None:
        async with (
            BrokerClient(ports[0], "one@1") as first,
            BrokerClient(ports[1], "two@2") as other,
        ):
            await first.heartbeat("members", "t")
            await other.heartbeat("members", "t")

            async def both(client: BrokerClient) -> bool:
                reply = await client.call(CONSUMER_LIST, consumerGroup="members")
                return set(fastjson.loads_object(reply.body)["consumerIdList"]) == {
                    "one@1",
                    "two@2",
                }

            await until(lambda: both(first))
            await until(lambda: both(other))
            shown = await first.call(CONSUMER_CONNECTIONS, consumerGroup="members")
            ids = [c["clientId"] for c in fastjson.loads_object(shown.body)["connectionSet"]]
            assert sorted(ids) == ["one@1", "two@2"]
            await other.call(UNREGISTER, clientID="two@2", consumerGroup="members")

            async def alone() -> bool:
                reply = await first.call(CONSUMER_LIST, consumerGroup="members")
                return fastjson.loads_object(reply.body)["consumerIdList"] == ["one@1"]

            await until(alone)

    asyncio.run(check(two.ports))


def test_store_of_one_shard_grows_and_keeps_its_messages(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 1) as broker, Cluster(broker.namesrv) as cluster:
        make_topic(cluster, "kept", queues=2)
        with Producer(namesrv_addr=broker.namesrv, send_msg_timeout=60_000) as producer:
            producer.send(Message("kept", b"before"))
        assert not (broker.store / "bus").exists()  # a single shard has no bus
        assert broker.stop() == 0
    with RecordingNameServer() as told, sharded_broker(tmp_path, 2, told.options) as broker:
        wait_until(lambda: told.brokers("kept") == {"broker-a", "broker-a-1"})
        wait_until(lambda: route(broker, "kept") == {"broker-a": 2, "broker-a-1": 2})
        with Cluster(broker.namesrv) as cluster:
            assert [m.body for m in tail(cluster, "kept", start=Start("first"))] == [b"before"]
        assert broker.stop() == 0
        fewer = subprocess.run(broker.command(1), capture_output=True, text=True, timeout=HANG_S)
        assert fewer.returncode == 2
        assert "has 2 shards" in fewer.stderr
        assert f"rmq broker shrink --store {broker.store} --shards 1" in fewer.stderr
    with sharded_broker(tmp_path, None) as broker:  # as many as it has
        assert len(broker.ports) == 2


def test_shards_stop_together_and_quickly(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 2) as broker:
        pids = broker.pids
        began = calm_seconds()
        assert broker.stop() == 0
        assert calm_seconds() - began < 10 * SLOWNESS
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert "Traceback" not in broker.log()
        for store in (broker.store, broker.store / "shard-1"):
            assert not (store / "abort").exists()


def test_shard_that_may_not_start_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    with sharded_broker(tmp_path, 1) as broker:
        port = broker.ports[0]
        other = tmp_path / "other"
        command = [sys.executable, "-m", "rmq", "broker", "--store", str(other), "--shards", "2",
                   "--port", str(port), "-n", broker.namesrv]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 2
        assert f"rmq: shard broker-a: cannot listen on 127.0.0.1:{port}" in done.stderr


def test_start_with_more_shards_that_fails_can_be_taken_back(tmp_path: Path) -> None:
    """The new shard never served, so it has no messages that would be out of reach."""
    with sharded_broker(tmp_path, 1) as broker:
        port = broker.ports[0]
        broker.stop()
        with socket.socket() as taken:
            with suppress(OSError):  # another process has it, which is as good
                taken.bind(("127.0.0.1", port + PORT_STEP))
                taken.listen()
            command = [sys.executable, "-m", "rmq", "broker", "--store", str(broker.store),
                       "--shards", "2", "--port", str(port), "-n", broker.namesrv,
                       *broker.options]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
            assert done.returncode == 2
            refused = f"rmq: shard broker-a-1: cannot listen on 127.0.0.1:{port + PORT_STEP}"
            assert refused in done.stderr
        broker.start(None)
        assert len(broker.ports) == 1
        broker.stop()
        broker.start(2)
        assert len(broker.ports) == 2
        assert json.loads((broker.store / "config" / "shards.json").read_text())["shards"] == 2
