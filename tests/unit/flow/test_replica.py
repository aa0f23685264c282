"""A second core is fed the bytes of a first core's log and is then the same broker: queues,
transactions, groups that pop. Then it takes the first one's place.

The first is a whole broker that has sent, delayed, timed, committed, popped and acknowledged. The
test carries the bytes itself, in pieces that the protocol would not choose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fed_slaves import log_of, pieces, queues_of
from support.live_broker import records, served
from support.name_server import in_loop
from support.popping import pop
from support.shard import EVENT, HELD_MS, MIB, Shard, bodies, pull, send
from support.waiting import until

from rmq.base import clock
from rmq.errors import StoreCorruptError, StoreError
from rmq.format.remoting import Command

pytestmark = pytest.mark.usefixtures("clock")  # waits end at once: the clock jumps ahead

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
SEGMENT_BYTES = 4 << 20
LEVELS = "1s 1h"
LEVELS_MS = [1000, 3_600_000]
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"
WAITS_MS = 600_000


async def work(broker: Any, client: Any) -> None:
    """Does everything that makes records, and returns when nothing more is due."""
    for number in range(200):
        tag = f"TAGS\x01tag{number % 3}\x02"
        assert (await client.send("t", b"%d" % number * 20, number % 4, i=tag)).code == 0
    for level in (1, 2):
        assert (await client.send("t", b"delayed", 0, i=f"DELAY\x01{level}\x02")).code == 0
    for wait_ms in (300, WAITS_MS):
        assert (await client.send("t", b"timed", 1, i=f"TIMER_DELAY_MS\x01{wait_ms}\x02")).code == 0
    due_ms = clock.now_ms() + WAITS_MS
    reply = await client.send("t", b"at", 1, i=f"TIMER_DELIVER_MS\x01{due_ms}\x02TAGS\x01x\x02")
    assert reply.code == 0
    halves = [await client.send("t", b"half", 1, i=MARKS) for _ in range(3)]
    for half, decision in zip(halves, (8, 12), strict=False):
        assert (await client.call(37, **end_of(half, decision))).code == 0
    assert len(await pop(client, "g", "t", maxMsgNums=8)) == 8
    await until(lambda: sum(m.body in (b"delayed", b"timed") for q in (0, 1)
                            for m in records(broker, "t", q)) == 2)  # fmt: skip


def end_of(half: Command, decision: int) -> dict[str, Any]:
    return {
        "producerGroup": "P", "tranStateTableOffset": half.fields["queueOffset"],
        "commitLogOffset": int(half.fields["msgId"][-16:], 16), "commitOrRollback": decision,
        "fromTransactionCheck": False, "msgId": "U",
    }  # fmt: skip


def feed(replica: Shard, data: bytes, seed: int, start: int = 0) -> None:
    end = start
    for got in pieces(data, seed):
        if got > end:
            end = replica.core.append_raw(end, data[end:got])
            assert end <= got
    assert end == len(data)
    replica.until(lambda stats: stats["log_dispatched"] == end)


def replica_of(directory: Path) -> Shard:
    (directory / "replica").mkdir()
    return Shard(directory / "replica", segment_bytes=SEGMENT_BYTES, queue_file_entries=30_000)


def be_replica(shard: Shard) -> None:
    assert shard.core.demote()
    shard.topic("t", 4, 4)
    shard.topic(HALF)
    shard.topic(OP)
    shard.group("g", "t")
    shard.core.set_delay_levels(LEVELS_MS, [0] * len(LEVELS_MS))
    shard.core.start_transactions(0, 1)


@pytest.mark.parametrize("seed", range(3))
@in_loop
async def test_a_replica_is_what_its_master_is(tmp_path: Path, seed: int) -> None:
    master = tmp_path / "master"
    async with served(master, messageDelayLevel=LEVELS) as (broker, client):
        await work(broker, client)
        offsets = [broker.core.query_offset(b"g", b"t", queue) for queue in range(4)]
        open_halves = broker.core.open_halves(0, 10)
        told = [m.body for m in records(broker, "t", 1)]
    log = log_of(master, broker.core.log_range()[1])
    with replica_of(tmp_path) as replica:
        be_replica(replica)
        feed(replica, log, seed)
        assert replica.core.open_halves(0, 10) == open_halves == (2, 3, [2])
        # If nothing was popped, no check point says where the group begins.
        popped = [replica.core.query_offset(b"g", b"t", queue) for queue in range(4)]
        assert [max(offset, 0) for offset in popped] == offsets and max(offsets) == 8
        consumer = replica.connect()
        assert bodies(consumer.ask(pull("g", "t", queue=1))) == told[:32]
        refused = consumer.ask(send("t"))
        assert refused.code == 14 and "a slave" in (refused.remark or "")
        replica.stop()
    assert queues_of(tmp_path / "replica" / "store") == queues_of(master)
    assert log_of(tmp_path / "replica" / "store", len(log)) == log


@in_loop
async def test_a_replica_takes_its_masters_place(tmp_path: Path) -> None:
    master = tmp_path / "master"
    async with served(master, messageDelayLevel=LEVELS) as (broker, client):
        await work(broker, client)
        ends = [broker.core.queue_range(b"t", queue)[1] for queue in range(4)]
    log = log_of(master, broker.core.log_range()[1])
    with replica_of(tmp_path) as replica:
        be_replica(replica)
        feed(replica, log, 9)
        producer, consumer = replica.connect(), replica.connect()
        consumer.put(pull("g", "t", offset=ends[2], queue=2, hold_ms=HELD_MS))
        replica.until(lambda stats: stats["pulls_waiting"] == 1)
        assert replica.core.promote()
        for queue in range(4):
            reply = producer.ask(send("t", b"new", queue=queue))
            assert (reply.code, reply.fields["queueOffset"]) == (0, str(ends[queue]))
        assert bodies(consumer.reply()) == [b"new"]
        with pytest.raises(StoreError, match="a master"):
            replica.core.append_raw(replica.core.log_range()[1], b"")


@in_loop
async def test_consumers_see_what_is_visible_and_no_more(tmp_path: Path) -> None:
    master = tmp_path / "master"
    async with served(master) as (broker, client):
        ends = []
        for number in range(3):
            await client.send("t", b"%d" % number, 1)
            ends.append(broker.core.log_range()[1])
    log = log_of(master, ends[-1])
    with replica_of(tmp_path) as replica:
        be_replica(replica)
        replica.core.set_visible(ends[0])
        assert replica.core.append_raw(0, log) == ends[-1]
        replica.until(lambda stats: stats["log_dispatched"] == ends[0])
        consumer = replica.connect()
        assert bodies(consumer.ask(pull("g", "t", queue=1))) == [b"0"]
        consumer.put(pull("g", "t", offset=1, queue=1, hold_ms=HELD_MS))
        replica.until(lambda stats: stats["pulls_waiting"] == 1)
        # Not the end of a record: the queue is visible up to the record before.
        replica.core.set_visible(ends[1] + 1)
        assert bodies(consumer.reply()) == [b"1"]
        assert replica.core.queue_range(b"t", 1) == (0, 2)
        assert replica.core.promote()
        assert replica.core.queue_range(b"t", 1) == (0, 3)


@in_loop
async def test_a_queue_is_there_before_its_topic_is(tmp_path: Path) -> None:
    """A slave asks an Apache master for its topics every 10 s; until then 0 was said to be the end
    of a queue. A replica that leads before it has asked is told which topics it lacks."""
    async with served(tmp_path / "master", mappedFileSizeCommitLog=SEGMENT_BYTES) as (_, client):
        for number in range(5):
            assert (await client.send("new", b"%d" % number, 1)).code == 0
        assert (await client.send("newer", b"x", 3)).code == 0
    with replica_of(tmp_path) as replica:
        assert replica.core.demote()
        feed(replica, log_of(tmp_path / "master", 1 << 40).rstrip(b"\0"), 0)
        assert replica.core.queue_range(b"new", 1) == (0, 5)
        snapshot = replica.core.queue_snapshot(b"new", 1)
        assert snapshot is not None and snapshot[:2] == (0, 5)
        assert replica.core.queue_range(b"new", 0) is None
        assert replica.core.queue_range(b"other" * 9999, 0) is None
        lone = sorted(replica.core.queues_without_topic())
        assert [each[:2] for each in lone] == [(b"new", 1), (b"newer", 3)]
        # The place of the last record of each queue.
        assert 0 < lone[0][2] < lone[1][2] < replica.core.log_range()[1]
        replica.topic("new", 4, 4)
        assert [each[:2] for each in replica.core.queues_without_topic()] == [(b"newer", 3)]
        replica.core.remove_topic(b"new")
        assert [each[:2] for each in replica.core.queues_without_topic()] == [(b"newer", 3)]


def test_a_topic_that_was_made_anew_begins_anew(tmp_path: Path) -> None:
    """The old queue used to stand in the way of the new topic's first messages, which were then in
    no queue of the replica. A deletion that is heard of late must not remove what came since."""
    (tmp_path / "master").mkdir()
    files = {"segment_bytes": SEGMENT_BYTES, "queue_file_entries": 30_000}
    with Shard(tmp_path / "master", **files) as master:
        master.topic("t", 4, 4)
        producer = master.connect()
        for number, queue in ((0, 0), (1, 1), (2, 1), (3, 1)):
            assert producer.ask(send("t", b"old%d" % number, queue=queue)).code == 0
        deleted_at = master.core.log_range()[1]
        master.core.remove_topic(b"t")
        master.topic("t", 4, 4)
        for number, queue in ((0, 1), (1, 1), (2, 2)):
            assert producer.ask(send("t", b"new%d" % number, queue=queue)).code == 0
        end = master.core.log_range()[1]
        master.stop()
    log = log_of(tmp_path / "master" / "store", end)
    with replica_of(tmp_path) as replica:
        be_replica(replica)
        feed(replica, log[:deleted_at], 0)
        consumer = replica.connect()
        consumer.put(pull("g", "t", offset=3, queue=1, hold_ms=HELD_MS))
        replica.until(lambda stats: stats["pulls_waiting"] == 1)
        feed(replica, log, 1, deleted_at)
        assert consumer.reply().code != 0, "its offset is none any more"
        assert bodies(consumer.ask(pull("g", "t", queue=1))) == [b"new0", b"new1"]
        assert replica.core.remove_topic(b"t", deleted_at) == deleted_at
        replica.topic("t", 4, 4)
        ranges = [replica.core.queue_range(b"t", queue) for queue in range(4)]
        assert ranges == [(0, 0), (0, 2), (0, 1), (0, 0)]
        assert bodies(consumer.ask(pull("g", "t", queue=1))) == [b"new0", b"new1"]
        replica.stop()
    kept = queues_of(tmp_path / "replica" / "store")
    assert kept == queues_of(tmp_path / "master" / "store") and len(kept) == 2


@in_loop
async def test_bytes_that_are_no_record_of_there_are_refused(tmp_path: Path) -> None:
    master = tmp_path / "master"
    async with served(master) as (broker, client):
        ends = []
        for number in range(2):
            await client.send("t", b"body%d" % number, 1)
            ends.append(broker.core.log_range()[1])
    log = log_of(master, ends[-1])
    with replica_of(tmp_path) as replica:
        be_replica(replica)
        for wrong in (1, ends[0], ends[1]):
            with pytest.raises(StoreCorruptError, match="ends at 0"):
                replica.core.append_raw(wrong, log[wrong:])
        torn = log.replace(b"body1", b"bodyX")
        with pytest.raises(StoreCorruptError, match=f"offset {ends[0]} of the log"):
            replica.core.append_raw(0, torn)
        assert replica.core.append_raw(ends[0], log[ends[0] :]) == ends[1]
        with pytest.raises(StoreCorruptError):
            replica.core.append_raw(ends[1], log)
        replica.until(lambda stats: stats["log_dispatched"] == ends[1])
        assert replica.core.queue_range(b"t", 1) == (0, 2)


@pytest.mark.parametrize("broken", ["size", "magic"])
def test_replay_passes_damage_and_says_so(tmp_path: Path, broken: str) -> None:
    """The first records have left the tail ring, and one of them is damaged on the disk before
    consumers may see it."""
    (tmp_path / "master").mkdir()
    body = bytes(60_000)
    files = {"segment_bytes": SEGMENT_BYTES, "queue_file_entries": 30_000}
    with Shard(tmp_path / "master", **files) as master:
        master.topic("t")
        producer = master.connect()
        starts = []
        for _ in range(250):
            starts.append(master.core.log_range()[1])
            assert producer.ask(send("t", body)).code == 0
        end = master.core.log_range()[1]
    log = log_of(tmp_path / "master" / "store", end)
    with replica_of(tmp_path) as replica:
        be_replica(replica)
        replica.core.set_visible(0)
        at = 0
        while at < end:
            at = replica.core.append_raw(at, log[at : at + MIB])
        # Everything is written to the file: bytes that come later would heal the damage.
        replica.until(lambda _: replica.core.log_range()[2] == end)
        first = tmp_path / "replica" / "store" / "commitlog" / f"{0:020d}"
        with first.open("r+b") as file:
            file.seek(starts[1] + (0 if broken == "size" else 4))
            file.write(b"\xff\xff\xff\xff")
        replica.core.set_visible(end)
        replica.until(lambda stats: stats["log_dispatched"] == end)
        line = f"damaged at offset {starts[1]}: {starts[2] - starts[1]} bytes are no record"
        ((_, event),) = replica.reports(EVENT)
        assert line in event.decode()
        assert replica.core.stats()["corrupt_records"] == 1
        assert replica.core.queue_range(b"t", 0) == (0, 250)
        consumer = replica.connect()
        found = consumer.ask(pull("g", "t", maxMsgNums=2))
        # The second entry is a blank.
        assert (bodies(found), found.fields["nextBeginOffset"]) == ([body, body], "3")
