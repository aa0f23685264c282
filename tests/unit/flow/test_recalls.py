"""Recalls (370), which the reactor stores by itself: a real shard core and its control side."""

import base64
import time
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.live_broker import entries, live_broker, records, served
from support.name_server import in_loop
from support.shard import REQUEST, Shard, request
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.format.message import encode_properties
from rmq.format.remoting import JSON, ROCKETMQ, Command

TIMER = "rmq_sys_wheel_timer"
INVALID = "recall handle is invalid"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def handle_of(*items: object) -> str:
    return base64.urlsafe_b64encode(" ".join(map(str, items)).encode()).decode()


def handle(due_ms: int | None = None, key: str = "U", topic: str = "t") -> str:
    return handle_of("v1", topic, "broker-a", due_ms or now_ms() + 60_000, key)


def control_requests(broker: Broker) -> int:
    return broker.core.stats()["control_requests"]


async def recall(client: BrokerClient, text: str, **change: Any) -> Command:
    fields = {"producerGroup": "P", "topic": "t", "recallHandle": text, **change}
    return await client.call(370, **fields)


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
def test_a_recall_is_stored_as_apache_stores_it_without_the_control_thread(
    tmp_path: Path, kind: int
) -> None:
    @in_loop
    async def run() -> None:
        async with (
            live_broker(tmp_path, recallMessageEnable=True, regionId="here") as broker,
            BrokerClient(broker.core.port, serialize_type=kind) as client,
        ):
            await client.send("t", b"make")
            due = now_ms() + 60_000
            marks = encode_properties({"TIMER_DELIVER_MS": str(due), "UNIQ_KEY": "U"}).decode()
            sent = await client.send("t", b"later", i=marks)
            before, began = control_requests(broker), now_ms()
            reply = await recall(client, sent.fields["recallHandle"])
            assert (reply.code, reply.remark, reply.serialize_type) == (0, None, kind)
            assert reply.fields == {"msgId": "U", "MSG_REGION": "here"}
            later, stored = records(broker, TIMER)
            due_ms = int(later.properties["TIMER_OUT_MS"]) + 1
            born_ms = stored.born_timestamp_ms
            assert began <= born_ms <= stored.store_timestamp_ms <= now_ms()
            assert (stored.body, stored.flag, stored.sys_flag, stored.reconsume_times) == (
                b"0", 0, 0, 0,
            )  # fmt: skip
            assert stored.born_host == later.born_host
            assert list(stored.properties.items()) == [
                ("TIMER_DEL_UNIQKEY", "t+U"), ("UNIQ_KEY", "U"), ("TIMER_DELIVER_MS", str(due_ms)),
                ("BORN_TIMESTAMP", str(born_ms)), ("PGROUP", "P"), ("TAGS", "_RECALL_TAG_"),
                ("TIMER_OUT_MS", str(due_ms - 1)), ("REAL_TOPIC", "t"), ("REAL_QID", "0"),
            ]  # fmt: skip
            assert entries(broker, TIMER)[1][2] == due_ms
            assert control_requests(broker) == before

    run()


@in_loop
async def test_thousands_at_once_are_all_stored_and_answered_in_a_few_writes(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        before = broker.core.stats()
        with client.in_one_write():
            sent = [
                client.post(370, producerGroup="P", topic="t", recallHandle=handle(key=f"U{n}"))
                for n in range(5000)
            ]
        replies = [await client.reply(opaque) for opaque in sent]
        assert {reply.code for reply in replies} == {0}
        assert [reply.fields["msgId"] for reply in replies] == [f"U{n}" for n in range(5000)]
        stored = [each.properties["TIMER_DEL_UNIQKEY"] for each in records(broker, TIMER)]
        assert stored == [f"t+U{n}" for n in range(5000)]
        after = broker.core.stats()
        assert after["control_requests"] == before["control_requests"]
        assert after["write_outs"] - before["write_outs"] < 1000


@in_loop
async def test_more_than_the_ring_holds_are_stored_in_their_order(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        fields = {"topic": "t", "producerGroup": "g" * 5000}  # 10 MB of records; the ring has 8 MB
        with client.in_one_write():
            sent = [
                client.post(370, recallHandle=handle(key=f"U{n}"), **fields) for n in range(2000)
            ]
        replies = [await client.reply(opaque) for opaque in sent]
        # On a busy disk the next log file may not be ready yet.
        failed = {(reply.code, reply.remark) for reply in replies if reply.code != 0}
        assert failed <= {(1, "recall failed, execute error")}
        stored = [each.properties["UNIQ_KEY"] for each in records(broker, TIMER)]
        assert stored == [f"U{n}" for n, reply in enumerate(replies) if reply.code == 0]
        assert len(stored) > 500


BAD = [
    (lambda: "!!", INVALID),
    (lambda: "A" * 4097, INVALID),
    (lambda: handle_of("v1", "t", "broker-a", now_ms() + 60_000, "x" * 4000), INVALID),
    (lambda: handle_of("v2", "t", "broker-a", now_ms() + 60_000, "U"), INVALID),
    (lambda: handle_of(" v1", "t", "broker-a", now_ms() + 60_000, "U"), INVALID),
    (
        lambda: handle_of("v1 ", "t", "broker-a", now_ms() + 60_000),
        "recall failed, topic not match",
    ),
    (lambda: handle_of("v1", "t", "broker-a", now_ms() + 60_000), INVALID),
    (lambda: handle_of("v1", "t", "broker-a", now_ms() + 60_000, ""), INVALID),
    (lambda: handle_of("v1", "t", "broker-a", now_ms() + 60_000, "", "U"), INVALID),
    (lambda: handle_of("v1"), INVALID),
    (lambda: handle(key="a\x01b"), INVALID),
    (lambda: handle(key="a\x02b"), INVALID),
    (lambda: handle(key="abc")[:-1], INVALID),  # without half of its padding
    (lambda: "+" + handle()[1:], INVALID),
    (lambda: handle(topic="u"), "recall failed, topic not match"),
    (lambda: handle(topic=""), "recall failed, topic not match"),
    (lambda: handle(topic="tt"), "recall failed, topic not match"),
    (
        lambda: handle_of("v1", "t", "broker-b", now_ms() + 60_000, "U"),
        "recall failed, broker service not available",
    ),
    (lambda: handle(now_ms() - 1), "recall failed, timestamp invalid"),
    (lambda: handle(now_ms() + 259_200_000 + 5000), "recall failed, timestamp invalid"),
    (lambda: handle_of("v1", "t", "broker-a", "x", "U"), "recall failed, timestamp invalid"),
    (lambda: handle_of("v1", "t", "broker-a", "", "U"), "recall failed, timestamp invalid"),
    (lambda: handle_of("v1", "t", "broker-a", -5, "U"), "recall failed, timestamp invalid"),
    (
        lambda: handle_of("v1", "t", "broker-a", f"+{now_ms() + 60_000}", "U"),
        "recall failed, timestamp invalid",
    ),
    (
        lambda: handle_of("v1", "t", "broker-a", f"{now_ms() + 60_000:016d}", "U"),
        "recall failed, timestamp invalid",
    ),
]


@in_loop
async def test_bad_handles_are_refused_in_apaches_words_without_control(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        before = control_requests(broker)
        async with BrokerClient(broker.core.port, serialize_type=ROCKETMQ) as other:
            for make, remark in BAD:
                for each in (client, other):
                    reply = await recall(each, make())
                    assert (reply.code, reply.remark) == (604, remark), (make(), reply.remark)
        for group in ("a\x01b", "a\x02b", "g" * 40_000):
            reply = await recall(client, handle(), producerGroup=group)
            assert (reply.code, reply.remark) == (604, INVALID)
        assert (records(broker, TIMER), control_requests(broker)) == ([], before)


@pytest.mark.parametrize("missing", ["topic", "recallHandle"])
def test_a_missing_field_is_named(tmp_path: Path, missing: str) -> None:
    @in_loop
    async def run() -> None:
        async with served(tmp_path, recallMessageEnable=True) as (_, client):
            fields = {"topic": "t", "recallHandle": handle()}
            del fields[missing]
            reply = await client.call(370, **fields)
            assert (reply.code, f"field {missing} is missing" in (reply.remark or "")) == (1, True)

    run()


@in_loop
async def test_handles_and_groups_of_all_kinds_are_taken(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        due = now_ms() + 60_000
        async with BrokerClient(broker.core.port, serialize_type=ROCKETMQ) as other:
            keys = ["U", 'ä"\\\u2028', "k" * 63, "k" * 64, "k" * 65, '"' * 65, "x" * 2800]
            for key in keys:
                for each in (client, other):
                    reply = await recall(each, handle(due, key))
                    assert (reply.code, reply.fields.get("msgId")) == (0, key), reply.remark
        stored = [each.properties["UNIQ_KEY"] for each in records(broker, TIMER)]
        assert stored == [key for key in keys for _ in range(2)]
        padded = handle(due, "abc")
        assert padded.endswith("==")
        assert (await recall(client, padded.rstrip("="))).fields["msgId"] == "abc"
        more = handle_of("v1", "t", "broker-a", due, "U", "and", "more")
        assert (await recall(client, more)).fields["msgId"] == "U"
        assert (await recall(client, handle_of("v1", "t", "broker-a", f"00{due}", "U"))).code == 0
        assert records(broker, TIMER)[-1].properties["TIMER_DELIVER_MS"] == str(due)
        reply = await client.call(370, topic="t", recallHandle=handle(due))
        assert (reply.code, "PGROUP" in records(broker, TIMER)[-1].properties) == (0, False)
        assert (await recall(client, handle(due), producerGroup='g "ä"')).code == 0
        assert records(broker, TIMER)[-1].properties["PGROUP"] == 'g "ä"'


@in_loop
async def test_control_says_when_recalls_are_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")

        async def answer(topic: str = "t") -> tuple[int, str | None]:
            reply = await recall(client, handle(topic=topic), topic=topic)
            return reply.code, reply.remark

        assert await answer() == (16, "recall failed, operation is forbidden")
        broker.settings.set("recallMessageEnable", "true")
        broker.settings_changed(["recallMessageEnable"])
        assert await answer() == (0, None)
        assert await answer("u") == (17, "recall failed, the topic[u] not exist")
        broker.settings.set("brokerPermission", "4")
        broker.settings_changed(["brokerPermission"])
        assert await answer() == (0, None)
        broker.settings.set("allowRecallWhenBrokerNotWriteable", "false")
        assert await answer() == (14, "recall failed, broker service not available")
        broker.settings.set("brokerPermission", "6")
        broker.settings_changed(["brokerPermission"])
        assert await answer() == (0, None)
        broker.settings.set("recallMessageEnable", "false")
        broker.settings_changed(["recallMessageEnable"])
        assert await answer() == (16, "recall failed, operation is forbidden")
        assert len(records(broker, TIMER)) == 3


@in_loop
async def test_a_topic_that_only_control_knows_is_told_to_the_reactor(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        broker.core.remove_topic(b"t")
        before = control_requests(broker)
        for _ in range(3):
            assert (await recall(client, handle())).code == 0
        assert control_requests(broker) == before + 1


@in_loop
async def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        broker.core.set_writable(0, b"the disk is full")
        reply = await recall(client, handle())
        assert (reply.code, reply.remark) == (1, "recall failed, execute error")
        broker.core.set_writable(1, b"")
        assert (await recall(client, handle())).code == 0
        assert len(records(broker, TIMER)) == 1
    settings = {"recallMessageEnable": True, "timerWheelEnable": False}
    async with served(tmp_path / "off", **settings) as (_, client):
        await client.send("t", b"make")
        # The second handle is so long that it needs a buffer, which is given back.
        for key in ("U", "k" * 100):
            reply = await recall(client, handle(key=key))
            assert (reply.code, reply.remark) == (1, "recall failed, execute error")


@in_loop
async def test_recalls_are_acked_when_they_are_durable(tmp_path: Path) -> None:
    settings = {"recallMessageEnable": True, "flushDiskType": "SYNC_FLUSH"}
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        for n in range(10):
            assert (await recall(client, handle(key="U" * (1 + n * 10)))).code == 0
            _, written, durable = broker.core.log_range()
            assert durable == written


@in_loop
async def test_recalls_without_answer_are_stored_as_well(tmp_path: Path) -> None:
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        fields = {"producerGroup": "P", "topic": "t"}
        for n in range(50):
            client.post(370, one_way=True, recallHandle=handle(key=f"U{n}" * 40), **fields)
            client.post(370, one_way=True, recallHandle="!!", **fields)
        assert (await client.send("t", b"behind")).code == 0
        await until(lambda: len(entries(broker, TIMER)) == 50)


def test_a_recall_given_back_too_early_is_refused_and_not_handed_over_again(
    tmp_path: Path,
) -> None:
    with Shard(tmp_path, recalls=True) as shard:
        client = shard.connect()
        client.put(request(370, 8, topic="t", recallHandle=handle()))
        ((number, frame),) = shard.reports(REQUEST)
        shard.core.resubmit(number, frame)
        reply = client.reply()
        assert (reply.opaque, reply.code, shard.kept(REQUEST)) == (8, 17, [])


def test_recalls_go_to_control_until_sends_are_accepted(tmp_path: Path) -> None:
    with Shard(tmp_path, recalls=True, sends_from_ms=now_ms() + 3_600_000) as shard:
        shard.topic("t")
        client = shard.connect()
        client.put(request(370, 8, topic="t", recallHandle="!!"))
        ((number, frame),) = shard.reports(REQUEST)
        shard.core.resubmit(number, frame)  # given back by control, it is served
        assert client.reply().code == 604
