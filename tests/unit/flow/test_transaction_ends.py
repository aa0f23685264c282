"""Ends of transactions that cannot be done at once: producers send them one-way, so none is lost.

The test is the control thread here: it has the requests that the reactor hands over, and decides
when they come back.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.page_cache import drop_page_cache
from support.shard import MIB, REQUEST, Shard, bodies, pull, request, send

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02"
SMALL = {"segment_bytes": 16 * MIB, "ring_bytes": 4 * MIB, "record_max_bytes": MIB}


Make = Callable[..., Shard]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes shards on the same store, one after the other."""
    with ExitStack() as stack:

        def shard(started: bool = True, **options: Any) -> Shard:
            made = stack.enter_context(Shard(tmp_path, **{**SMALL, **options}))
            for topic in ("t", HALF, OP):
                made.topic(topic)
            made.group("g", "t")
            if started:
                made.core.start_transactions(0, 1)
            return made

        yield shard


def place(fields: dict[str, str]) -> tuple[int, int]:
    """(offset in the half queue, log offset) of a half message, from the answer to its send."""
    return int(fields["queueOffset"]), int(fields["msgId"][-16:], 16)


def send_half(shard: Shard, body: bytes = b"order") -> tuple[int, int]:
    client = shard.clients[0] if shard.clients else shard.connect()
    reply = client.ask(send("t", body, i=MARKS, f=4))
    assert reply.code == 0, reply.remark
    return place(reply.fields)


def end(half: tuple[int, int], decision: int = 8, one_way: bool = True, opaque: int = 1) -> bytes:
    return request(
        37, opaque, one_way=one_way, producerGroup="P", tranStateTableOffset=half[0],
        commitLogOffset=half[1], commitOrRollback=decision, fromTransactionCheck=False, msgId="U",
    )  # fmt: skip


def committed(shard: Shard) -> list[bytes]:
    return bodies(shard.connect().ask(pull("g", "t")))


@pytest.fixture
def forgotten(make: Make, tmp_path: Path) -> tuple[Shard, tuple[int, int]]:
    """A shard with an open half message that is in no memory, and its place."""
    first = make()
    half = send_half(first)
    client = first.connect()
    for _ in range(60):
        first.until(lambda _: client.ask(send("t", bytes(MIB // 2))).code == 0)
    first.stop()
    drop_page_cache(tmp_path)
    second = make()
    second.topic("t2")
    return second, half


def ended(shard: Shard) -> None:
    shard.until(lambda counters: counters["transactions_committed"] == 1)


def test_a_half_record_given_back_with_its_end_needs_no_page_cache(
    forgotten: tuple[Shard, tuple[int, int]], tmp_path: Path
) -> None:
    shard, half = forgotten
    shard.connect().put(end(half))
    ((number, frame),) = shard.reports(REQUEST)
    record = shard.core.read_record(half[1])
    assert record is not None
    drop_page_cache(tmp_path)
    shard.core.resubmit(number, frame, record)
    ended(shard)
    assert shard.core.stats()["postponed"] == 0
    assert shard.core.open_halves(0, 9)[2] == []


def test_a_half_record_that_leaves_memory_again_is_waited_for(
    forgotten: tuple[Shard, tuple[int, int]], tmp_path: Path
) -> None:
    """Control's own reading may have been in vain: the end is kept until the record is there."""
    shard, half = forgotten
    client = shard.connect()
    client.put(end(half))
    ((number, frame),) = shard.reports(REQUEST)
    drop_page_cache(tmp_path)
    shard.core.resubmit(number, frame)
    shard.until(lambda counters: counters["postponed"] == 1)
    client.put(send("t2", b"behind it", 9))
    assert client.is_silent()  # what comes behind waits in the socket
    assert shard.core.stats()["transactions_committed"] == 0
    assert shard.core.read_record(half[1]) is not None
    ended(shard)
    assert client.reply().opaque == 9
    counters = shard.core.stats()
    assert (counters["postponed_dropped"], counters["unread_postponed"]) == (0, 0)


@pytest.mark.parametrize("given", [b"x" * 300, bytes(300), b""])
def test_what_is_no_such_record_is_not_taken_for_one(
    forgotten: tuple[Shard, tuple[int, int]], tmp_path: Path, given: bytes
) -> None:
    shard, half = forgotten
    shard.connect().put(end(half, one_way=False))
    ((number, frame),) = shard.reports(REQUEST)
    drop_page_cache(tmp_path)
    shard.core.resubmit(number, frame, given)
    assert shard.clients[-1].reply().code == 2
    assert shard.core.open_halves(0, 9)[2] == [0]


def test_the_end_of_a_client_that_is_gone_counts(
    forgotten: tuple[Shard, tuple[int, int]],
) -> None:
    shard, half = forgotten
    shard.connect().put(end(half))
    ((number, frame),) = shard.reports(REQUEST)
    shard.clients[-1].close()
    shard.until(lambda counters: counters["connections"] == 0)
    shard.core.resubmit(number, frame, shard.core.read_record(half[1]) or b"")
    ended(shard)


def test_ends_that_come_before_the_transactions_are_loaded_wait(make: Make) -> None:
    first = make()
    halves = [send_half(first, b"%d" % n) for n in range(300)]
    first.stop()
    second = make(started=False)
    producer, other = second.connect(), second.connect()
    producer.put(*map(end, halves), send("t", b"answered all the same", 5))
    second.until(lambda counters: counters["postponed"] == 300)
    assert second.core.stats()["unread_postponed"] == 1
    assert producer.reply().opaque == 5  # it came with them
    producer.put(send("t", b"x", 6))
    assert producer.is_silent()
    assert other.ask(send("t", b"x", 1)).code == 0
    other.put(end((300, 1)))
    other.reset()
    second.core.start_transactions(0, 1)
    second.until(lambda counters: counters["transactions_committed"] == 300)
    assert producer.reply().opaque == 6
    counters = second.core.stats()
    assert (counters["postponed_dropped"], counters["unread_postponed"]) == (0, 0)
    assert second.core.open_halves(0, 9)[0] == 300


def test_an_end_that_is_not_done_in_time_is_dropped_and_so_are_the_next_at_once(
    make: Make,
) -> None:
    first = make()
    half = send_half(first)
    first.stop()
    shard = make(started=False)
    client = shard.connect()
    client.put(end(half))
    shard.until(lambda counters: counters["unread_postponed"] == 1)
    assert client.ask(pull("g", "t", opaque=3)).opaque == 3  # when the 3 s are over
    assert shard.core.stats()["postponed_dropped"] == 1
    client.put(end(half))
    assert client.ask(pull("g", "t", opaque=4)).opaque == 4
    counters = shard.core.stats()
    assert (counters["postponed"], counters["postponed_dropped"]) == (1, 2)
    shard.core.start_transactions(0, 1)
    assert shard.core.open_halves(0, 9)[2] == [0]
    assert client.ask(end(half, one_way=False)).code == 0


def test_while_the_broker_takes_nothing_an_end_holds_nobody_up(make: Make) -> None:
    shard = make()
    half = send_half(shard)
    shard.core.set_writable(0, b"the disk is full")
    client = shard.connect()
    client.put(end(half))
    assert client.ask(pull("g", "t", opaque=3)).opaque == 3
    assert shard.core.stats()["postponed"] == 0
    assert shard.core.open_halves(0, 9)[2] == [0]


def test_more_ends_in_a_turn_than_the_ring_holds_all_count(make: Make) -> None:
    """What they look at in the ring must not keep the ring from going on."""
    shard = make(segment_bytes=64 * MIB)
    client = shard.connect()
    replies = []
    for _ in range(4):
        client.put(*[send("t", bytes(16_000), n, i=MARKS, f=4) for n in range(100)])
        replies += list(client.replies(100).values())
    assert {reply.code for reply in replies} == {0}
    halves = sorted(place(reply.fields) for reply in replies)[-100:]
    client.put(b"".join(end(half) for half in halves))
    shard.until(lambda counters: counters["transactions_committed"] == 100)
    assert shard.core.stats()["ring_full"] == 0


@pytest.mark.parametrize("decision", [8, 12])
def test_an_end_that_was_on_its_way_counts_for_the_copy_made_for_a_check(
    make: Make, decision: int
) -> None:
    shard = make()
    halves = [send_half(shard)]
    for _ in range(3):  # checked three times, each time stored anew
        halves.append(send_half(shard))
        assert shard.core.move_half(*halves[-2], *halves[-1])
    client = shard.connect()
    assert client.ask(end((0, halves[1][1]), decision, one_way=False)).code == 1  # no such pair
    assert shard.core.open_halves(0, 9)[2] == [3]
    assert client.ask(end(halves[0], decision, one_way=False)).code == 0
    assert shard.core.open_halves(0, 9)[2] == []
    for half in halves:  # once only
        assert client.ask(end(half, 8, one_way=False)).code == 0
    counters = shard.core.stats()
    names = ("transactions_committed", "transactions_rolled_back", "transactions_repeated")
    done = (1, 0) if decision == 8 else (0, 1)
    assert tuple(counters[name] for name in names) == (*done, 4)
    if decision == 8:
        assert committed(shard) == [b"order"]


def test_a_half_message_that_was_ended_before_it_moved_has_no_copy(make: Make) -> None:
    shard = make()
    half = send_half(shard)
    client = shard.connect()
    assert client.ask(end(half, one_way=False)).code == 0
    copy = send_half(shard)
    assert not shard.core.move_half(*half, *copy)
    assert shard.core.open_halves(0, 9)[2] == []
    for each in (half, copy):
        assert client.ask(end(each, one_way=False)).code == 0
    assert committed(shard) == [b"order"]
