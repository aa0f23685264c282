"""Transactions: a real shard core and its control side, loopback sockets, times made short."""

import os
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import pass_some_time
from support.live_broker import entries, fill_log, open_core, records, served
from support.name_server import in_loop
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.errors import StoreError
from rmq.format import fastjson
from rmq.format.message import decode_message, tags_code
from rmq.format.remoting import Command, field_texts
from rmq.format.signature import Credentials

pytestmark = [
    pytest.mark.usefixtures("clock"),
    pytest.mark.still_clock,
]  # waits end at once: the clock jumps ahead

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
QUICK = {"transactionCheckInterval": 200, "transactionTimeOut": 300}
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02TAGS\x01a\x02"


async def send_half(
    client: BrokerClient, body: bytes, more: str = "", queue: int = 1, age_ms: int = 0
) -> Command:
    born = int(clock.wall() * 1000) - age_ms
    reply = await client.send("t", body, queue, i=MARKS + more, f=4, h=7, g=born)
    assert reply.code == 0, reply.remark
    return reply


def end(half: Command, decision: int, **change: Any) -> dict[str, Any]:
    return {
        "producerGroup": "P",
        "tranStateTableOffset": half.fields["queueOffset"],
        "commitLogOffset": int(half.fields["msgId"][-16:], 16),
        "commitOrRollback": decision,
        "fromTransactionCheck": False,
        "msgId": "U",
        **change,
    }


def ops(broker: Broker) -> list[bytes]:
    return [message.body for message in records(broker, OP)]


async def become_producer(client: BrokerClient, group: str = "P") -> None:
    body = {"clientID": client.client_id, "consumerDataSet": [],
            "producerDataSet": [{"groupName": group}]}  # fmt: skip
    assert (await client.call(34, fastjson.dumps(body))).code == 0


@in_loop
async def test_a_committed_half_message_goes_to_its_topic_as_it_was(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"order", "REAL_TOPIC\x01lie\x02")
        assert (half.fields["queueId"], half.fields["queueOffset"]) == ("1", "0")
        assert half.fields["transactionId"] == "U"
        assert records(broker, "t", 1) == []
        stored = records(broker, HALF)[0]
        assert half.fields["msgId"] == stored.message_id
        assert (stored.sys_flag, stored.queue_id) == (0, 0)
        kept = stored.properties
        assert (kept["REAL_TOPIC"], kept["REAL_QID"]) == ("t", "1")
        assert kept["__transactionId__"] == "U"
        client.post(37, one_way=True, **end(half, 8))
        await until(lambda: records(broker, "t", 1))
        came = records(broker, "t", 1)[0]
        assert (came.body, came.flag) == (b"order", 7)
        assert came.born_timestamp_ms == stored.born_timestamp_ms
        assert (came.born_host, came.reconsume_times) == (stored.born_host, 0)
        assert came.prepared_offset == stored.physical_offset
        assert came.sys_flag == 8
        assert came.properties == kept
        assert entries(broker, "t", 1)[0][2] == tags_code("a")
        await until(lambda: ops(broker) == [b"0,"])
        op = records(broker, OP)[0]
        assert op.properties == {"TAGS": "d", "WAIT": "true"}
        assert entries(broker, OP)[0][2] == tags_code("d")
        assert broker.core.open_halves(0, 10) == (1, 1, [])


@in_loop
async def test_a_rolled_back_one_is_forgotten_and_an_end_counts_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        one, two = await send_half(client, b"1"), await send_half(client, b"2")
        assert (await client.call(37, **end(one, 12))).code == 0
        assert ops(broker) == [b"0,"]
        assert (await client.call(37, **end(one, 8))).code == 0
        for _ in range(3):
            assert (await client.call(37, **end(two, 8))).code == 0
        assert [message.body for message in records(broker, "t", 1)] == [b"2"]
        assert ops(broker) == [b"0,", b"1,"]
        stats = broker.core.stats()
        names = ("transactions_committed", "transactions_rolled_back", "transactions_repeated")
        assert [stats[name] for name in names] == [1, 1, 3]


@in_loop
async def test_a_commit_to_a_topic_that_has_become_smaller_goes_to_its_last_queue(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"order", queue=2)
        fields = {
            "topic": "t",
            "defaultTopic": "TBW102",
            "readQueueNums": 2,
            "writeQueueNums": 2,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        assert (await client.call(17, **fields)).code == 0
        assert (await client.call(37, **end(half, 8))).code == 0
        assert [message.body for message in records(broker, "t", 1)] == [b"order"]


@in_loop
async def test_the_ends_of_a_turn_share_op_messages(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        sends = [client.post_send("t", b"x", i=MARKS, f=4) for _ in range(1500)]
        halves = [await client.reply(opaque) for opaque in sends]
        with client.in_one_write():
            for half in reversed(halves):
                client.post(37, one_way=True, **end(half, 8))
        await until(lambda: broker.core.stats()["transactions_committed"] == 1500)
        await until(lambda: broker.core.open_halves(0, 9)[0] == 1500)
        await pass_seconds(broker.core, 0.05)
        said = b"".join(ops(broker))
        assert sorted(map(int, said.rstrip(b",").split(b","))) == list(range(1500))
        assert len(ops(broker)) < 1000
        assert max(map(len, ops(broker))) <= 4096
        assert all(body[:1] != b"," and body[-1:] == b"," for body in ops(broker))
        assert len(records(broker, "t")) == 1501


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"producerGroup": "Q"}, "The producer group wrong"),
        ({"producerGroup": "PP"}, "The producer group wrong"),
        ({"tranStateTableOffset": 5}, "The transaction state table offset wrong"),
        ({"commitLogOffset": 1 << 60}, "Find prepared transaction message failed"),
        ({"commitLogOffset": -1}, "Find prepared transaction message failed"),
        ({"commitLogOffset": 3}, "Find prepared transaction message failed"),
        ({"commitLogOffset": 0}, "Find prepared transaction message failed"),
        ({"commitLogOffset": "x"}, "the field commitLogOffset is missing or not a number"),
        ({"commitOrRollback": None}, "the field commitOrRollback is missing or not a number"),
        ({"producerGroup": None}, "the field producerGroup is missing or not a number"),
    ],
)
def test_an_end_that_does_not_fit_its_half_message_is_refused(
    tmp_path: Path, change: dict[str, Any], remark: str
) -> None:
    @in_loop
    async def run() -> None:
        async with served(tmp_path) as (broker, client):
            await client.send("t", b"make")  # an ordinary record at offset 0
            fields = {**end(await send_half(client, b"x"), 8), **change}
            fields = {name: value for name, value in fields.items() if value is not None}
            reply = await client.call(37, **fields)
            assert (reply.code, reply.remark) == (1, remark)
            assert broker.core.open_halves(0, 10) == (0, 1, [0])
            assert ops(broker) == []
            assert records(broker, "t", 1) == []

    run()


@in_loop
async def test_what_is_no_transaction_message_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        assert (await client.send("t", b"x", f=4)).code == 16
        assert (await client.send("t", b"x", f=8, i="TRAN_MSG\x01true\x02")).code == 16
        broker.settings_changed([])
        broker.core.set_option("reject_transactions", 1)
        assert (await client.send("t", b"x", f=4, i=MARKS)).code == 16
        assert records(broker, HALF) == []


@in_loop
async def test_a_producers_own_limit_makes_a_late_end_illegal(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"x", "CHECK_IMMUNITY_TIME_IN_SECONDS\x011\x02", age_ms=2000)
        assert (await client.call(37, **end(half, 8))).code == 604
        assert records(broker, "t", 1) == []
        assert (await client.call(37, **end(half, 8, fromTransactionCheck=True))).code == 0
        assert len(records(broker, "t", 1)) == 1


@in_loop
async def test_a_delayed_transaction_waits_after_its_commit(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s") as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"x", "DELAY\x011\x02")
        assert (await client.call(37, **end(half, 8))).code == 0
        assert len(records(broker, "SCHEDULE_TOPIC_XXXX")) == 1
        assert records(broker, "t", 1) == []
        await until(lambda: records(broker, "t", 1))
        assert records(broker, "t", 1)[0].sys_flag == 8


@in_loop
async def test_an_open_one_is_stored_anew_and_its_producer_asked(tmp_path: Path) -> None:
    async with served(tmp_path, **QUICK) as (broker, client):
        await become_producer(client)
        await client.send("t", b"make")
        half = await send_half(client, b"order")
        client.post(37, one_way=True, **end(half, 0))  # the producer does not know its decision yet
        for times in ("1", "2"):
            ask = await client.asked(39)
            assert ask.is_oneway
            shown, _ = decode_message(ask.body)
            assert (shown.topic, shown.queue_id, shown.body) == ("t", 1, b"order")
            assert shown.properties["TRANSACTION_CHECK_TIMES"] == times
            assert ask.fields["tranStateTableOffset"] == times
            assert (ask.fields["msgId"], ask.fields["transactionId"]) == ("U", "U")
            stored = records(broker, HALF)[int(times)]
            assert int(ask.fields["commitLogOffset"]) == stored.physical_offset
            assert ask.fields["offsetMsgId"] == stored.message_id
        answer = {**end(half, 8), "fromTransactionCheck": True}
        for name in ("tranStateTableOffset", "commitLogOffset"):
            answer[name] = ask.fields[name]
        assert (await client.call(37, **answer)).code == 0
        # The half message may have been checked once more meanwhile.
        asked = len(records(broker, HALF))
        assert [message.body for message in records(broker, "t", 1)] == [b"order"]
        # The first check back's answer comes late, and has no second effect.
        assert (await client.call(37, **end(half, 8))).code == 0
        assert len(records(broker, "t", 1)) == 1
        group = b"CID_RMQ_SYS_TRANS"
        await until(lambda: broker.core.query_offset(group, HALF.encode(), 0) == asked)
        await pass_seconds(broker.core, 0.8)
        assert len(records(broker, HALF)) == asked
        assert broker.core.query_offset(group, OP.encode(), 0) == len(ops(broker))


@in_loop
async def test_after_too_many_checks_it_is_set_aside(tmp_path: Path) -> None:
    async with served(tmp_path, **QUICK, transactionCheckMax=2) as (broker, client):
        await become_producer(client)
        await client.send("t", b"make")
        await send_half(client, b"order")
        await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))
        aside = records(broker, "TRANS_CHECK_MAX_TIME_TOPIC")
        assert [message.body for message in aside] == [b"order"]
        assert aside[0].properties["TRANSACTION_CHECK_TIMES"] == "2"
        await pass_seconds(broker.core, 0.8)
        assert len(records(broker, "TRANS_CHECK_MAX_TIME_TOPIC")) == 1
        assert len([request for request in client.requests if request.code == 39]) == 2
        assert broker.core.open_halves(0, 10)[2] == []


WHO = Credentials("admin", "secret")


class Signing(BrokerClient):
    def post(self, code: int, body: bytes = b"", one_way: bool = False, **fields: Any) -> int:
        return super().post(code, body, one_way, **WHO.sign(field_texts(fields), body))


@in_loop
async def test_a_late_commit_is_let_in_by_what_its_client_has_signed(tmp_path: Path) -> None:
    """Control gives the commit back to the reactor with other places in it, which the client has
    not signed."""
    settings = {
        **QUICK, "transactionCheckMax": 1, "authenticationEnabled": True,
        "initAuthenticationUser": '{"username":"admin","password":"secret"}',
    }  # fmt: skip
    loaded, core = open_core(tmp_path, **settings)
    core.start()
    broker = Broker(loaded, core)
    broker.guard.open()
    try:
        await broker.start()
        async with Signing(core.port) as client:
            await client.send("t", b"make")
            half = await send_half(client, b"late")
            await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))
            assert (await client.call(37, **end(half, 8))).code == 0
            assert [message.body for message in records(broker, "t", 1)] == [b"late"]
    finally:
        await broker.stop()
        core.stop()


@in_loop
async def test_a_late_commit_of_what_was_set_aside_still_counts(tmp_path: Path) -> None:
    settings = {**QUICK, "transactionCheckMax": 1}
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"late", "KEYS\x01k\x02")
        await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))
        aside = records(broker, "TRANS_CHECK_MAX_TIME_TOPIC")[0]
        assert records(broker, "t", 1) == []
        assert (await client.call(37, **end(half, 8, producerGroup="Q"))).code == 1
        assert (await client.call(37, **end(half, 8))).code == 0
        came = records(broker, "t", 1)
        assert [message.body for message in came] == [b"late"]
        assert (came[0].sys_flag, came[0].properties["KEYS"]) == (8, "k")
        assert (await client.call(37, **end(half, 8))).code == 0
        assert len(records(broker, "t", 1)) == 1
        await pass_seconds(broker.core, 0.5)
        assert broker.core.open_halves(0, 10)[2] == []
        # An operator may have the half message checked again, by its id in the topic of those set
        # aside.
        await become_producer(client)
        client.requests.clear()
        broker.core.set_writable(0, b"the disk is full")
        refused = await client.call(323, msgId=aside.message_id)
        assert (refused.code, refused.remark) == (14, "the disk is full")
        broker.core.set_writable(1, b"")
        assert (await client.call(323, msgId=aside.message_id)).code == 0
        asked = await client.asked(39)
        assert asked.fields["transactionId"] == "U"
        assert records(broker, HALF)[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await client.call(323, msgId=came[0].message_id)).code == 1


@in_loop
async def test_a_late_commit_that_could_not_be_stored_counts_when_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, **QUICK, transactionCheckMax=1) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"late")
        await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))

        def full(*_: object) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(broker.transactions, "_store", full)
            assert (await client.call(37, **end(half, 8))).code == 1
        assert (await client.call(37, **end(half, 8))).code == 0
        assert [message.body for message in records(broker, "t", 1)] == [b"late"]


@in_loop
async def test_a_late_commit_counts_after_a_restart_too(tmp_path: Path) -> None:
    settings = {**QUICK, "transactionCheckMax": 1}
    async with served(tmp_path, **settings) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"late")
        await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))
    async with served(tmp_path, **settings) as (broker, client):
        assert (await client.call(37, **end(half, 8))).code == 0
        assert [message.body for message in records(broker, "t", 1)] == [b"late"]


@pytest.mark.parametrize("decision", [8, 12])
@in_loop
async def test_an_end_by_the_place_before_a_check_back_counts_after_a_restart(
    tmp_path: Path, decision: int
) -> None:
    """The log only says that the half message at the old place is ended, as if the transaction
    were."""
    async with served(tmp_path, **QUICK) as (broker, client):
        await client.send("t", b"make")
        halves = [await send_half(client, b"%d" % number) for number in range(3)]
        await until(lambda: all(offset > 2 for offset in broker.core.open_halves(0, 10)[2]))
    async with served(tmp_path) as (broker, client):
        assert len(broker.core.open_halves(0, 10)[2]) == 3
        assert (await client.call(37, **end(halves[1], decision, producerGroup="Q"))).code == 1
        for _ in range(2):
            assert (await client.call(37, **end(halves[1], decision))).code == 0
            expected = [b"1"] if decision == 8 else []
            assert [message.body for message in records(broker, "t", 1)] == expected
            assert len(broker.core.open_halves(0, 10)[2]) == 2
        client.post(37, one_way=True, **end(halves[2], decision))
        await until(lambda: len(broker.core.open_halves(0, 10)[2]) == 1)


@in_loop
async def test_a_late_commit_that_was_refused_counts_when_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then its half message was stored anew for it, and is no longer set aside."""
    async with served(tmp_path, **QUICK, transactionCheckMax=1) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"late")
        await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))

        def full(_: str) -> bool:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(broker.creations, "is_made", full)
            assert (await client.call(37, **end(half, 8))).code == 1
        assert (await client.call(37, **end(half, 8))).code == 0
        assert [message.body for message in records(broker, "t", 1)] == [b"late"]


@in_loop
async def test_after_a_late_commit_repeated_ends_of_others_are_no_work_of_control(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, **QUICK, transactionCheckMax=1) as (broker, client):
        await client.send("t", b"make")
        ended = await send_half(client, b"ended")
        assert (await client.call(37, **end(ended, 8))).code == 0
        late = await send_half(client, b"late")
        await until(lambda: records(broker, "TRANS_CHECK_MAX_TIME_TOPIC"))
        assert (await client.call(37, **end(late, 8))).code == 0
        before = broker.core.stats()["control_requests"]
        for half in (ended, late):
            for decision in (8, 12):
                assert (await client.call(37, **end(half, decision))).code == 0
        assert broker.core.stats()["control_requests"] == before
        assert [message.body for message in records(broker, "t", 1)] == [b"ended", b"late"]


@in_loop
async def test_an_open_one_that_is_to_be_checked_again_is_open_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"order")
        assert (await client.call(323, msgId=half.fields["msgId"])).code == 0
        assert broker.core.open_halves(0, 10)[2] == [1]
        for _ in range(2):
            assert (await client.call(37, **end(half, 8))).code == 0
            assert broker.core.open_halves(0, 10)[2] == []
            assert [message.body for message in records(broker, "t", 1)] == [b"order"]


@in_loop
async def test_a_half_message_with_its_own_time_is_not_asked_about_before(tmp_path: Path) -> None:
    async with served(tmp_path, **QUICK) as (broker, client):
        await become_producer(client)
        await client.send("t", b"make")
        now = int(clock.wall() * 1000)
        own = "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02"
        await client.send("t", b"x", i=MARKS + own, f=4, g=now)
        pass_some_time(30)
        await pass_seconds(broker.core, 0.5)
        assert client.requests == []
        pass_some_time(31)
        await client.asked(39)


@in_loop
async def test_any_live_producer_of_the_group_is_asked(tmp_path: Path) -> None:
    async with served(tmp_path, **QUICK) as (broker, sender):
        await sender.send("t", b"make")
        await become_producer(sender, "other")
        await send_half(sender, b"order")
        await pass_seconds(broker.core, 0.7)
        assert sender.requests == []
        async with BrokerClient(broker.core.port, "second") as second:
            await become_producer(second)
            ask = await second.asked(39)
            assert decode_message(ask.body)[0].body == b"order"


@in_loop
async def test_what_is_open_survives_a_restart_and_what_is_ended_stays_so(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        halves = [await send_half(client, b"%d" % n) for n in range(4)]
        assert (await client.call(37, **end(halves[1], 8))).code == 0
        assert (await client.call(37, **end(halves[0], 12))).code == 0
        assert (await client.call(37, **end(halves[3], 12))).code == 0
    async with served(tmp_path) as (broker, client):
        assert broker.core.open_halves(0, 10)[2] == [2]
    async with served(tmp_path, **QUICK) as (broker, client):
        assert (await client.call(37, **end(halves[3], 8))).code == 0
        assert [message.body for message in records(broker, "t", 1)] == [b"1"]
        await become_producer(client)
        ask = await client.asked(39)
        assert decode_message(ask.body)[0].body == b"2"


@in_loop
async def test_a_deleted_topic_comes_back_for_a_commit(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"order", queue=2)
        await broker.topics.delete("t")
        assert (await client.call(37, **end(half, 8))).code == 0
        assert [message.body for message in records(broker, "t", 2)] == [b"order"]


@in_loop
async def test_a_half_message_that_left_memory_is_committed_all_the_same(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"make")
        half = await send_half(client, b"old order")
        await fill_log(broker, client, "fill", 12 << 20)  # the ring of 8 MiB has moved on
    for path in (tmp_path / "commitlog").iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    async with served(tmp_path) as (broker, client):
        before = broker.core.stats()["control_requests"]
        reply = await client.call(37, **end(half, 8))
        assert reply.code == 0, reply.remark
        assert broker.core.stats()["control_requests"] == before
        assert broker.core.stats()["records_asked"] == 1
        assert [message.body for message in records(broker, "t", 1)] == [b"old order"]
