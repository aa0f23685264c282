"""Sends that the reactor handed over: refused with RocketMQ's codes, or given back when all is
well."""

from pathlib import Path

import pytest
from support.fake_core import FakeClient, control
from support.name_server import in_loop
from support.stored_table import stored
from support.unwritable import not_saved

from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import field_texts

LONG = {
    "producerGroup": "p", "topic": "new", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
    "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0, "properties": "",
}  # fmt: skip
SHORT = {"a": "p", "b": "new", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}


async def back(broker: Broker, client: FakeClient, count: int = 1) -> None:
    await broker.core.until(lambda: len(client.given_back()) >= count)


@in_loop
async def test_a_send_to_a_new_topic_creates_it_and_goes_back(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for code, fields in ((10, LONG), (310, {**SHORT, "b": "other", "d": 99})):
            opaque = client.put(code, b"body", **fields)
            await broker.core.until(lambda: client.given_back())
            assert client.given_back()[-1].opaque == opaque
            assert client.given_back()[-1].body == b"body"
            assert client.reply_to(opaque) is None
            broker.core.resubmitted.clear()
        assert broker.core.topics[b"new"] == (4, 4, 6, 0)
        assert broker.core.topics[b"other"] == (8, 8, 6, 0)  # not more queues than TBW102 has


@in_loop
async def test_a_new_topic_is_on_disk_before_its_first_message(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        client.put(10, b"x", **LONG)
        await back(broker, client)
        assert "new" in stored(tmp_path)["topicConfigTable"]


@in_loop
async def test_sends_that_wait_for_their_topic_keep_their_order(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        opaques = [client.put(310, b"x", **SHORT) for _ in range(50)]
        await back(broker, client, 50)
        assert [command.opaque for command in client.given_back()] == opaques


@in_loop
async def test_a_known_topic_is_told_to_the_reactor_again(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.topics.create(TopicConfig("new", 1, 1))
        broker.core.topics.clear()
        client.put(10, b"x", **LONG)
        await back(broker, client)
        assert broker.core.topics == {b"new": (1, 1, 6, 0)}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "a b"}, 29),
        ({"topic": "x" * 128}, 29),
        ({"topic": ""}, 29),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16),
        ({"defaultTopic": "nowhere"}, 17),
        ({"defaultTopic": "BenchmarkTest"}, 17),  # this topic passes nothing on to new ones
        ({"queueId": 4}, 29),
        ({"defaultTopicQueueNums": -1}, 29),
        ({"topic": "%RETRY%" + "g" * 121}, 26),
        ({"properties": "p\x01" + "x" * 32767}, 13),
        ({"queueId": "none"}, 1),
        ({"queueId": 1 << 31}, 1),
    ],
)
def test_wrong_sends_are_refused(tmp_path: Path, change: dict[str, object], code: int) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            known = set(broker.core.topics)
            reply = await broker.core.client().call(10, b"x", **{**LONG, **change})
            assert reply.code == code
            assert reply.remark
            assert set(broker.core.topics) == known
            assert broker.core.resubmitted == []

    run()


@pytest.mark.parametrize("name", ["producerGroup", "topic", "queueId", "bornTimestamp", "flag"])
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            fields = {key: value for key, value in LONG.items() if key != name}
            reply = await broker.core.client().call(10, b"x", **fields)
            assert reply.code == 1
            assert f"field {name} " in (reply.remark or "")

    run()


@in_loop
async def test_a_missing_short_field_is_named_as_the_client_spells_it(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        fields = {key: value for key, value in SHORT.items() if key != "e"}
        reply = await broker.core.client().call(310, b"x", **fields)
        assert "field e " in (reply.remark or "")


@in_loop
async def test_bodies_must_be_there_and_fit(tmp_path: Path) -> None:
    async with control(tmp_path, maxMessageSize=1000) as broker:
        client = broker.core.client()
        assert (await client.call(10, b"", **LONG)).code == 13
        assert (await client.call(10, b"x" * 1001, **LONG)).code == 13
        client.put(10, b"x" * 1000, **LONG)
        await back(broker, client)


@in_loop
async def test_sends_are_refused_while_the_broker_does_not_take_them(tmp_path: Path) -> None:
    async with control(tmp_path, startAcceptSendRequestTimeStamp=1 << 60) as broker:
        assert (await broker.core.client().call(10, b"x", **LONG)).code == 1
    async with control(tmp_path / "b", brokerPermission=4) as broker:
        await broker.topics.create(TopicConfig("new", 1, 1, order=True))
        assert (await broker.core.client().call(10, b"x", **LONG)).code == 16


@in_loop
async def test_nothing_is_created_when_that_is_switched_off(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateTopicEnable=False) as broker:
        assert (await broker.core.client().call(10, b"x", **LONG)).code == 17


@in_loop
async def test_a_topic_that_cannot_be_saved_fails_its_sends(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        with not_saved(tmp_path):
            client = broker.core.client()
            opaques = [client.put(10, b"x", **LONG) for _ in range(3)]
            await broker.core.until(lambda: all(client.reply_to(o) for o in opaques))
            assert client.reply_to(opaques[2]).code == 1  # type: ignore[union-attr]
            assert (await client.call(10, b"x", **LONG)).code == 1  # later sends are refused, too
            assert broker.core.resubmitted == []
            assert b"new" not in broker.core.topics
        client.put(10, b"x", **LONG)
        await back(broker, client)
        assert "new" in stored(tmp_path)["topicConfigTable"]


@in_loop
async def test_batches_are_not_retried_nor_delayed(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for change in ({"b": "%RETRY%g"}, {"i": "DELAY\x011\x02"}):
            assert (await client.call(320, b"x", **{**SHORT, "m": True, **change})).code == 13
        client.put(320, b"x", **SHORT, m=True)
        await back(broker, client)


@in_loop
async def test_a_retry_has_its_topic_made_and_a_dead_one_that_of_the_dead_letters(
    tmp_path: Path,
) -> None:
    """Control only has the topics made. The reactor decides where the message goes, and gets the
    frame back unchanged."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.groups.update(GroupConfig("g", retry_times_max=2))
        retry = {**SHORT, "b": "%RETRY%g", "i": "KEYS\x01k\x02DELAY\x013\x02"}
        for number, (times, topics) in enumerate([
            ({"j": 2}, {b"%RETRY%g": (1, 1, 6, 0)}),
            # The limit of tries that the client sends counts.
            ({"j": 3, "l": 16}, {b"%RETRY%g": (1, 1, 6, 0)}),
            ({"j": 3}, {b"%RETRY%g": (1, 1, 6, 0), b"%DLQ%g": (1, 1, 6, 0)}),
            ({"j": 0, "l": -1}, {b"%RETRY%g": (1, 1, 6, 0), b"%DLQ%g": (1, 1, 6, 0)}),
        ]):  # fmt: skip
            broker.core.topics.clear()
            broker.core.groups.clear()
            broker.core.retries.clear()
            client.put(310, b"x", **retry, **times)
            await back(broker, client, number + 1)
            assert broker.core.topics == topics
            assert broker.core.retries[b"g"][:2] == (1, 2)
            given = client.given_back()[number]
            assert {**given.fields, **field_texts({**retry, **times})} == given.fields


@in_loop
async def test_the_first_dead_letter_of_a_group_has_both_topics_on_disk(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        retry = {**SHORT, "b": "%RETRY%g"}
        sends = [{"j": 17}, {"j": 1}, {"j": 17}, {"j": 2}]
        opaques = [client.put(310, b"x", **retry, **times) for times in sends]
        await back(broker, client, 4)
        assert {"%RETRY%g", "%DLQ%g"} <= stored(tmp_path)["topicConfigTable"].keys()
        order = [command.opaque for command in client.given_back()]
        assert sorted(order) == opaques
        assert order.index(opaques[0]) < order.index(opaques[2])
        assert order.index(opaques[1]) < order.index(opaques[3])


@in_loop
async def test_dead_letters_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.groups.update(GroupConfig("g"))
        await broker.topics.create_retry("g", 1, False)
        with not_saved(tmp_path):
            for _ in range(2):
                client = broker.core.client()
                reply = await client.call(310, b"x", **{**SHORT, "b": "%RETRY%g"}, j=17)
                assert (reply.code, broker.core.resubmitted) == (1, [])
                assert b"%DLQ%g" not in broker.core.topics


@pytest.mark.parametrize(
    ("change", "body", "code"),
    [
        ({}, b"x", 16),  # its dead letter topic has no permission
        ({"e": 1}, b"x", 29),
        ({"m": True}, b"x", 13),
        ({}, b"", 13),
        ({"f": 1 << 11}, b"x", 13),
        ({"j": "x"}, b"x", 1),
        ({"l": 1 << 31}, b"x", 1),
    ],
)
def test_wrong_dead_letters_are_refused(
    tmp_path: Path, change: dict[str, object], body: bytes, code: int
) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            await broker.groups.update(GroupConfig("g"))
            if code == 16:
                await broker.topics.create(TopicConfig("%DLQ%g", 1, 1, 0))
            fields = {**SHORT, "b": "%RETRY%g", "j": 17, **change}
            reply = await broker.core.client().call(310, body, **fields)
            assert reply.code == code, reply.remark
            assert broker.core.resubmitted == []
            assert (b"%DLQ%g" in broker.core.topics) == (code == 16)

    run()


@in_loop
async def test_a_batch_of_320_is_one_whatever_its_fields_say(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.groups.update(GroupConfig("g"))
        reply = await broker.core.client().call(320, b"x", **{**SHORT, "b": "%RETRY%g"}, j=17)
        assert (reply.code, b"%DLQ%g" in broker.core.topics) == (13, False)


@in_loop
async def test_failures_of_orderly_consumers_are_dead_at_once(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        broker.locks.lock("g", [MessageQueue("t", "broker-a", 0)], "c1")
        # As when the core did not know the group at the time of the lock.
        broker.core.group_locks.clear()
        client.put(310, b"x", **{**SHORT, "b": "%RETRY%g"}, j=0)
        await back(broker, client)
        assert b"%DLQ%g" in broker.core.topics
        assert broker.core.group_locks[b"g"] > 50_000


@in_loop
async def test_delayed_and_transaction_messages_are_the_reactors(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        retry = {**SHORT, "b": "%RETRY%g", "i": "UNIQ_KEY\x01U\x02DELAY\x013\x02"}
        client.put(310, b"again", **retry, j=1)
        await back(broker, client)
        assert client.given_back()[0].fields["i"] == retry["i"]
        client.put(310, b"x", **{**SHORT, "i": "DELAY\x013\x02"})
        client.put(310, b"x", **{**SHORT, "i": "TRAN_MSG\x01true\x02"})
        await back(broker, client, 3)


@in_loop
async def test_transaction_messages_may_be_rejected(tmp_path: Path) -> None:
    async with control(tmp_path, rejectTransactionMessage=True) as broker:
        reply = await broker.core.client().call(310, b"x", **{**SHORT, "i": "TRAN_MSG\x01true\x02"})
        assert reply.code == 16
