"""A slave's log is cut back: its store is then like one that never had the rest.

The master is a whole broker that has sent, delayed, timed, committed, popped and acknowledged. One
slave is fed the whole log and is cut; another one is fed only what is before the cut.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.fed_slaves import (
    FedSlave,
    fed_slave,
    log_of,
    queues_of,
    records_of,
)
from support.live_broker import live_broker, open_core, records
from support.name_server import in_loop
from support.popping import ACK, ack, ack_fields, now_ms, pop
from support.shard import Shard, send
from support.volume import seeds, volume
from support.waiting import pass_seconds, until

from cext.store.truncation import begin_truncation, wanted_truncation
from rmq.broker.replication.epoch_file import EpochFile, epoch_path
from rmq.broker.replication.epochs import Epochs
from rmq.broker.replication.lost_end import LostEnd, lost_end_path
from rmq.broker.tasks.truncation import summary_of
from rmq.errors import StoreCorruptError, StoreError
from rmq.format import fastjson
from rmq.format.message import decode_messages, encode_properties
from rmq.names import TRANSACTION_GROUP
from rmq.node.slave_start import follow
from rmq.node.truncation import truncate_core

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
SETTINGS = {
    "messageDelayLevel": "1s 1h", "transactionCheckInterval": 200, "transactionTimeOut": 600_000,
}  # fmt: skip
KEYS = [b"k%d" % number for number in range(12)]


async def a_round(client: BrokerClient, number: int) -> None:
    """Does one of everything that makes records. What is delayed waits for half an hour and
    more."""
    for at in range(8):
        marks = encode_properties({"KEYS": f"k{at + number % 5}", "TAGS": f"tag{at % 3}"}).decode()
        assert (await client.send("t", b"%d.%d" % (number, at), at % 4, i=marks)).code == 0
    assert (await client.send("t", b"delayed %d" % number, 0, i="DELAY\x012\x02")).code == 0
    timed = {"TIMER_DELAY_MS": str(1_800_000 + 1000 * number), "UNIQ_KEY": f"T{number}"}
    assert (
        await client.send("t", b"timed %d" % number, 1, i=encode_properties(timed).decode())
    ).code == 0
    marks = f"TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U{number}\x02"
    half = await client.send("t", b"half %d" % number, 2, i=marks, f=4, g=now_ms())
    assert half.code == 0
    if number % 3:
        end = {
            "producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": int(half.fields["msgId"][-16:], 16),
            "commitOrRollback": 8 if number % 3 == 1 else 12, "fromTransactionCheck": False,
            "msgId": f"U{number}",
        }  # fmt: skip
        assert (await client.call(37, **end)).code == 0
    some = await pop(client, "g", "t", queueId=number % 4, maxMsgNums=3, invisibleTime=1_800_000)
    await ack(client, "g", *some[::2])


@pytest.fixture
def master(tmp_path: Path, clock: DrivenClock) -> tuple[Path, bytes]:
    """The store of a master, closed, and its log. Half of what had to be delivered is delivered."""
    top = tmp_path / "master"

    @in_loop
    async def run() -> None:
        async with live_broker(top, **SETTINGS) as broker:
            async with BrokerClient(broker.core.port) as client:
                for number in range(6):
                    await a_round(client, number)
            clock.advance(4000)
            waiting = {b"%s %d" % (kind, n) for kind in (b"delayed", b"timed") for n in range(6)}
            await until(
                lambda: waiting <= {m.body for q in (0, 1) for m in records(broker, "t", q)}
            )
            async with BrokerClient(broker.core.port) as client:
                for number in range(6, 12):
                    await a_round(client, number)
            await broker.offsets.save()

    run()
    # The log also has what came while the broker was stopped: deliveries and check backs.
    log = log_of(top, 1 << 40)
    return top, log[: records_of(log)[-1]]


def test_what_is_behind_damage_is_in_the_summary_of_a_cut(master: tuple[Path, bytes]) -> None:
    """The record of a plain message is damaged; the summary has everything that was delivered after
    it."""
    store, log = master
    settings, core = open_core(store, **SETTINGS)
    starts, commit_log = records_of(log), store / "commitlog"

    def summary() -> dict[str, Any]:
        return asdict(summary_of(core, starts[0], settings.mappedFileSizeCommitLog, commit_log))

    whole = summary()
    with (commit_log / f"{0:020}").open("r+b") as file:
        file.seek(starts[3] + 8)  # behind the record's size and magic
        file.write(bytes(starts[4] - starts[3] - 8))
    assert core.read_record(starts[3]) is None
    assert summary() == {**whole, "records": whole["records"] - 1}
    assert whole["popped"] and whole["due_ms"] < 1 << 62 and whole["records"] == len(starts) - 1
    core.stop()


async def found_by_keys(client: BrokerClient) -> list[list[int]]:
    """Log offsets of the messages with each key."""
    out = []
    for key in KEYS:
        reply = await client.call(
            12, topic="t", key=key.decode(), maxNum=64, beginTimestamp=0, endTimestamp=1 << 60
        )
        found = decode_messages(reply.body) if reply.code == 0 else ()
        out.append(sorted(message.physical_offset for message in found))
    return out


async def seen(one: FedSlave) -> dict[str, Any]:
    """Everything that a slave knows of the log."""
    core = one.core
    async with BrokerClient(core.port) as client:
        return {
            "end": core.log_range()[1],
            "queues": {name: core.queue_range(*name) for name in sorted(core.queue_names())
                       if any(core.queue_range(*name) or ())},
            "halves": core.open_halves(0, 1000)[2],
            "keys": await found_by_keys(client),
        }  # fmt: skip


async def until_delivered(one: FedSlave, clock: DrivenClock, waited: set[bytes]) -> None:
    """Waits until topic t has everything that waited for its time."""
    assert one.core.promote()
    clock.advance(7200)
    await until(lambda: waited <= {
        each.body for queue in range(4) for each in records(one.broker, "t", queue)
    })  # fmt: skip


@pytest.mark.parametrize("seed", seeds(volume(2, 4)))
@in_loop
async def test_a_log_that_was_cut_is_one_that_never_had_the_rest(
    tmp_path: Path, master: tuple[Path, bytes], clock: DrivenClock, seed: int
) -> None:
    store, log = master
    cut = random.Random(seed).choice(records_of(log)[1:-1])
    whole = await fed_slave(tmp_path / "whole", store, **SETTINGS)
    short = await fed_slave(tmp_path / "short", store, **SETTINGS)
    await whole.feed(log)
    await pass_seconds(whole.core, 2)  # timers are taken in, keys indexed
    await short.feed(log[:cut])
    async with BrokerClient(whole.core.port) as client:
        await found_by_keys(client)
        await whole.truncate(cut)
        with pytest.raises((ConnectionError, AssertionError, TimeoutError)):
            await client.reply_or_end(client.post(12, topic="t", key="k", maxNum=1,
                                                  beginTimestamp=0, endTimestamp=1), 5)  # fmt: skip
    assert whole.core.report["truncated_to"] == cut
    assert not (tmp_path / "whole" / "truncation").exists()
    assert await seen(whole) == await seen(short)

    other = await another_tail(tmp_path / "other", store, log[:cut])
    for one in (whole, short):
        await one.feed(other, cut)
    assert await seen(whole) == await seen(short)
    await whole.stop()
    await short.stop()
    assert plain_queues(tmp_path / "whole") == plain_queues(tmp_path / "short")
    assert log_of(tmp_path / "whole", len(other)) == other
    rest = log_of(tmp_path / "whole", 16 << 20)[len(other) :]
    assert not rest.strip(b"\0"), "bytes of what was cut are left in the log"


def plain_queues(store: Path) -> dict[str, bytes]:
    """The bytes of the queue files. The tag code of a timed message is left out: it is the due time
    when the message is stored, and 0 when a start dispatches it."""
    found = queues_of(store)
    for name in [name for name in found if name.startswith("rmq_sys_wheel_timer/")]:
        entries = bytearray(found[name])
        for at in range(12, 20):  # the tag code in an entry of 20 bytes
            entries[at::20] = bytes(len(entries[at::20]))
        found[name] = bytes(entries)
    return found


async def another_tail(directory: Path, master: Path, log: bytes) -> bytes:
    """The log as it becomes under another master."""
    one = await fed_slave(directory, master, **SETTINGS)
    await one.feed(log)
    assert one.core.promote()
    async with BrokerClient(one.core.port) as client:
        for number in range(20, 23):
            await a_round(client, number)
    end = one.core.log_range()[1]
    await one.stop()
    return log_of(directory, end)


@pytest.mark.parametrize("seed", seeds(volume(2, 3)))
@in_loop
async def test_nothing_that_is_left_is_lost(
    tmp_path: Path, master: tuple[Path, bytes], clock: DrivenClock, seed: int
) -> None:
    """The log of the master itself is cut, although its files say that everything is delivered and
    acknowledged."""
    store, log = master
    first_ack = log.index(b'"ao":')
    behind = [start for start in records_of(log)[1:-1] if start > first_ack]
    cut = random.Random(seed + 40).choice(behind)
    one = await fed_slave(store, **SETTINGS)
    await one.truncate(cut)
    halves = one.core.open_halves(0, 1000)[2]
    stored = [(m.topic, m.body, m.properties) for m in decode_messages(log[:cut])]
    for queue in range(4):
        end = one.core.queue_range(b"t", queue)[1]
        assert one.core.query_offset(b"g", b"t", queue) <= end
    count = sum(topic == HALF for topic, _, _ in stored)
    assert one.core.query_offset(TRANSACTION_GROUP.encode(), HALF.encode(), 0) <= count
    waited = {
        body for topic, body, properties in stored
        if topic in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
        and properties.get("REAL_TOPIC") == "t" and "TIMER_DEL_UNIQKEY" not in properties
    }  # fmt: skip
    await until_delivered(one, clock, waited)
    ended = {
        int(text) for topic, body, _ in stored if topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC"
        for text in body.decode().split(",") if text
    }  # fmt: skip
    assert halves == sorted(set(range(count)) - ended)
    wanted = unacknowledged(log[:cut])
    async with BrokerClient(one.core.port) as client:
        got: set[bytes] = set()
        for _ in range(30):
            if wanted <= got:
                break
            await pass_seconds(one.core, 5)
            got |= {each.body for each in await pop(client, "g", "t")}
        assert sorted(wanted - got) == []
    await one.stop()


@pytest.mark.parametrize("left", [0, 2])
@in_loop
async def test_late_acks_of_what_was_cut_pass_over_nothing(tmp_path: Path, left: int) -> None:
    """Of a batch popped in order, `left` messages remain after the cut."""
    async with live_broker(tmp_path, **SETTINGS) as broker:
        async with BrokerClient(broker.core.port) as client:
            for number in range(5):
                assert (await client.send("t", b"old %d" % number)).code == 0
            held = await pop(client, "g", "t", queueId=0, order=True)
        log = log_of(tmp_path, broker.core.log_range()[1])
    one = await fed_slave(tmp_path, **SETTINGS)
    await one.truncate(records_of(log)[left])
    assert one.core.promote()
    async with BrokerClient(one.core.port) as client:
        for number in range(left, 5):
            assert (await client.send("t", b"new %d" % number)).code == 0
        for late in reversed(held):
            await client.call(ACK, **ack_fields("g", late))
        assert max(one.core.query_offset(b"g", b"t", 0), 0) == left
        again = await pop(client, "g", "t", queueId=0, order=True)
        assert [message.body for message in again] == [b"new %d" % n for n in range(left, 5)]
        await ack(client, "g", *again)
        assert one.core.query_offset(b"g", b"t", 0) == 5
    await one.stop()


@in_loop
async def test_what_changed_since_the_start_is_as_it_was(tmp_path: Path) -> None:
    """A topic that was deleted does not come back with its older messages when it is made again,
    and a changed setting is kept."""
    one = await fed_slave(tmp_path, **SETTINGS)
    assert one.core.promote()
    async with BrokerClient(one.core.port) as client:
        for number in range(3):
            assert (await client.send("x", b"old %d" % number)).code == 0
        assert (await client.call(215, topic="x")).code == 0  # deleteTopicInBroker
        for number in range(3):
            assert (await client.send("t", b"%d" % number)).code == 0
        assert (await client.call(25, b"timerMaxDelaySec=60\n")).code == 0  # updateBrokerConfig
    log = log_of(tmp_path, one.core.log_range()[1])
    assert one.core.demote()
    await one.truncate(records_of(log)[-2])
    assert (b"x", 0) not in one.core.queue_names()
    assert one.core.promote()
    async with BrokerClient(one.core.port) as client:
        assert (await client.send("x", b"new")).fields["queueOffset"] == "0"
        late = encode_properties({"TIMER_DELAY_MS": "90000"}).decode()
        assert (await client.send("t", b"late", i=late)).code != 0
    await one.stop()


def unacknowledged(log: bytes) -> set[bytes]:
    """Bodies of the messages of topic t that no ack of group g in the log names, in topic t or in
    the retry topic."""
    found: dict[tuple[str, int, int], bytes] = {}
    acked = set()
    for message in decode_messages(log):
        if message.topic == "t" or message.topic.startswith("%RETRY%"):
            found[message.topic, message.queue_id, message.queue_offset] = message.body
        elif b'"ao":' in message.body:
            said = fastjson.loads(message.body)
            offsets = said["aol"] if said["ao"] < 0 else [said["ao"]]
            acked |= {found[said["t"], said["q"], offset] for offset in offsets}
    assert acked
    return set(found.values()) - acked


@in_loop
async def test_where_a_log_is_not_cut(tmp_path: Path, master: tuple[Path, bytes]) -> None:
    store, log = master
    starts = records_of(log)
    one = await fed_slave(tmp_path / "one", store, **SETTINGS)
    await one.feed(log)
    core = one.core
    for wrong in (starts[3] + 1, starts[3] - 1, starts[-1] - 4):
        with pytest.raises(StoreError, match="no record starts there"):
            await one.truncate(wrong)
    for wrong in (-1, starts[-1] + 1):
        with pytest.raises(StoreError, match=f"ends at {starts[-1]}"):
            await one.truncate(wrong)
    core.set_visible(starts[7])
    with pytest.raises(StoreError, match=f"below {starts[7]} everything is confirmed"):
        await one.truncate(starts[6])
    core.set_replicated(starts[9])
    with pytest.raises(StoreError, match=f"below {starts[9]} everything is confirmed"):
        await one.truncate(starts[8])
    assert not (tmp_path / "one" / "truncation").exists()
    await one.truncate(starts[9])
    assert core.log_range()[1] == starts[9]
    assert core.promote()
    with pytest.raises(StoreError, match="log of a master is not cut"):
        await one.truncate(starts[9])
    async with BrokerClient(core.port) as client:
        assert (await client.send("t", b"goes on")).code == 0
    await one.stop()


def test_a_record_inside_a_body_is_no_boundary(tmp_path: Path) -> None:
    """The body of the message is a record with exactly the body's offset."""
    with Shard(tmp_path) as shard:
        shard.topic("t")
        client = shard.connect()
        assert client.ask(send("t", b"one")).code == 0
        end = shard.core.log_range()[1]
        record = shard.core.read_record(0)
        assert record is not None
        body_at = end + 88  # behind the fields of fixed length, with hosts of 8 bytes
        inner = record[:28] + body_at.to_bytes(8, "big") + record[36:]
        assert client.ask(send("t", inner)).code == 0
        assert shard.core.read_record(body_at) == inner
        assert shard.core.demote()
        with pytest.raises(StoreError, match="no record starts there"):
            shard.core.check_truncation(body_at)
        shard.core.check_truncation(end)


@in_loop
async def test_several_segments_go_and_the_log_goes_on(tmp_path: Path) -> None:
    settings = {"mappedFileSizeCommitLog": 1 << 20, "maxMessageSize": 65536}
    async with live_broker(tmp_path / "master", **settings) as broker:
        async with BrokerClient(broker.core.port) as client:
            for number in range(80):
                assert (await client.send("t", b"%d" % number * 20_000, number % 4)).code == 0
        end = broker.core.log_range()[1]
        log = log_of(tmp_path / "master", end)
        some = [m.physical_offset for q in range(4) for m in records(broker, "t", q)]
    one = await fed_slave(tmp_path / "one", tmp_path / "master", **settings)
    await one.feed(log)
    for cut in [*sorted(random.Random(1).sample(some, 3), reverse=True), 1 << 20]:
        await one.truncate(cut)
        assert one.core.log_range()[1] == cut
        files = sorted(int(file.name) for file in (tmp_path / "one" / "commitlog").iterdir()
                       if file.name.isdigit())  # fmt: skip
        assert files[-1] <= cut + (1 << 20)
        await one.feed(log, cut)
    await one.stop()
    assert queues_of(tmp_path / "one") == queues_of(tmp_path / "master")
    assert log_of(tmp_path / "one", end) == log


def test_a_start_wants_the_end_of_a_truncation(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        client = shard.connect()
        ends = []
        for number in range(3):
            assert client.ask(send("t", b"%d" % number)).code == 0
            ends.append(shard.core.log_range()[1])
    root = tmp_path / "store"
    begin_truncation(root, ends[1], b"note", (0, 0))
    shard = Shard(tmp_path)
    shard.core.open()
    assert shard.core.report["truncated_to"] == ends[1] == shard.core.report["log_end"]
    assert shard.core.truncation == b"note"
    assert shard.core.queue_ends() == {(b"t", 0): 2}
    with pytest.raises(StoreError, match=r"finish_truncation\(\)"):
        shard.core.start()
    shard.core.finish_truncation()
    assert shard.core.truncation is None
    assert wanted_truncation(root) is None
    shard.core.start()
    shard.topic("t")
    client = shard.connect()
    assert client.ask(send("t")).fields["queueOffset"] == "2"
    client.close()
    shard.stop()


@pytest.mark.parametrize("has_lost", [False, True])
def test_an_epoch_that_was_cut_for_a_master_is_none_that_the_log_has_lost(
    tmp_path: Path, master: tuple[Path, bytes], has_lost: bool
) -> None:
    """The replica led epoch 5 for a moment, and the next master lacks the log before it. If the
    epoch stayed in the file, the replica's next start would report that its log once had more, and
    it would be elected only after all others."""
    store, log = master
    starts = records_of(log)
    controller = {"enableControllerMode": True, "controllerAddr": "127.0.0.1:1"}
    settings, core = open_core(store, **SETTINGS, **controller)
    file = EpochFile(epoch_path(settings))
    file.write(Epochs.of([(1, 0), (5, starts[-2])]))
    if has_lost:
        LostEnd(lost_end_path(settings)).note("a new disk is under the log")
    follow(core, settings)
    truncate_core(core, settings, starts[4])
    assert core.log_range()[1] == starts[4]
    assert file.read().last_epoch == (5 if has_lost else 1)
    core.stop()


@pytest.mark.parametrize("garbled", [b"", b"rmqX", bytes(64)])
def test_a_damaged_marker_stops_the_start(tmp_path: Path, garbled: bytes) -> None:
    with Shard(tmp_path):
        pass
    (tmp_path / "store" / "truncation").write_bytes(garbled)
    shard = Shard(tmp_path)
    with pytest.raises(StoreCorruptError, match="it is not known where"):
        shard.core.open()


def test_the_note_is_json(tmp_path: Path) -> None:
    """Anybody who looks at DIR/truncation can read it."""
    begin_truncation(tmp_path, 5, fastjson.dumps({"offset": 5}), (7, 8))
    found = wanted_truncation(tmp_path)
    assert found is not None
    assert (found.offset, found.timers) == (5, (7, 8))
    assert fastjson.loads(found.note) == {"offset": 5}
