"""What one turn has no room for waits in its place, and nobody is answered in the middle of a turn.

Turns are made small (DrivenCore.set_turn_records). If the order of steps matters, a test makes them
itself (DrivenShard).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from cext.testing.driven_core import DrivenCore
from support.driven_shard import DrivenShard
from support.live_broker import records, served
from support.name_server import in_loop
from support.popping import POP, pop_fields
from support.shard import (
    MIB,
    REQUEST,
    Shard,
    bodies,
    pull,
    request,
    send,
    send_batch,
)
from support.waiting import pass_seconds, until

from rmq.format.remoting import Command

SYSTEM_BUSY = 2
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


class SmallTurns(Shard):
    """A shard whose reactor makes small turns."""

    def __init__(self, directory: Path, records: int, **options: Any) -> None:
        super().__init__(directory, **options)
        self.records = records

    def __enter__(self) -> SmallTurns:
        self.core.open()
        DrivenCore.set_turn_records(self.core, self.records)
        self.core.start()
        self.topic("t")
        self.group("g", "t")
        return self


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[DrivenShard]:
    with DrivenShard(tmp_path, 8) as shard:
        yield shard


def offsets(replies: list[Command]) -> list[int]:
    assert {reply.code for reply in replies} == {0}
    return [int(reply.fields["queueOffset"]) for reply in replies]


def sends(count: int, first: int = 0, body: bytes = b"", **fields: Any) -> list[bytes]:
    return [send("t", body or b"%d" % n, n, **fields) for n in range(first, first + count)]


# ------------------------------------------------------------------- nobody else is answered


def test_who_finds_no_room_waits_and_answers_nobody(driven: DrivenShard) -> None:
    """Three clients with six sends each, eight to a turn: no send is answered in the turn that
    receives it."""
    clients = [driven.connect() for _ in range(3)]
    for client in clients:
        client.put(*sends(6))
    seen = []
    while True:
        appended, answered, full = driven.driven.receive()
        seen.append(appended)
        assert answered == 0
        if not full:
            break
        assert appended == 8
        # Sends without room find none once more; then everything is written and answered.
        driven.driven.turn()
        assert len(seen) < 10
    assert seen == [8, 8, 2]
    found = [offsets(driven.replies(client, 6)) for client in clients]
    assert all(each == sorted(each) for each in found)
    assert sorted(chain.from_iterable(found)) == list(range(18))


def test_sends_of_a_client_keep_their_order_over_turns(driven: DrivenShard) -> None:
    client = driven.connect()
    client.put(*sends(50))
    replies = driven.replies(client, 50)
    assert [reply.opaque for reply in replies] == list(range(50))
    assert offsets(replies) == list(range(50))


def test_one_way_sends_keep_their_place_too(driven: DrivenShard) -> None:
    client = driven.connect()
    frames = sends(40, one_way=True)
    frames[30:30] = sends(1, 100)
    client.put(*frames, *sends(1, 101))
    assert offsets(driven.replies(client, 2)) == [30, 41]
    assert driven.core.stats()["postponed"] == 0


def test_others_are_served_while_a_client_fills_every_turn(driven: DrivenShard) -> None:
    greedy, modest = driven.connect(), driven.connect()
    frames = sends(2000, body=bytes(100))
    greedy.put(*frames)
    driven.driven.turn()
    modest.put(*sends(1, 7))
    (reply,) = driven.replies(modest, 1)
    # Only what one receive brought from the greedy client, and its first send, come before this.
    assert int(reply.fields["queueOffset"]) <= (262_144 + 32_768) // len(frames[0]) < 1500
    assert offsets(driven.replies(greedy, 2000))[-1] == 2000


# ------------------------------------------------------------------- the largest requests


def test_a_batch_is_in_one_turn_or_waits_whole(driven: DrivenShard) -> None:
    client = driven.connect()
    client.put(*sends(6), send_batch("t", [b"a"] * 5, 50), *sends(1, 51))
    appended, answered, full = driven.driven.receive()
    assert (appended, answered, full) == (6, 0, True)
    replies = driven.replies(client, 8)
    assert offsets(replies) == [0, 1, 2, 3, 4, 5, 6, 11]
    assert [reply.opaque for reply in replies[6:]] == [50, 51]


def test_what_no_turn_has_room_for_is_refused_and_stops_nobody(driven: DrivenShard) -> None:
    client = driven.connect()
    client.put(*sends(3), send_batch("t", [b"a"] * 9, 50), *sends(20, 51))
    replies = driven.replies(client, 24)
    assert (replies[3].opaque, replies[3].code) == (50, SYSTEM_BUSY)
    assert offsets(replies[:3] + replies[4:]) == list(range(23))
    assert driven.core.stats()["ring_full"] == 1


def test_an_empty_turn_has_room_for_the_largest_batch(tmp_path: Path) -> None:
    """DISPATCH_MAX messages in a batch, after others with which the turn would be too full."""
    most = 16384
    with Shard(tmp_path) as shard:
        shard.topic("t")
        client = shard.connect()
        client.put(*sends(10), send_batch("t", [b""] * most, 50), *sends(1, 51))
        replies = client.replies(12)
        assert offsets([replies[n] for n in (*range(10), 50, 51)]) == [*range(11), 10 + most]
        assert client.ask(send_batch("t", [b""] * (most + 1), 52)).code != 0


def test_an_empty_turn_has_room_for_the_largest_record(tmp_path: Path) -> None:
    """The ring is the smallest one, and a message that comes back looks at half of it."""
    with Shard(tmp_path, ring_bytes=MIB, record_max_bytes=MIB // 2 - 64,
               message_max_bytes=MIB // 2 - 34_000) as shard:  # fmt: skip
        shard.topic("t")
        shard.group("g", "t")
        client = shard.connect()
        body = bytes(MIB // 2 - 34_000)
        client.put(*(send("t", body, n) for n in range(12)))
        replies = client.replies(12)
        assert offsets([replies[n] for n in range(12)]) == list(range(12))
        assert shard.core.stats()["ring_full"] == 0


# ------------------------------------------------------------------- who comes from no connection


def test_what_control_gives_back_comes_next_though_connections_fill_every_turn(
    driven: DrivenShard,
) -> None:
    greedy, waiting = driven.connect(), driven.connect()
    waiting.put(send("later", b"x", 9), send("later", b"y", 10))
    driven.driven.turn()
    (first, second) = driven.reports(REQUEST, 2)
    driven.topic("later")
    greedy.put(*sends(64))
    assert driven.driven.receive() == (8, 0, True)
    driven.core.resubmit(*first)
    driven.core.resubmit(*second)
    replies = driven.replies(waiting, 2)
    assert [reply.opaque for reply in replies] == [9, 10]
    assert offsets(replies) == [0, 1]
    assert driven.core.queue_range(b"t", 0)[1] < 40
    assert offsets(driven.replies(greedy, 64)) == list(range(64))


# ------------------------------------------------------------------- a shard that runs


@pytest.mark.parametrize("sync_flush", [False, True])
def test_many_clients_and_small_turns(tmp_path: Path, sync_flush: bool) -> None:
    """No message is lost or overtaken, and no turn is made in vain."""
    with SmallTurns(tmp_path, 3, sync_flush=sync_flush) as shard:
        clients = [shard.connect() for _ in range(6)]
        for client in clients:
            client.put(*sends(100))
        found = []
        for client in clients:
            replies = [client.reply() for _ in range(100)]
            assert [reply.opaque for reply in replies] == list(range(100))
            found.append(offsets(replies))
            assert found[-1] == sorted(found[-1])
        assert sorted(chain.from_iterable(found)) == list(range(600))
        assert shard.core.stats()["turns"] < 600 // 3 + 1000


def test_a_stop_answers_what_was_received(driven: DrivenShard) -> None:
    client = driven.connect()
    frames = sends(60)
    client.put(*frames)
    assert driven.driven.receive() == (8, 0, True)
    driven.driven.drain()
    assert offsets(driven.replies(client, 60)) == list(range(60))
    assert driven.core.stats()["log_written"] == driven.core.stats()["log_appended"]


def test_what_is_stored_can_be_read_in_its_order(tmp_path: Path) -> None:
    with SmallTurns(tmp_path, 2) as shard:
        client = shard.connect()
        client.put(*sends(40))
        client.replies(40)
        got: list[bytes] = []
        while len(got) < 40:
            got += bodies(client.ask(pull("g", "t", len(got))))
        assert got == [b"%d" % n for n in range(40)]


# ------------------------------------------------------------------- transactions, timers, pops


def test_ends_of_transactions_keep_both_their_records_together(tmp_path: Path) -> None:
    """A commit appends two records, and a turn has room for three. Half of the ends are one-way."""
    with SmallTurns(tmp_path, 3) as shard:
        for topic in (HALF, OP):
            shard.topic(topic)
        shard.core.start_transactions(0, 1)
        client = shard.connect()
        client.put(*sends(40, i="TRAN_MSG\x01true\x02PGROUP\x01P\x02", f=4))
        halves = client.replies(40)
        client.put(*(end(n, halves[n], one_way=n % 2 == 1) for n in range(40)))
        assert {reply.code for reply in client.replies(20).values()} == {0}
        counters = shard.until(lambda stats: stats["transactions_committed"] == 40)
        assert (counters["transactions_repeated"], counters["postponed"]) == (0, 0)
        assert shard.core.queue_range(b"t", 0) == (0, 40)
        assert shard.core.open_halves(0, 99)[2] == []
        got = bodies(client.ask(pull("g", "t"))) + bodies(client.ask(pull("g", "t", 32)))
        assert got == [b"%d" % n for n in range(40)]


def end(opaque: int, half: Command, one_way: bool) -> bytes:
    return request(
        37, opaque, one_way=one_way, producerGroup="P", commitOrRollback=8, msgId="U",
        tranStateTableOffset=half.fields["queueOffset"], fromTransactionCheck=False,
        commitLogOffset=int(half.fields["msgId"][-16:], 16),
    )  # fmt: skip


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("properties", ["DELAY\x011\x02", "TIMER_DELAY_MS\x011000\x02"])
@in_loop
async def test_what_is_due_at_once_is_delivered_over_turns(tmp_path: Path, properties: str) -> None:
    async with served(tmp_path, messageDelayLevel="1s") as (broker, client):
        for number in range(30):
            assert (await client.send("t", b"%d" % number, i=properties)).code == 0
        DrivenCore.set_turn_records(broker.core, 4)
        await pass_seconds(broker.core, 1.5)
        await until(lambda: len(records(broker, "t")) == 30)
        assert sorted(int(record.body) for record in records(broker, "t")) == list(range(30))
        stats = broker.core.stats()
        assert (stats["delayed_dropped"], stats["ring_full"]) == (0, 0)


@pytest.mark.usefixtures("clock")
@in_loop
async def test_pops_and_their_acks_wait_for_the_next_turn(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        for number in range(40):
            assert (await client.send("t", b"%d" % number)).code == 0
        DrivenCore.set_turn_records(broker.core, 3)
        with client.in_one_write():
            posts = [client.post(POP, **pop_fields("g", "t", maxMsgNums=1)) for _ in range(40)]
        assert [(await client.reply(post)).code for post in posts] == [0] * 40
        stats = broker.core.stats()
        assert (stats["pop_messages"], stats["ring_full"]) == (40, 0)


def test_a_turn_answers_more_clients_than_there_are_reply_buffers(tmp_path: Path) -> None:
    with DrivenShard(tmp_path, 1000, reply_buffers=32, connections_max=200) as shard:
        clients = [shard.connect() for _ in range(60)]
        for number, client in enumerate(clients):
            client.put(send("t", b"x", number))
        shard.driven.turn()
        assert [client.reply().code for client in clients] == [0] * len(clients)
