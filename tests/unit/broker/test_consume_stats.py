"""Lag and times of topics and groups."""

import json
from pathlib import Path

from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.broker import Broker
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue


async def fill(broker: Broker) -> None:
    """Topic t: queue 0 holds 3 messages (10, 20, 30 ms), queue 1 none; group g consumed 2."""
    await broker.topics.create(TopicConfig("t", 2, 2))
    for ms in (10, 20, 30):
        broker.core.store("t", 0, store_timestamp_ms=ms)
    broker.groups.require("g")
    broker.offsets.commit("g", "t", 0, 2)


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue("t", "broker-a", queue_id)


@in_loop
async def test_stats_of_a_topic(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await fill(broker)
        reply = await broker.core.client().call(202, topic="t")
        assert reply.body.startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,')
        table = fastjson.loads(reply.body)["offsetTable"]
        assert table[queue(0)] == {"minOffset": 0, "maxOffset": 3, "lastUpdateTimestamp": 30}
        assert table[queue(1)] == {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0}
        assert (await broker.core.client().call(202, topic="nowhere")).code == 17


@in_loop
async def test_lag_of_a_group(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await fill(broker)
        client = broker.core.client()
        expected = {
            "brokerOffset": 3, "consumerOffset": 2, "pullOffset": 2, "lastTimestamp": 20,
        }  # fmt: skip
        for fields in ({}, {"topic": "t"}, {"topicList": "t;nowhere"}):
            reply = await client.call(208, consumerGroup="g", **fields)
            table = fastjson.loads(reply.body)["offsetTable"]
            assert table[queue(0)] == expected
            assert table[queue(1)]["consumerOffset"] == 0
        reply = await client.call(208, consumerGroup="nobody")
        assert fastjson.loads(reply.body) == {"consumeTps": 0.0, "offsetTable": {}}


@in_loop
async def test_topics_no_longer_subscribed_are_left_out(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await fill(broker)
        client = broker.core.client()
        data = {"groupName": "g", "subscriptionDataSet": [{"topic": "u", "subString": "*"}]}
        await client.call(34, fastjson.dumps({"clientID": "c", "consumerDataSet": [data]}))
        reply = await client.call(208, consumerGroup="g")
        assert fastjson.loads(reply.body)["offsetTable"] == {}


@in_loop
async def test_lag_of_all_groups(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await fill(broker)
        client = broker.core.client()
        body = fastjson.loads((await client.call(317, isOrder="false")).body)
        assert body["totalDiff"] == 1
        mine = next(entry["g"] for entry in body["consumeStatsList"] if "g" in entry)
        assert mine[0]["offsetTable"][queue(0)]["brokerOffset"] == 3
        body = fastjson.loads((await client.call(317, isOrder="true")).body)
        assert body["totalDiff"] == 0


@in_loop
async def test_time_spans(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await fill(broker)
        client = broker.core.client()
        spans = json.loads((await client.call(303, topic="t", group="g")).body)
        full, empty = spans["consumeTimeSpanSet"]
        times = [full[f"{name}TimeStamp"] for name in ("min", "max", "consume")]
        assert times == [10, 30, 20]
        assert full["delayTime"] > 1_000_000
        assert (empty["minTimeStamp"], empty["delayTime"]) == (-1, 0)
        assert (await client.call(303, topic="nowhere", group="g")).code == 17
