"""Sends over a socket: what is stored, what is refused and with which text, when it is
acknowledged."""

import contextlib
import os
import resource
import time
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.live_broker import served
from support.name_server import in_loop
from support.shard import (
    MIB,
    REQUEST,
    Shard,
    bodies,
    messages,
    pull,
    request,
    send,
    send_batch,
)
from support.waiting import wait_until_is

from rmq import names
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format.remoting import JSON, ROCKETMQ, decode

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

SEND = {"a": "P", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
@pytest.mark.parametrize("code", [10, 310])
def test_both_spellings_and_both_headers_store_the_same_message(
    shard: Shard, kind: int, code: int
) -> None:
    properties = "KEYS\x01k\x02TAGS\x01a\x02UNIQ_KEY\x01U1\x02"
    long_names = {
        "producerGroup": "P", "topic": "t", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4,
        "queueId": 0, "sysFlag": 0, "bornTimestamp": 77, "flag": 5, "properties": properties,
        "reconsumeTimes": 2,
    }  # fmt: skip
    frame = (
        request(10, 3, b"body", kind=kind, **long_names)
        if code == 10
        else send("t", b"body", 3, kind=kind, g=77, h=5, i=properties, j=2)
    )
    client = shard.connect()
    reply = client.ask(frame)
    assert (reply.code, reply.opaque, reply.serialize_type) == (0, 3, kind)
    assert reply.fields["transactionId"] == "U1"
    (stored,) = messages(client.ask(pull("g", "t")))
    assert reply.fields["msgId"] == stored.message_id
    assert (stored.body, stored.flag, stored.born_timestamp_ms, stored.reconsume_times) == (
        b"body", 5, 77, 2,
    )  # fmt: skip
    assert stored.born_host.port == client.socket.getsockname()[1]
    assert {"KEYS": "k", "TAGS": "a", "UNIQ_KEY": "U1"}.items() <= stored.properties.items()


def test_one_way_sends_are_stored_and_never_answered(shard: Shard) -> None:
    client = shard.connect()
    one_ways = [send("t", b"%d" % n, 1, one_way=True) for n in range(100)]
    refused = [
        send("t", b"", 1, one_way=True),
        send("t", b"x", 1, queue=9, one_way=True),
        request(310, 1, b"x", one_way=True, b="t"),
    ]
    client.put(*one_ways, *refused, send("t", b"last", 2))
    assert client.reply().opaque == 2
    assert client.is_silent()
    found: list[bytes] = []
    while len(found) < 101:
        found += bodies(client.ask(pull("g", "t", len(found))))
    assert found == [b"%d" % n for n in range(100)] + [b"last"]


def test_a_batch_is_stored_in_order_and_its_reply_names_every_message(shard: Shard) -> None:
    client = shard.connect()
    client.put(send_batch("t", [b"a", b"b" * 1000, b"c"], 5), send("t", b"d", 6))
    found = client.replies(2)
    ids = found[5].fields["msgId"].split(",")
    stored = messages(client.ask(pull("g", "t")))
    assert [message.body for message in stored] == [b"a", b"b" * 1000, b"c", b"d"]
    assert [message.message_id for message in stored[:3]] == ids
    assert (found[5].fields["queueOffset"], found[6].fields["queueOffset"]) == ("0", "3")


def test_a_body_of_0_bytes_is_stored_in_a_batch_and_refused_by_itself(shard: Shard) -> None:
    """As with Apache RocketMQ, only the body of a single send is checked."""
    client = shard.connect()
    refused = client.ask(send("t", b"", 1))
    assert (refused.code, "no body" in (refused.remark or "")) == (13, True)
    assert client.ask(send_batch("t", [b"", b"full", b""], 2)).code == 0
    stored = messages(client.ask(pull("g", "t")))
    assert [(each.body, each.queue_offset) for each in stored] == [(b"", 0), (b"full", 1), (b"", 2)]


@pytest.mark.parametrize(
    "packed",
    [b"", b"\0" * 22, b"\0\0\0\x17" + b"\0" * 15 + b"\x02x\0\0", b"\x7f\xff\xff\xff" + b"\0" * 40],
)
def test_a_malformed_batch_is_refused_whole(shard: Shard, packed: bytes) -> None:
    client = shard.connect()
    assert client.ask(send("t", packed, 1, code=320, m="true")).code == 13
    assert client.ask(pull("g", "t")).code == 19


def test_a_good_beginning_does_not_save_a_bad_batch(shard: Shard) -> None:
    client = shard.connect()
    whole = send_batch("t", [b"a", b"b"])
    command = decode(whole[4:])
    assert client.ask(send("t", command.body[:-1], 1, code=320, m="true")).code == 13
    assert client.ask(pull("g", "t")).code == 19


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"e": "1"}, 29, "queueId[1] is illegal"),
        ({"e": "x"}, 1, "field e is missing or not a number"),
        ({"e": "9223372036854775808"}, 1, "field e"),
        ({"g": "99999999999999999999"}, 1, "field g"),
        ({"f": "2048"}, 13, "unknown system flags 0x800"),
        ({"f": "-2147483648"}, 13, "unknown system flags 0x80000000"),
        ({"f": "4"}, 16, "TRAN_MSG or PGROUP is missing"),
        ({"i": "DELAY\x011\x02"}, 2, "the broker is starting"),
        ({"i": "TIMER_DELAY_SEC\x01999999\x02"}, 13, "the max delay 259200000ms"),
        ({"i": "a\x01" + "b" * 32768 + "\x02"}, 13, "longer than 32767"),
    ],
)
def test_refusals_have_rocketmqs_codes_and_say_why(
    shard: Shard, fields: dict[str, str], code: int, says: str
) -> None:
    client = shard.connect()
    for kind in (JSON, ROCKETMQ):
        reply = client.ask(send("t", b"x", 9, kind=kind, **fields))
        assert (reply.code, reply.opaque) == (code, 9), reply.remark
        assert says in (reply.remark or "")
    assert client.ask(send("t", b"good", 10)).fields["queueOffset"] == "0"


@pytest.mark.parametrize("topic", sorted(names.CLOSED_TO_CLIENTS))
def test_a_brokers_own_topics_take_no_sends_of_clients(shard: Shard, topic: str) -> None:
    client = shard.connect()
    for opaque, (name, code) in enumerate([(topic, 16), (topic + "X", 0), (topic[:-1], 0)]):
        shard.topic(name)
        reply = client.ask(send(name, b"x", opaque))
        assert reply.code == code, reply.remark
        assert code == 0 or f"topic[{name}] is forbidden" in (reply.remark or "")


@pytest.mark.parametrize("topic", sorted(names.SYSTEM_TOPICS - names.CLOSED_TO_CLIENTS))
def test_other_system_topics_take_them(shard: Shard, topic: str) -> None:
    shard.topic(topic)
    assert shard.connect().ask(send(topic, b"x", 1)).code == 0


@pytest.mark.parametrize("name", ["b", "c", "d", "e", "f", "g", "h", "a"])
def test_a_missing_field_is_named(shard: Shard, name: str) -> None:
    whole = {"a": "P", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    del whole[name]
    reply = shard.connect().ask(request(310, 4, b"x", **whole))
    assert (reply.code, reply.opaque) == (1, 4)
    assert f"field {name} is missing" in (reply.remark or "")


def test_a_body_beyond_the_limit_is_refused_and_one_at_the_limit_is_stored(tmp_path: Path) -> None:
    with Shard(tmp_path, message_max_bytes=MIB) as shard:
        shard.topic("t")
        client = shard.connect()
        assert client.ask(send("t", bytes(MIB + 1))).code == 13
        assert client.ask(send("t", bytes(MIB))).code == 0
        shard.core.set_option("message_max_bytes", 10)
        assert client.ask(send("t", bytes(11))).code == 13


def test_a_shard_that_may_not_write_says_why_and_goes_on_when_it_may(shard: Shard) -> None:
    client = shard.connect()
    shard.core.set_writable(0, b"the disk is full: 96 %")
    reply = client.ask(send("t"))
    assert (reply.code, reply.remark) == (14, "the disk is full: 96 %")
    shard.core.set_writable(0, b"x" * 5000)
    assert len(client.ask(send("t")).remark or "") == 255
    shard.core.set_writable(1, b"")
    assert client.ask(send("t")).code == 0


def test_sync_sends_are_acked_at_durable_and_others_at_written(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_flush=True) as shard:
        shard.topic("t")
        client = shard.connect()
        for n in range(50):
            reply = client.ask(send("t", bytes(500), n))
            _, written, durable = shard.core.log_range()
            assert reply.code == 0 and durable == written
        client.put(*(send("t", b"x", n) for n in range(300)))
        assert sorted(client.replies(300)) == list(range(300))
        _, written, durable = shard.core.log_range()
        assert durable == written
        reply = client.ask(send("t", b"x", 1, i="WAIT\x01false\x02"))
        assert reply.code == 0


def test_a_send_for_a_queue_below_zero_goes_to_some_queue(shard: Shard) -> None:
    shard.topic("many", 4, 4)
    client = shard.connect()
    client.put(*(send("many", b"x", n, queue=-1) for n in range(200)))
    used = {reply.fields["queueId"] for reply in client.replies(200).values()}
    assert used == {"0", "1", "2", "3"}


def test_an_unknown_topic_goes_to_control_and_comes_back(clock: DrivenClock, shard: Shard) -> None:
    client = shard.connect()
    client.put(send("new", b"first", 8), send("t", b"other", 9))
    assert client.reply().opaque == 9  # other sends do not wait for control
    ((number, frame),) = shard.reports(REQUEST)
    shard.topic("new")
    shard.group("g", "new")
    shard.core.resubmit(number, frame)
    assert client.reply().opaque == 8
    # Control does not release the client: it is read again when control's time is over.
    clock.advance(4)
    assert bodies(client.ask(pull("g", "new"))) == [b"first"]


def test_a_frame_given_back_too_early_is_refused_and_not_handed_over_again(shard: Shard) -> None:
    client = shard.connect()
    client.put(send("new", b"x", 8))
    ((number, frame),) = shard.reports(REQUEST)
    shard.core.resubmit(number, frame)
    assert (client.reply().code, shard.kept(REQUEST)) == (1, [])


def test_more_fields_than_a_send_has_go_to_control_once_and_are_answered(shard: Shard) -> None:
    """A request with 70 fields used to go round between the two threads for ever."""
    client = shard.connect()
    for kind in (JSON, ROCKETMQ):
        client.put(send("t", b"x", 12, kind=kind, **{f"more{n}": n for n in range(70)}))
        ((number, frame),) = shard.reports(REQUEST)
        shard.core.resubmit(number, frame)
        reply = client.reply()
        assert (reply.opaque, reply.code) == (12, 1)
        assert "more header fields" in (reply.remark or "")
        assert shard.kept(REQUEST) == []


def test_removing_a_topic_refuses_its_sends_and_keeps_the_others(
    clock: DrivenClock, shard: Shard
) -> None:
    client = shard.connect()
    shard.topic("short")
    assert client.ask(send("short", b"x")).code == 0
    shard.core.remove_topic(b"short")
    client.put(send("short", b"x", 2), send("t", b"y", 3))
    assert client.reply().opaque == 3
    shard.topic("short")
    clock.advance(4)  # control's time for the refused send is over
    assert client.ask(send("short", b"z", 4)).code == 0


def leave_one_descriptor(taken: list[int]) -> None:
    """Leaves enough descriptors for a file, but not for its directory as well."""
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))
    if taken:
        os.close(taken.pop())


def test_without_descriptors_sends_wait_for_a_file_and_the_log_is_not_poisoned(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """No directory could be opened to be synced, which used to count as a failed sync."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    large = send("t", bytes(100_000))
    taken: list[int] = []
    with Shard(tmp_path, segment_bytes=MIB, page_cache_busy_ms=1000) as shard:
        shard.topic("t")
        client = shard.connect()
        assert client.ask(large).code == 0
        codes = []
        try:
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard)
            )
            while codes[-5:].count(0) or len(codes) < 40:
                # The flusher gives a descriptor back with each full segment.
                leave_one_descriptor(taken)
                client.put(large)
                while client.is_silent(0.1):  # a send that waits for a file waits a second
                    clock.advance(0.5)
                codes.append(client.reply().code)
                assert len(codes) < 400
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in taken:
                os.close(descriptor)
        assert set(codes[-5:]) <= {2, 14}
        assert shard.core.stats()["poisoned"] == 0
        reply = wait_until_is(lambda: client.ask(large), lambda reply: reply.code == 0)
        assert reply.fields["queueOffset"] == str(codes.count(0) + 1)


def test_sends_behind_one_to_a_new_topic_wait_until_control_is_done(shard: Shard) -> None:
    client, other = shard.connect(), shard.connect()
    client.put(send("new", b"a", 1), send("new", b"b", 2))
    away = shard.reports(REQUEST, 2)
    client.put(send("new", b"c", 3), send("t", b"d", 4))
    shard.topic("new")
    assert other.ask(send("new", b"of another", 1)).code == 0  # only the one client is held back
    shard.core.resubmit(*away[0])
    shard.core.send_done(away[0][0])
    assert client.reply().opaque == 1
    assert client.is_silent()  # the second send is still with control
    shard.core.resubmit(*away[1])
    shard.core.send_done(away[1][0])
    replies = [client.reply() for _ in range(3)]
    assert [reply.opaque for reply in replies] == [2, 3, 4]
    assert [reply.fields["queueOffset"] for reply in replies] == ["2", "3", "0"]


def test_a_send_that_control_loses_holds_its_client_back_for_seconds_only(
    clock: DrivenClock, shard: Shard
) -> None:
    client = shard.connect()
    client.put(send("new", b"a", 1))
    shard.reports(REQUEST)
    client.put(send("t", b"b", 2))
    clock.advance(1)
    assert client.is_silent()
    clock.advance(3)
    assert client.reply().opaque == 2


@in_loop
async def test_before_its_time_a_broker_takes_no_sends_and_says_so(tmp_path: Path) -> None:
    begins = int(time.time() * 1000) + 3_600_000
    async with served(tmp_path, startAcceptSendRequestTimeStamp=begins) as (broker, client):
        await broker.topics.create(TopicConfig("t", 1, 1))
        reply = await client.call(310, b"x", **SEND)
        assert (reply.code, reply.remark) == (
            1, "this broker takes sends only from its startAcceptSendRequestTimeStamp on",
        )  # fmt: skip
        assert broker.core.stats()["messages_in"] == 0


@in_loop
async def test_without_write_permission_a_broker_takes_no_sends_to_ordered_topics(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (broker, client):
        await broker.topics.create(TopicConfig("t", 1, 1, order=True))
        await broker.topics.create(TopicConfig("u", 1, 1))
        assert (await client.call(310, b"x", **SEND)).code == 0
        broker.settings.set("brokerPermission", "4")
        broker.settings_changed(["brokerPermission"])
        assert (await client.call(310, b"x", **SEND)).code == 16
        assert (await client.call(310, b"x", **{**SEND, "b": "u"})).code == 0
        assert broker.core.stats()["messages_in"] == 2
