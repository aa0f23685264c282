"""Pulls that the reactor handed over: refused with RocketMQ's codes, or given back when all is
well."""

from pathlib import Path

import pytest
from support.fake_core import FakeClient, control
from support.name_server import in_loop

from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson

PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
    "sysFlag": 2, "commitOffset": 0, "suspendTimeoutMillis": 15000, "subVersion": 5,
}  # fmt: skip


async def ready(broker: Broker, model: str = "CLUSTERING", **change: object) -> FakeClient:
    """Makes topic t with 2 queues, and a consumer of group g that subscribes to it."""
    await broker.topics.create(TopicConfig("t", 2, 2))
    client: FakeClient = broker.core.client()
    subscription = {"topic": "t", "subString": "a", "subVersion": 5, **change}
    data = {"groupName": "g", "messageModel": model, "subscriptionDataSet": [subscription]}
    await client.call(34, fastjson.dumps({"clientID": "c", "consumerDataSet": [data]}))
    return client


@in_loop
async def test_what_the_reactor_forgot_is_told_again(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await ready(broker)
        for table in (broker.core.topics, broker.core.groups, broker.core.subscriptions):
            table.clear()
        opaque = client.put(11, **PULL)
        await broker.core.until(client.given_back)
        assert client.given_back()[0].opaque == opaque
        assert broker.core.topics == {b"t": (2, 2, 6, 0)}
        assert broker.core.groups == {b"g": (1, 1)}
        assert broker.core.subscriptions[b"g", b"t"] == (5, [97], 0)


@in_loop
async def test_a_pull_that_brings_its_subscription_needs_no_heartbeat(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        client = broker.core.client()
        own = {**PULL, "sysFlag": 6, "consumerGroup": "lite"}
        client.put(361, **own, subscription="*")
        await broker.core.until(client.given_back)
        assert broker.core.groups[b"lite"] == (1, 1)
        assert (await client.call(11, **own, subscription="||")).code == 23


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "nowhere"}, 17),
        ({"queueId": 2}, 29),
        ({"queueId": -1}, 29),
        ({"consumerGroup": "a/b"}, 26),
        ({"consumerGroup": "silent"}, 24),
        ({"topic": "other"}, 24),
        ({"subVersion": 6}, 25),
        ({"queueId": "x"}, 1),
        ({"queueOffset": "x"}, 1),
    ],
)
def test_wrong_pulls_are_refused(tmp_path: Path, change: dict[str, object], code: int) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            client = await ready(broker)
            await broker.topics.create(TopicConfig("other", 2, 2))
            reply = await client.call(11, **{**PULL, **change})
            assert reply.code == code
            assert reply.remark
            assert broker.core.resubmitted == []

    run()


@pytest.mark.parametrize("name", [name for name in PULL])
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            client = await ready(broker)
            fields = {key: value for key, value in PULL.items() if key != name}
            reply = await client.call(11, **fields)
            assert reply.code == 1
            assert f"field {name} " in (reply.remark or "")

    run()


@in_loop
async def test_groups_that_may_not_consume(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await ready(broker)
        await broker.groups.update(GroupConfig("g", consume_enable=False))
        assert (await client.call(11, **PULL)).code == 16
        await broker.groups.update(GroupConfig("g"))
        await client.call(353, group="g", topic="t", readable="false")
        assert (b"g", b"t") not in broker.core.subscriptions
        assert (await client.call(11, **PULL)).code == 16
        await client.call(353, group="g", topic="t", readable="true")
        assert (b"g", b"t") in broker.core.subscriptions


@in_loop
async def test_broadcasting_must_be_allowed(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await ready(broker, model="BROADCASTING")
        await broker.groups.update(GroupConfig("g", consume_broadcast_enable=False))
        assert (await client.call(11, **PULL)).code == 16


@in_loop
async def test_topics_and_brokers_that_may_not_be_read(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = await ready(broker)
        await broker.topics.update(TopicConfig("t", 2, 2, perm=2))
        assert (await client.call(11, **PULL)).code == 16
        await broker.topics.update(TopicConfig("t", 2, 2))
        assert (await client.call(25, b"litePullMessageEnable=false")).code == 0
        assert (await client.call(361, **PULL)).code == 16
        assert (await client.call(25, b"brokerPermission=2")).code == 0
        assert (await client.call(11, **PULL)).code == 16


@in_loop
async def test_groups_are_not_made_when_that_is_switched_off(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateSubscriptionGroup=False) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        assert (await broker.core.client().call(11, **PULL)).code == 26
