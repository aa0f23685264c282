"""The role of a core: what a slave refuses and leaves alone, and what goes on when it leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.fed_slaves import copy_tables, feed, log_of, records_of
from support.live_broker import live_broker, records, served
from support.name_server import in_loop
from support.popping import ack, ack_fields, now_ms, pop, pop_all, pop_fields
from support.shard import HELD_MS, REQUEST, Shard, bodies, pull, request, send
from support.waiting import pass_seconds, until

from rmq.errors import ProtocolError, StoreError
from rmq.format import fastjson
from rmq.format.message import encode_properties

pytestmark = pytest.mark.still_clock

SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, SLAVE_NOT_AVAILABLE = 2, 14, 11
NOT_FOUND, OFFSET_MOVED = 19, 21
HALF = {"i": "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02", "f": 4}
SETTINGS = {
    "messageDelayLevel": "1s 1h", "transactionCheckInterval": 200, "transactionTimeOut": 300,
    "recallMessageEnable": True,
}  # fmt: skip


def as_slave(shard: Shard) -> Shard:
    assert shard.core.demote()
    return shard


def test_writes_and_role_are_two_things(shard: Shard) -> None:
    client = shard.connect()
    as_slave(shard)
    shard.core.set_writable(0, b"the disk is full")
    assert "a slave" in (client.ask(send("t")).remark or "")
    shard.core.set_writable(1, b"")  # the disk has room again
    assert client.ask(send("t")).code == SERVICE_NOT_AVAILABLE
    assert shard.core.stats()["slave"] == 1
    shard.core.set_writable(0, b"the disk is full")
    assert shard.core.promote()
    refused = client.ask(send("t"))
    assert (refused.code, refused.remark) == (SERVICE_NOT_AVAILABLE, "the disk is full")
    shard.core.set_writable(1, b"")
    assert client.ask(send("t")).code == 0


def test_a_send_to_a_slave_makes_no_topic(shard: Shard) -> None:
    client = as_slave(shard).connect()
    assert client.ask(send("unknown")).code == SERVICE_NOT_AVAILABLE
    assert shard.kept(REQUEST) == []
    client.put(send("t", one_way=True), send("t", opaque=2))
    assert client.reply().opaque == 2
    assert shard.core.stats()["log_appended"] == 0


def test_control_appends_nothing_to_a_slave(shard: Shard) -> None:
    as_slave(shard)
    with pytest.raises(StoreError, match="is a slave"):
        shard.core.append(b"t", 0, b"body", b"", 0, 0, 1, b"\x7f\0\0\1\0\0\0\0", 0, 0)
    assert shard.core.stats()["log_appended"] == 0


def test_of_a_master_nothing_is_hidden_or_taken_back(shard: Shard) -> None:
    client = shard.connect()
    assert client.ask(send("t", b"body")).code == 0
    end = shard.core.log_range()[1]
    shard.core.set_replicated(end)
    with pytest.raises(StoreError, match="never less than before"):
        shard.core.set_replicated(end - 1)
    with pytest.raises(StoreError, match="not for control to say"):
        shard.core.set_visible(0)
    with pytest.raises(StoreError, match="nothing of it is unconfirmed"):
        shard.core.set_unconfirmed()
    assert bodies(client.ask(pull("g", "t"))) == [b"body"]
    as_slave(shard)
    shard.core.set_replicated(end - 1)  # as if a master with less were elected
    shard.core.set_visible(0)
    with pytest.raises(ProtocolError, match="consumers are to see"):
        shard.core.set_visible(-1)
    shard.core.set_unconfirmed()
    assert client.ask(pull("g", "t")).code == SYSTEM_BUSY
    assert shard.core.promote()
    assert bodies(client.ask(pull("g", "t"))) == [b"body"]


NOT_WRITABLE = {
    "not heard from its controller": (lambda core: core.set_lease(1),
                                      lambda core: core.set_lease(2**63 - 1)),
    "the disk is full": (lambda core: core.set_writable(0, b"the disk is full"),
                         lambda core: core.set_writable(1, b"")),
    "in-sync replicas not enough": (lambda core: core.set_sync_state([], 1),
                                    lambda core: core.set_sync_state([], 0)),
}  # fmt: skip


@pytest.mark.parametrize("reason", NOT_WRITABLE)
def test_control_appends_nothing_that_a_send_would_not_be_taken_for(
    shard: Shard, reason: str
) -> None:
    """Such a record would be cut when another master is elected, or would fill the disk."""
    stop, resume = NOT_WRITABLE[reason]
    record = (b"t", 0, b"body", b"", 0, 0, 1, b"\x7f\0\0\1\0\0\0\0", 0, 0)
    stop(shard.core)
    with pytest.raises(StoreError, match=reason):
        shard.core.append(*record)
    assert shard.core.stats()["log_appended"] == 0
    resume(shard.core)
    assert shard.core.append(*record) == (0, 0)


def test_pulls_are_served_and_no_offset_is_reset(shard: Shard) -> None:
    client = shard.connect()
    assert client.ask(send("t", b"body")).code == 0
    assert client.ask(pull("g", "t", offset=7)).code == OFFSET_MOVED
    as_slave(shard)
    assert bodies(client.ask(pull("g", "t"))) == [b"body"]
    beyond = client.ask(pull("g", "t", offset=7))
    assert (beyond.code, beyond.fields["nextBeginOffset"]) == (NOT_FOUND, "7")
    client.put(pull("g", "t", offset=7, hold_ms=HELD_MS))
    shard.until(lambda stats: stats["pulls_waiting"] == 1)


def test_an_end_sent_one_way_is_dropped_and_the_transaction_stays_open(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        for topic in ("t", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"):
            shard.topic(topic)
        shard.core.start_transactions(0, 1)
        client = shard.connect()
        half = client.ask(send("t", b"half", **HALF))
        end = {
            "producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": int(half.fields["msgId"][-16:], 16), "commitOrRollback": 8,
            "fromTransactionCheck": False, "msgId": "U",
        }  # fmt: skip
        as_slave(shard)
        before = shard.core.stats()["log_appended"]
        client.put(request(37, 5, one_way=True, **end), request(37, 6, **end))
        reply = client.reply()
        assert (reply.opaque, reply.code) == (6, SLAVE_NOT_AVAILABLE)
        assert shard.core.stats()["log_appended"] == before
        assert shard.core.open_halves(0, 9)[2] == [0]
        assert shard.core.promote()
        assert client.ask(request(37, 7, **end)).code == 0
        assert shard.core.open_halves(0, 9)[2] == []


@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_demotion_waits_for_what_was_appended_and_takes_no_more(
    tmp_path: Path, sync_flush: bool
) -> None:
    with Shard(tmp_path, sync_flush=sync_flush, sync_replicas=True, slave_timeout_ms=600_000) as s:
        s.topic("t")
        client = s.connect()
        for number in range(10):
            client.put(send("t", opaque=number))
        s.until(lambda _: s.core.queue_range(b"t", 0) == (0, 10))
        assert not s.core.demote()
        client.put(send("t", opaque=99))
        reply = client.reply()
        assert (reply.opaque, reply.code) == (99, SERVICE_NOT_AVAILABLE)
        end = s.core.log_range()[1]
        with pytest.raises(StoreError, match="answers wait"):
            s.core.check_truncation(end)
        s.core.set_replicated(end)
        assert {reply.code for reply in client.replies(10).values()} == {0}
        s.until(lambda _: s.core.demote())
        assert s.core.queue_range(b"t", 0) == (0, 10)
        assert s.core.log_range()[1] == end


async def things_that_wait(client: BrokerClient) -> str:
    """Makes one of everything that a master does later by itself; returns a recall handle."""
    for number in range(4):
        assert (await client.send("t", b"popped %d" % number, 0)).code == 0
    assert (await client.send("t", b"delayed", 1, i="DELAY\x012\x02")).code == 0
    timed = encode_properties({"TIMER_DELAY_MS": "600000", "UNIQ_KEY": "T"}).decode()
    recalled = await client.send("t", b"timed", 1, i=timed)
    assert recalled.code == 0
    assert (await client.send("t", b"half", 2, g=now_ms(), **HALF)).code == 0
    some = await pop(client, "g", "t", queueId=0, maxMsgNums=4, invisibleTime=60_000)
    assert len(some) == 4
    await ack(client, "g", some[0], some[2])
    return str(recalled.fields["recallHandle"])


async def be_producer(client: BrokerClient) -> None:
    body = {"clientID": "p@1", "consumerDataSet": [], "producerDataSet": [{"groupName": "P"}]}
    assert (await client.call(34, fastjson.dumps(body))).code == 0


@pytest.fixture
def master(tmp_path: Path, clock: DrivenClock) -> tuple[bytes, str]:
    """A master's log, and the handle of a message in it that can be recalled."""
    found = []

    @in_loop
    async def run() -> None:
        settings = {**SETTINGS, "transactionTimeOut": 600_000}
        async with served(tmp_path / "master", **settings) as (broker, client):
            handle = await things_that_wait(client)
            assert len(records(broker, "t", 1)) == 0
            found.append((log_of(tmp_path / "master", broker.core.log_range()[1]), handle))

    run()
    return found[0]


@in_loop
async def test_a_slave_does_nothing_by_itself_until_it_leads(
    tmp_path: Path, master: tuple[bytes, str], clock: DrivenClock
) -> None:
    log, handle = master
    store = tmp_path / "slave"
    copy_tables(tmp_path / "master", store)
    async with live_broker(store, slave=True, **SETTINGS) as broker:
        core: Any = broker.core
        await feed(core, log)
        end = len(log)
        clock.advance(3700)
        async with BrokerClient(core.port) as client:
            await be_producer(client)
            await pass_seconds(core, 10)
            assert core.log_range()[1] == end, "a slave has appended something"
            assert records(broker, "t", 1) == []
            assert core.stats()["transactions_asked"] == 0
            await is_refused(client, handle)
            assert core.log_range()[1] == end

            assert core.promote()
            await until(lambda: {m.body for m in records(broker, "t", 1)} == {b"delayed", b"timed"})
            clock.advance(58)
            again = await pop_all(client, "g", "t", 4)
            assert {one.body for one in again} == {
                b"popped 1", b"popped 3", b"delayed", b"timed",
            }  # fmt: skip
            asked = await client.asked(39)
            assert asked.fields["transactionId"] == "U"


@pytest.mark.parametrize("times_max", [15, 1], ids=["stored-anew", "set-aside"])
@in_loop
async def test_a_commit_by_an_old_place_counts_at_the_next_master(
    tmp_path: Path, clock: DrivenClock, times_max: int
) -> None:
    """The log only says that the half message at the old place is ended, not what happened to it
    then."""
    settings = {**SETTINGS, "transactionCheckMax": times_max}
    async with served(tmp_path / "master", **settings) as (broker, client):
        assert (await client.send("t", b"make", 0)).code == 0
        half = await client.send("t", b"half", 2, g=now_ms(), **HALF)
        assert half.code == 0
        moved = "RMQ_SYS_TRANS_HALF_TOPIC" if times_max > 1 else "TRANS_CHECK_MAX_TIME_TOPIC"
        await until(lambda: any(m.body == b"half" and m.queue_offset >= (times_max > 1)
                                for m in records(broker, moved)))  # fmt: skip
    # The log also has what came while the broker was stopped.
    log = log_of(tmp_path / "master", 1 << 40)
    log = log[: records_of(log)[-1]]
    copy_tables(tmp_path / "master", tmp_path / "slave")
    late = {**settings, "transactionCheckInterval": 600_000}
    async with live_broker(tmp_path / "slave", slave=True, **late) as broker:
        core: Any = broker.core
        await feed(core, log)
        assert core.promote()
        async with BrokerClient(core.port) as client:
            end = {
                "producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"],
                "commitLogOffset": int(half.fields["msgId"][-16:], 16), "commitOrRollback": 8,
                "fromTransactionCheck": False, "msgId": "U",
            }  # fmt: skip
            for _ in range(2):
                assert (await client.call(37, **end)).code == 0
                assert [message.body for message in records(broker, "t", 2)] == [b"half"]


async def is_refused(client: BrokerClient, handle: str) -> None:
    for code, fields, expected in (
        (200050, pop_fields("g", "t"), SERVICE_NOT_AVAILABLE),
        (370, {"producerGroup": "P", "topic": "t", "recallHandle": handle}, SLAVE_NOT_AVAILABLE),
        (36, {"offset": 0, "group": "g", "delayLevel": 1, "originMsgId": "", "originTopic": "t",
              "unitMode": False, "maxReconsumeTimes": 16}, SERVICE_NOT_AVAILABLE),
    ):  # fmt: skip
        reply = await client.call(code, **fields)
        assert reply.code == expected, (code, reply.code, reply.remark)


@in_loop
async def test_what_was_popped_of_the_master_is_not_acknowledged_at_a_slave(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (broker, client):
        core: Any = broker.core
        assert (await client.send("t", b"one")).code == 0
        (one,) = await pop(client, "g", "t")
        await until(core.demote)
        end = core.log_range()[1]
        for code, fields in (
            (200051, ack_fields("g", one)),
            (200053, {**ack_fields("g", one), "invisibleTime": 5000}),
        ):
            reply = await client.call(code, **fields)
            assert reply.code == SERVICE_NOT_AVAILABLE, (code, reply.code, reply.remark)
        assert core.log_range()[1] == end
        assert core.promote()
        await ack(client, "g", one)


@in_loop
async def test_a_master_that_became_a_slave_goes_on_from_anothers_bytes(tmp_path: Path) -> None:
    """Two brokers lead in turn; both logs are the same at the end."""
    async with served(tmp_path / "a") as (first, client):
        a: Any = first.core
        for number in range(20):
            assert (await client.send("t", b"%d" % number, number % 4)).code == 0
        await until(a.demote)
        end = a.log_range()[1]
        copy_tables(tmp_path / "a", tmp_path / "b")
        async with live_broker(tmp_path / "b", slave=True) as second:
            b: Any = second.core
            await feed(b, log_of(tmp_path / "a", end))
            assert b.promote()
            async with BrokerClient(b.port) as other:
                for number in range(20, 40):
                    assert (await other.send("t", b"%d" % number, number % 4)).code == 0
            await feed(a, log_of(tmp_path / "b", b.log_range()[1]), end)
            for queue in range(4):
                assert [m.body for m in records(first, "t", queue)] == [
                    b"%d" % number for number in range(queue, 40, 4)
                ]
        assert a.promote()
        reply = await client.send("t", b"last", 0)
        assert (reply.code, reply.fields["queueOffset"]) == (0, "10")
