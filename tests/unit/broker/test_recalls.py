"""Recalls that the reactor handed over: refused with RocketMQ's texts, or given back unchanged."""

from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.tables.topic_config import TopicConfig

FIELDS = {"producerGroup": "P", "topic": "t", "recallHandle": "no matter what"}


@pytest.mark.parametrize(
    ("settings", "topic", "code", "says"),
    [
        ({}, "t", 16, "recall failed, operation is forbidden"),
        (
            {"recallMessageEnable": True, "brokerPermission": 4,
             "allowRecallWhenBrokerNotWriteable": False},
            "t", 14, "recall failed, broker service not available",
        ),
        (
            {"recallMessageEnable": True, "startAcceptSendRequestTimeStamp": 1 << 60},
            "t", 14, "recall failed, broker service not available",
        ),
        ({"recallMessageEnable": True}, "u", 17, "recall failed, the topic[u] not exist"),
        ({"recallMessageEnable": True}, "u" * 999, 17, "u" * 255 + "] not exist"),
    ],
)  # fmt: skip
def test_what_may_not_be_recalled_is_refused(
    tmp_path: Path, settings: dict[str, object], topic: str, code: int, says: str
) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path, **settings) as broker:
            await broker.topics.create(TopicConfig("t", 1, 1))
            reply = await broker.core.client().call(370, **{**FIELDS, "topic": topic})
            assert (reply.code, says in (reply.remark or "")) == (code, True), reply.remark
            assert broker.core.resubmitted == []

    run()


@in_loop
async def test_a_topic_the_reactor_does_not_know_is_told_and_the_recall_given_back(
    tmp_path: Path,
) -> None:
    async with control(tmp_path, recallMessageEnable=True) as broker:
        await broker.topics.create(TopicConfig("t", 1, 1))
        broker.core.topics.clear()
        client = broker.core.client()
        client.put(370, **FIELDS)
        await broker.core.until(lambda: client.given_back())
        assert client.given_back()[0].fields == FIELDS
        assert broker.core.topics == {b"t": (1, 1, 6, 0)}
