"""Calls from the broker to its clients: forwarding, merging, timeouts, and who may answer."""

import json
from pathlib import Path

import pytest
from support.fake_core import FakeClient, control
from support.name_server import in_loop

from rmq.broker.broker import Broker
from rmq.broker.requests import consumer_diagnosis
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue


async def join(
    broker: Broker, client_id: str, version: int = 479, language: str = "JAVA"
) -> FakeClient:
    client: FakeClient = broker.core.client(language=language, version=version)
    data = {"groupName": "g", "subscriptionDataSet": [{"topic": "t", "subString": "*"}]}
    body = fastjson.dumps({"clientID": client_id, "consumerDataSet": [data]})
    assert (await client.call(34, body)).code == 0
    return client


@in_loop
async def test_running_info_is_forwarded_and_brought_back(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        consumer, tool = await join(broker, "c1"), broker.core.client()
        signed = {"AccessKey": "root", "Signature": "s", "SecurityToken": "t"}
        opaque = tool.put(307, consumerGroup="g", clientId="c1", jstackEnable="false", **signed)
        await broker.core.until(lambda: consumer.requests(307))
        asked = consumer.requests(307)[0]
        assert not signed.keys() & asked.fields.keys(), "it would fit other requests"
        assert asked.fields["jstackEnable"] == "false"
        consumer.answer(asked, body=b'{"jstack":"x"}')
        await broker.core.until(lambda: tool.reply_to(opaque) is not None)
        reply = tool.reply_to(opaque)
        assert reply is not None
        assert (reply.code, reply.body) == (0, b'{"jstack":"x"}')


@in_loop
async def test_only_the_asked_client_can_answer(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        consumer, tool = await join(broker, "c1"), broker.core.client()
        opaque = tool.put(307, consumerGroup="g", clientId="c1")
        await broker.core.until(lambda: consumer.requests(307))
        asked = consumer.requests(307)[0]
        tool.answer(asked, body=b"forged")  # comes first, and would be the reply
        consumer.answer(asked, body=b"true")
        await broker.core.until(lambda: tool.reply_to(opaque) is not None)
        assert tool.reply_to(opaque).body == b"true"  # type: ignore[union-attr]


@in_loop
async def test_absent_old_silent_and_leaving_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_diagnosis, "FORWARD_TIMEOUT_S", 0.1)
    async with control(tmp_path) as broker:
        tool = broker.core.client()
        ask = {"consumerGroup": "g", "clientId": "c1"}
        assert (await tool.call(307, **ask)).code == 1
        await join(broker, "old", version=61)
        assert (await tool.call(307, consumerGroup="g", clientId="old")).code == 1
        silent = await join(broker, "c1")
        assert (await tool.call(307, **ask)).code == 207
        monkeypatch.setattr(consumer_diagnosis, "FORWARD_TIMEOUT_S", 10)
        opaque = tool.put(307, **ask)
        await broker.core.until(lambda: len(silent.requests(307)) == 2)
        silent.close()
        await broker.core.until(lambda: tool.reply_to(opaque) is not None)
        assert tool.reply_to(opaque).code == 1  # type: ignore[union-attr]


@in_loop
async def test_a_message_is_consumed_directly(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        consumer, tool = await join(broker, "c1"), broker.core.client()
        message = broker.core.store("t", 0, b"hello")
        fields = {"consumerGroup": "g", "clientId": "c1", "topic": "t"}
        opaque = tool.put(309, **fields, msgId=message.message_id)
        await broker.core.until(lambda: consumer.requests(309))
        asked = consumer.requests(309)[0]
        assert asked.body == broker.core.records[message.physical_offset]
        assert asked.fields["brokerName"] == "broker-a"
        assert asked.fields["groupSysFlag"] == "0"
        consumer.answer(asked, body=b'{"consumeResult":"CR_SUCCESS"}')
        await broker.core.until(lambda: tool.reply_to(opaque) is not None)
        assert (await tool.call(309, **fields, msgId="xyz")).code == 1
        gone = message.message_id[:16] + f"{1 << 40:016X}"
        assert (await tool.call(309, **fields, msgId=gone)).code == 1


@in_loop
async def test_status_is_asked_of_all_and_merged(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        first, second = await join(broker, "c1"), await join(broker, "c2")
        tool = broker.core.client()
        opaque = tool.put(223, topic="t", group="g")
        await broker.core.until(lambda: first.requests(221) and second.requests(221))
        queue = MessageQueue("t", "broker-a", 0)
        table = fastjson.dumps({"messageQueueTable": {queue: 7}})
        first.answer(first.requests(221)[0], body=table)
        second.answer(second.requests(221)[0], code=1)
        await broker.core.until(lambda: tool.reply_to(opaque) is not None)
        reply = tool.reply_to(opaque)
        assert reply is not None
        assert fastjson.loads(reply.body) == {"consumerTable": {"c1": {queue: 7}}}
        assert (await tool.call(223, topic="t", group="nobody")).code == 1


@in_loop
async def test_a_reset_on_the_server_side_is_for_the_next_pulls(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        java = await join(broker, "c1")
        tool = broker.core.client()
        for ms in (10, 20, 30):
            broker.core.store("t", 1, store_timestamp_ms=ms)
        reset = {"topic": "t", "group": "g", "isForce": True}
        reply = await tool.call(222, **reset, timestamp=20)
        zero, one = (MessageQueue("t", "broker-a", n) for n in (0, 1))
        assert fastjson.loads(reply.body) == {"offsetTable": {zero: 0, one: 1}}
        assert broker.core.resets == [(b"g", b"t", 0, 0), (b"g", b"t", 1, 1)]
        reply = await tool.call(222, **reset, timestamp=-1)
        assert broker.offsets.of("g", "t") == {0: 0, 1: 3}
        reply = await tool.call(222, **reset, timestamp=0, queueId=1, offset=2)
        assert (reply.code, broker.offsets.query("g", "t", 1)) == (0, 2)
        assert (await tool.call(222, **reset, timestamp=0, queueId=1, offset=9)).code == 1
        assert (await tool.call(222, **reset, timestamp=0, queueId=2)).code == 1
        assert (await tool.call(222, **{**reset, "topic": "no"}, timestamp=0)).code == 17
        assert (await tool.call(222, **{**reset, "group": "no"}, timestamp=0)).code == 26
        assert java.requests(220) == []


@in_loop
async def test_a_reset_by_the_clients_tells_all_of_them(tmp_path: Path) -> None:
    async with control(tmp_path, useServerSideResetOffset=False) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        await broker.groups.update(GroupConfig("g"))
        tool = broker.core.client()
        for ms in (10, 20, 30):
            broker.core.store("t", 1, store_timestamp_ms=ms)
        reset = {"topic": "t", "group": "g", "isForce": True}
        # The group has no offsets yet.
        assert (await tool.call(222, **reset, timestamp=20)).code == 1
        for queue in (0, 1):
            broker.offsets.commit("g", "t", queue, 0)
        assert (await tool.call(222, **reset, timestamp=20)).code == 206
        java = await join(broker, "c1")
        cpp = await join(broker, "c2", language="CPP")
        reply = await tool.call(222, **reset, timestamp=20)
        zero, one = (MessageQueue("t", "broker-a", n) for n in (0, 1))
        assert fastjson.loads(reply.body) == {"offsetTable": {zero: 0, one: 1}}
        told = java.requests(220)[0]
        assert (told.is_oneway, told.fields["timestamp"]) == (True, "20")
        assert fastjson.loads(told.body) == {"offsetTable": {zero: 0, one: 1}}
        rows = json.loads(cpp.requests(220)[0].body)["offsetTable"]
        assert rows[1] == {"brokerName": "broker-a", "offset": 1, "queueId": 1, "topic": "t"}
        # The broker's own offsets stay: the consumers will commit.
        assert broker.offsets.of("g", "t") == {0: 0, 1: 0}
        reply = await tool.call(222, **{**reset, "isForce": False}, timestamp=-1)
        assert fastjson.loads(reply.body) == {"offsetTable": {zero: 0, one: 0}}
        broker.offsets.commit("g", "t", 1, 3)
        reply = await tool.call(222, **{**reset, "isForce": False}, timestamp=20)
        assert fastjson.loads(reply.body) == {"offsetTable": {zero: 0, one: 1}}
