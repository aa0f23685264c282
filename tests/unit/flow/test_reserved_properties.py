"""POP_CK belongs to the broker: a sender's POP_CK is never stored, other properties stay as they
are.

A consumer acknowledges with POP_CK, and clients take one that is there for the broker's. RocketMQ
removes it from the properties of a send's header; rmq also removes it from the messages of a batch,
from replies, and from what is copied out of a store that has it already.
"""

import struct
from pathlib import Path

import pytest
from support.live_broker import records, served
from support.name_server import in_loop
from support.popping import ack, pop
from support.shard import Shard, messages, pull, send
from support.waiting import until

from rmq.format.remoting import JSON, ROCKETMQ

pytestmark = pytest.mark.usefixtures("clock")  # waits end at once: the clock jumps ahead

LIE = "POP_CK\x011 2 3 4 0 other 0 9\x02"
WAYS = {
    "first": f"{LIE}KEYS\x01k\x02TAGS\x01a\x02",
    "last": f"KEYS\x01k\x02TAGS\x01a\x02{LIE}",
    "unclosed": f"KEYS\x01k\x02TAGS\x01a\x02{LIE[:-1]}",
    "twice": f"KEYS\x01k\x02{LIE}{LIE}TAGS\x01a\x02",
}
OWN = {"UNIQ_KEY", "MSG_REGION", "TRACE_ON", "CLUSTER"}


def batch(*properties: str) -> bytes:
    parts = []
    for number, text in enumerate(properties):
        raw, body = text.encode(), b"%d" % number
        parts.append(
            struct.pack(">iiiii", 22 + len(body) + len(raw), 0, 0, 0, len(body))
            + body + struct.pack(">h", len(raw)) + raw
        )  # fmt: skip
    return b"".join(parts)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
def test_a_send_keeps_all_properties_but_the_brokers_own(shard: Shard, kind: int, way: str) -> None:
    client = shard.connect()
    assert client.ask(send("t", b"x", kind=kind, i=WAYS[way])).code == 0
    (stored,) = messages(client.ask(pull("g", "t")))
    assert set(stored.properties) - OWN == {"KEYS", "TAGS"}
    assert (stored.properties["KEYS"], stored.properties["TAGS"]) == ("k", "a")
    assert len(stored.properties["UNIQ_KEY"]) == 32


def test_each_message_of_a_batch_loses_it(shard: Shard) -> None:
    client = shard.connect()
    texts = ["TAGS\x01a", WAYS["first"], "", WAYS["unclosed"], "POP_CKX\x011\x02", LIE]
    assert client.ask(send("t", batch(*texts), code=320, m="true")).code == 0
    found = messages(client.ask(pull("g", "t")))
    kept = {"KEYS": "k", "TAGS": "a"}
    assert [each.properties for each in found] == [
        {"TAGS": "a"}, kept, {}, kept, {"POP_CKX": "1"}, {},
    ]  # fmt: skip


def test_a_full_batch_message_may_lie_without_breaking_the_batch(shard: Shard) -> None:
    """The messages have the longest properties that a record holds, and one of them contains
    POP_CK: the batch is measured and appended in the same way."""
    client = shard.connect()
    full = "PAD\x01" + "x" * (32767 - 4)
    lying = LIE + "PAD\x01" + "x" * (32767 - 4 - len(LIE))
    assert client.ask(send("t", batch(full, lying, LIE), code=320, m="true")).code == 0
    found = messages(client.ask(pull("g", "t")))
    assert [set(each.properties) for each in found] == [{"PAD"}, {"PAD"}, set()]


@in_loop
async def test_delayed_timed_half_and_sent_back_messages_have_none(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s 1s", timerPrecisionMs=100) as (
        broker, client,
    ):  # fmt: skip
        await client.send("t", b"make")
        await client.heartbeat("g", "t")
        half = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"
        for marks in ("DELAY\x011\x02", "TIMER_DELAY_MS\x01300\x02", half, ""):
            assert (await client.send("t", b"x", 1, i=LIE + marks)).code == 0
        await until(lambda: len(records(broker, "t", 1)) == 3)
        source = records(broker, "t", 1)[0]
        reply = await client.call(
            36, offset=source.physical_offset, group="g", delayLevel=1, originTopic="t",
            originMsgId="U", unitMode=False,
        )  # fmt: skip
        assert reply.code == 0
        await until(lambda: records(broker, "%RETRY%g"))
        places = [("t", 1), ("SCHEDULE_TOPIC_XXXX", 0), ("rmq_sys_wheel_timer", 0),
                  ("RMQ_SYS_TRANS_HALF_TOPIC", 0), ("%RETRY%g", 0)]  # fmt: skip
        for topic, queue in places:
            found = records(broker, topic, queue)
            assert found
            assert not [each for each in found if "POP_CK" in each.properties]


@in_loop
async def test_a_lying_message_is_popped_and_acknowledged_as_any(tmp_path: Path) -> None:
    async with served(tmp_path, timerPrecisionMs=100) as (broker, client):
        await client.send("t", b"make")
        await client.heartbeat("g", "t")
        assert (await client.send("t", b"x", 1, i=LIE)).code == 0
        (one,) = await pop(client, "g", "t", queueId=1, invisibleTime=1000)
        assert one.extra.endswith(" broker-a 1 0")
        await until(lambda: records(broker, "%RETRY%g_t"))
        (again,) = [each for each in await pop(client, "g", "t") if each.body == b"x"]
        assert again.message.reconsume_times == 1
        await ack(client, "g", again)


@in_loop
async def test_names_longer_than_any_are_refused_and_end_nothing(tmp_path: Path) -> None:
    """Names of groups, and the broker's name in a consumer's own POP_CK, come from the wire and may
    have any length."""
    async with served(tmp_path) as (_, client):
        await client.send("t", b"make")
        await client.heartbeat("g", "t")
        await client.send("t", b"x", 1)
        (one,) = await pop(client, "g", "t", queueId=1)
        fields = {"topic": "t", "queueId": 1, "offset": 0}
        for group in ("g" * 256, "g" * 900, "g" * 30_000):
            for code in (200051, 200053):
                reply = await client.call(
                    code, **fields, consumerGroup=group, extraInfo=one.extra, invisibleTime=1000
                )
                assert (reply.code, "255 bytes" in reply.remark) == (13, True)
        extra = one.extra.replace("broker-a", "b" * 1000)
        reply = await client.call(200051, **fields, consumerGroup="g", extraInfo=extra)
        assert reply.code == 1
        await ack(client, "g", one)
