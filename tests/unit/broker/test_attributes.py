"""Attributes of topics and groups: those that RocketMQ knows are acted on, or refused with a
reason."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.tables.attributes import GROUP, TOPIC, altered, changes_of_text
from rmq.errors import ProtocolError
from rmq.format import fastjson

CREATE: dict[str, Any] = {
    "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


def changed(text: str, creating: bool, current: dict[str, str] | None = None) -> dict[str, str]:
    return altered(TOPIC, current or {}, changes_of_text(text), creating=creating)


def test_attributes_are_added_changed_and_removed() -> None:
    first = changed("+message.type=FIFO, +cleanup.policy=DELETE,+queue.type=SimpleCQ", True)
    assert first == {"message.type": "FIFO", "cleanup.policy": "DELETE", "queue.type": "SimpleCQ"}
    # An attribute that an Apache broker left there.
    kept = {"message.type": "NORMAL", "reserve.time": "72"}
    assert changed("+message.type=DELAY,-reserve.time", False, kept) == {"message.type": "DELAY"}
    assert changed("", False, kept) == kept


@pytest.mark.parametrize(
    ("text", "creating", "names"),
    [
        ("message.type=FIFO", True, "neither"),
        ("+message.type", True, "neither"),
        ("+", True, "neither"),
        ("+a=b", True, "unknown; known are queue.type"),
        ("+message.type=SOME", True, "one of"),
        ("+queue.type=Some", True, "one of SimpleCQ"),
        ("+message.type=FIFO,+message.type=FIFO", True, "twice"),
        ("+message.type=FIFO,-message.type", False, "twice"),
        ("-message.type", False, "not set"),
        ("-message.type", True, "being created"),
        ("+queue.type=SimpleCQ", False, "cannot be changed"),
    ],
)
def test_wrong_attributes_are_named(text: str, creating: bool, names: str) -> None:
    with pytest.raises(ProtocolError, match=names):
        changed(text, creating)


@pytest.mark.parametrize(
    ("text", "cause", "fix"),
    [
        ("+queue.type=BatchCQ", "batch consume queues are not built", "use SimpleCQ"),
        ("+cleanup.policy=COMPACTION", "topics are not compacted", "use DELETE"),
        ("+reserve.time=72", "no topic has a time of keeping of its own", "leave it out"),
        ("+message.type=LITE", "lite topics are not built", ""),
        ("+message.type=PRIORITY", "no priorities", ""),
        ("+lite.topic.expiration=30", "lite topics are not built", ""),
    ],
)
def test_what_rocketmq_does_and_rmq_does_not_is_refused_with_the_reason(
    text: str, cause: str, fix: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        changed(text, True)
    assert str(caught.value).startswith(f"attribute {text[1:]} is refused: ")
    assert cause in str(caught.value)
    assert fix in str(caught.value)


def test_every_value_that_means_off_is_fine() -> None:
    for known in (TOPIC, GROUP):
        for key, attribute in known.items():
            for value in attribute.served:
                assert altered(known, {}, {f"+{key}": value}, creating=True) == {key: value}


@in_loop
async def test_a_topic_that_would_not_be_what_was_asked_for_is_not_made(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(17, attributes="+queue.type=BatchCQ", **CREATE)
        assert (reply.code, "use SimpleCQ" in (reply.remark or "")) == (1, True)
        item = {"topicName": "t", "attributes": {"+cleanup.policy": "COMPACTION"}}
        reply = await client.call(18, fastjson.dumps({"topicConfigList": [item]}))
        assert (reply.code, "use DELETE" in (reply.remark or "")) == (1, True)
        assert broker.topics.get("t") is None
        item = {"topicName": "t", "attributes": {"message.type": "FIFO"}}
        assert (await client.call(18, fastjson.dumps({"topicConfigList": [item]}))).code == 1


@in_loop
async def test_mixed_messages_are_for_brokers_that_allow_them(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(17, attributes="+message.type=MIXED", **CREATE)
        assert (reply.code, "enableMixedMessageType=true" in (reply.remark or "")) == (29, True)
        assert (await client.call(25, b"enableMixedMessageType=true")).code == 0
        assert (await client.call(17, attributes="+message.type=MIXED", **CREATE)).code == 0


@in_loop
async def test_a_groups_attributes_are_checked_as_a_topics(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for given, cause in (
            ({"+lite.bind.topic": "t"}, "lite topics are not built"),
            ({"+priority.factor": "7"}, "no priorities"),
            ({"+some": "x"}, "unknown"),
            ({"priority.factor": "100"}, "neither"),
        ):
            body = fastjson.dumps({"groupName": "g", "attributes": given})
            reply = await client.call(200, body)
            assert (reply.code, cause in (reply.remark or "")) == (1, True)
            reply = await client.call(225, b'{"groupConfigList":[%s]}' % body)
            assert (reply.code, cause in (reply.remark or "")) == (1, True)
        assert broker.groups.get("g") is None
        body = fastjson.dumps({"groupName": "g", "attributes": {"+priority.factor": "100"}})
        assert (await client.call(200, body)).code == 0
        assert (await client.call(200, fastjson.dumps({"groupName": "g"}))).code == 0
        assert broker.groups.require("g").attributes == {"priority.factor": "100"}


@in_loop
async def test_a_table_of_apaches_loads_and_says_what_has_no_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "config").mkdir(parents=True)
    topic = {"topicName": "t", "attributes": {"queue.type": "BatchCQ", "message.type": "FIFO"}}
    group = {"groupName": "g", "attributes": {"lite.bind.topic": "t"}}
    (tmp_path / "config/topics.json").write_text(json.dumps({"topicConfigTable": {"t": topic}}))
    (tmp_path / "config/subscriptionGroup.json").write_text(
        json.dumps({"subscriptionGroupTable": {"g": group}})
    )
    with caplog.at_level(logging.ERROR):
        async with control(tmp_path) as broker:
            assert broker.topics.require("t").attributes["queue.type"] == "BatchCQ"
            assert broker.groups.require("g").attributes == {"lite.bind.topic": "t"}
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "topic t: attribute queue.type=BatchCQ" in line]) == 1
    assert len([line for line in said if "group g: attribute lite.bind.topic=t" in line]) == 1
