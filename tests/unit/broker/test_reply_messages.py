"""Request-reply: which client gets a consumer's reply, what it carries, and where it is kept."""

from pathlib import Path
from typing import Any

import pytest
from support.fake_core import FakeClient, FakeCore, control
from support.name_server import in_loop

from rmq.broker.clients.client import Client
from rmq.broker.clients.connections import Connection
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.requests import replies
from rmq.format import fastjson
from rmq.format.message import decode_message, decode_properties
from rmq.format.remoting import Command

MARKS = "CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01asker@1\x02MSG_TYPE\x01reply\x02TTL\x013000\x02"
TOPIC = "DefaultCluster_REPLY_TOPIC"
LONG = {
    "producerGroup": "CID", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
    "queueId": 0, "sysFlag": 1, "bornTimestamp": 77, "flag": 5, "properties": MARKS,
    "reconsumeTimes": 0, "unitMode": False,
}  # fmt: skip
SHORT = dict(zip("abcdefghijk", LONG.values(), strict=True))


async def join(client: FakeClient, client_id: str = "asker@1") -> None:
    body = {"clientID": client_id, "producerDataSet": [{"groupName": "P"}]}
    assert (await client.call(34, fastjson.dumps(body))).code == 0


async def reply_of(core: FakeCore, client: FakeClient, opaque: int) -> Command:
    await core.until(lambda: client.reply_to(opaque) is not None)
    found = client.reply_to(opaque)
    assert found is not None
    return found


@pytest.mark.parametrize(("code", "fields"), [(324, LONG), (325, SHORT)])
def test_a_reply_is_pushed_and_stored(tmp_path: Path, code: int, fields: dict[str, Any]) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            core = broker.core
            asker, consumer = core.client(), core.client()
            await join(asker)
            opaque = consumer.put(code, b"answer", **fields)
            await core.until(lambda: asker.requests(326))
            pushed = asker.requests(326)[0]
            assert not pushed.is_oneway
            assert pushed.body == b"answer"
            sent = {name: str(value).lower() if isinstance(value, bool) else str(value)
                    for name, value in LONG.items() if name != "properties"}  # fmt: skip
            assert {name: pushed.fields[name] for name in sent} == sent
            assert pushed.fields["bornHost"].startswith("10.0.0.9:")
            assert pushed.fields["storeHost"] == broker.address
            assert int(pushed.fields["storeTimestamp"]) > 0
            kept = decode_properties(pushed.fields["properties"].encode())
            assert int(kept.pop("PUSH_REPLY_TIME")) > 0
            assert kept == decode_properties(MARKS.encode())
            asker.answer(pushed)
            reply = await reply_of(core, consumer, opaque)
            assert (reply.code, reply.fields["queueId"]) == (0, "0")
            assert reply.fields["queueOffset"] == "0"
            stored = decode_message(next(iter(core.records.values())))[0]
            assert reply.fields["msgId"] == stored.message_id
            assert (stored.topic, stored.body, stored.flag) == (TOPIC, b"answer", 5)
            assert (stored.sys_flag & 1, stored.born_timestamp_ms) == (1, 77)
            assert stored.properties == decode_properties(MARKS.encode())

    run()


@in_loop
async def test_a_reply_that_reaches_nobody_is_stored_and_said(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        asker, consumer = core.client(), core.client()
        reply = await consumer.call(324, b"answer", **LONG)
        assert (reply.code, "asker@1" in (reply.remark or "")) == (1, True)
        assert len(core.records) == 1
        await join(asker)
        opaque = consumer.put(324, b"answer", **LONG)
        await core.until(lambda: asker.requests(326))
        asker.answer(asker.requests(326)[0], code=1)
        assert (await reply_of(core, consumer, opaque)).code == 1
        assert len(core.records) == 2
        reply = await consumer.call(324, b"answer", **{**LONG, "properties": "TTL\x013\x02"})
        assert (reply.code, "REPLY_TO_CLIENT" in (reply.remark or "")) == (1, True)


@in_loop
async def test_a_producer_that_leaves_or_stays_silent_fails_the_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "PUSH_TIMEOUT_S", 0.05)
    async with control(tmp_path) as broker:
        core = broker.core
        asker, consumer = core.client(), core.client()
        await join(asker)
        reply = await consumer.call(324, b"answer", **LONG)
        assert (reply.code, "0.05 s" in (reply.remark or "")) == (1, True)
        monkeypatch.setattr(replies, "PUSH_TIMEOUT_S", 10)
        opaque = consumer.put(324, b"answer", **LONG)
        await core.until(lambda: len(asker.requests(326)) == 2)
        core.report(1, asker.number, b"")
        assert (await reply_of(core, consumer, opaque)).code == 1
        # The next connection of the same client is found by its client id.
        again = core.client()
        await join(again)
        consumer.put(324, b"answer", **LONG)
        await core.until(lambda: again.requests(326))


@in_loop
async def test_replies_need_not_be_stored(tmp_path: Path) -> None:
    async with control(tmp_path, storeReplyMessageEnable=False) as broker:
        core = broker.core
        asker, consumer = core.client(), core.client()
        await join(asker)
        opaque = consumer.put(324, b"answer", **LONG)
        await core.until(lambda: asker.requests(326))
        asker.answer(asker.requests(326)[0])
        reply = await reply_of(core, consumer, opaque)
        assert (reply.code, reply.fields["msgId"], reply.fields["queueOffset"]) == (0, "0", "0")
        assert core.records == {}


@in_loop
async def test_wrong_replies_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        consumer = broker.core.client()
        for change, code in (
            ({"topic": "absent"}, 17), ({"topic": "a/b"}, 29), ({"queueId": 9}, 29),
            ({"queueId": "x"}, 1), ({"sysFlag": 1 << 20}, 13),
            ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16), ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16),
        ):  # fmt: skip
            assert (await consumer.call(324, b"x", **{**LONG, **change})).code == code, change
        assert (await consumer.call(324, **LONG)).code == 13
        missing = {name: value for name, value in LONG.items() if name != "bornTimestamp"}
        assert (await consumer.call(324, b"x", **missing)).code == 1
        assert broker.core.records == {}


@in_loop
async def test_the_reactor_is_told_which_connection_a_client_has(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        first, second = core.client(), core.client()
        await join(first)
        assert core.clients_told == {b"asker@1": first.number}
        await join(second)
        await join(first)  # once more, but the newest connection is still the other one
        assert core.clients_told == {b"asker@1": second.number}
        core.report(1, second.number, b"")
        await core.until(lambda: core.clients_told == {b"asker@1": first.number})
        core.report(1, first.number, b"")
        await core.until(lambda: core.clients_told == {})


def test_a_client_id_stays_with_the_user_that_has_it() -> None:
    """Replies are sent to client ids, and anybody may put any client id into a heartbeat. So an id
    must stay with the user that has it."""
    told: dict[bytes, int] = {}
    table = ProducerTable(told.__setitem__, lambda *_: None)

    def beat(connection: Connection, user: str) -> int:
        table.register("P", Client(connection, "asker@1", "JAVA", 1, 1, user))
        return told[b"asker@1"]

    alice, stranger, again = (Connection(number, "h:1") for number in (1, 2, 3))
    assert beat(alice, "alice") == 1
    assert beat(stranger, "mallory") == beat(stranger, "") == 1
    assert beat(again, "alice") == 3, "her own next connection has it"
    table.connection_closed(again)
    assert told[b"asker@1"] == 1
    assert beat(alice, "bob") == 1, "one connection that others use, too"
    table.connection_closed(alice)
    assert told[b"asker@1"] == 0
    assert beat(stranger, "mallory") == 2, "nobody has it"


@in_loop
async def test_a_connection_has_a_bounded_number_of_client_ids(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        asker = broker.core.client()
        for number in range(200):
            await join(asker, f"asker@{number}")
        assert broker.producers.find("asker@0") is None
        assert broker.producers.find("asker@199") is not None
        broker.core.report(1, asker.number, b"")
        await broker.core.until(lambda: broker.producers.find("asker@199") is None)
