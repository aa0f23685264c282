"""Ends of transactions that cannot be done at once: producers send them one-way, so none may be
lost.

The test acts as the control thread: it says when transactions are loaded, and sees what the reactor
hands over.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.page_cache import drop_page_cache
from support.shard import MIB, REQUEST, Shard, bodies, pull, request, send

from rmq.auth.packed_policies import packed_addresses
from rmq.auth.white_list import WhiteList
from rmq.format.message import decode_messages

pytestmark = pytest.mark.still_clock

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02"
# Every half message is old enough to be checked, and none is too old.
RULES = (1 << 50, 0, 15, 1 << 50, False)
SMALL = {"segment_bytes": 16 * MIB, "ring_bytes": 4 * MIB, "record_max_bytes": MIB}


Make = Callable[..., Shard]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes shards on the same store, one after the other."""
    with ExitStack() as stack:

        def shard(started: bool = True, **options: Any) -> Shard:
            made = stack.enter_context(Shard(tmp_path, **{**SMALL, **options}))
            for topic in ("t", "t2", HALF, OP):
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


def end(
    half: tuple[int, int], decision: int = 8, one_way: bool = True, opaque: int = 1, **fields: str
) -> bytes:
    return request(
        37, opaque, one_way=one_way, producerGroup="P", tranStateTableOffset=half[0],
        commitLogOffset=half[1], commitOrRollback=decision, fromTransactionCheck=False, msgId="U",
        **fields,
    )  # fmt: skip


def committed(shard: Shard) -> list[bytes]:
    return bodies(shard.connect().ask(pull("g", "t")))


def forgotten(make: Make, directory: Path, *bodies: bytes) -> tuple[Shard, list[tuple[int, int]]]:
    """A shard whose open half messages are no longer in memory, and their places."""
    first = make()
    halves = [send_half(first, body) for body in bodies]
    client = first.connect()
    for _ in range(60):
        first.until(lambda _: client.ask(send("t2", bytes(MIB // 2))).code == 0)
    first.stop()
    drop_page_cache(directory)
    return make(), halves


def ended(shard: Shard, count: int = 1) -> None:
    shard.until(lambda counters: counters["transactions_committed"] == count)


@pytest.mark.parametrize("size", [5, 9_000, 600_000])
@pytest.mark.parametrize("one_way", [True, False])
def test_the_end_of_a_half_message_on_the_disk_is_no_work_of_control(
    make: Make, tmp_path: Path, size: int, one_way: bool
) -> None:
    shard, (half,) = forgotten(make, tmp_path, bytes(range(250)) * (size // 250) or b"order")
    client = shard.connect()
    client.put(end(half, one_way=one_way, opaque=7))
    ended(shard)
    if not one_way:
        assert (reply := client.reply()).opaque == 7
        assert reply.code == 0
    assert shard.taken(REQUEST) == []
    counters = shard.core.stats()
    assert (counters["records_asked"], counters["postponed"]) == (1, 0)
    assert shard.core.open_halves(0, 9)[2] == []
    assert client.ask(end(half, one_way=False)).code == 0
    assert shard.core.stats()["transactions_repeated"] == 1
    (body,) = committed(shard)
    assert len(body) == len(bytes(range(250)) * (size // 250) or b"order")


def test_many_ends_of_what_is_on_the_disk_all_count(make: Make, tmp_path: Path) -> None:
    """More ends than may wait for the disk at once: the others are tried again."""
    shard, halves = forgotten(make, tmp_path, *[b"%d" % n for n in range(400)])
    client = shard.connect()
    client.put(b"".join(map(end, halves)), send("t", b"behind them", 9))
    assert client.reply().opaque == 9
    ended(shard, 400)
    counters = shard.core.stats()
    assert counters["records_asked"] > 0
    assert (counters["postponed_dropped"], counters["unread_postponed"]) == (0, 0)
    assert shard.taken(REQUEST) == []


@pytest.mark.parametrize("beside", [1, 8, -1])
def test_where_no_half_message_begins_on_the_disk_nothing_ends(
    make: Make, tmp_path: Path, beside: int
) -> None:
    shard, halves = forgotten(make, tmp_path, b"first", b"second")
    client = shard.connect()
    wrong = (halves[1][0], halves[1][1] + beside)
    assert client.ask(end(wrong, one_way=False)).code == 1
    assert shard.core.stats()["records_asked"] == 1
    # The place of another half message.
    assert client.ask(end((0, halves[1][1]), one_way=False)).code == 1
    assert shard.core.open_halves(0, 9)[2] == [0, 1]


def test_the_end_of_a_client_that_is_gone_counts(make: Make, tmp_path: Path) -> None:
    shard, (half,) = forgotten(make, tmp_path, b"order")
    client = shard.connect()
    client.put(end(half))
    client.close()
    ended(shard)


def test_the_end_of_one_who_may_do_everything_counts_though_he_is_gone(
    make: Make, tmp_path: Path
) -> None:
    """Clients before 5.0 name no topic. This client's address, which lets it do everything, is gone
    with its connection."""
    shard, (half,) = forgotten(make, tmp_path, b"order")
    shard.core.set_white_list(packed_addresses([WhiteList.of("127.0.0.1")]))
    shard.core.set_auth(True, True, [], [])
    client = shard.connect()
    client.put(end(half))
    client.close()
    ended(shard)


def test_the_end_that_control_gives_back_counts_though_its_client_is_gone(make: Make) -> None:
    """Control has found by certificate or address that the client may do it. If the end names a
    topic, it must be that of the message, as for a client that is still there."""
    shard = make()
    halves = [send_half(shard, b"%d" % n) for n in range(3)]
    shard.core.set_auth(True, True, [], [])
    client = shard.connect()
    client.put(request(35))  # a code of control's, which tells it the connection's number
    ((number, _),) = shard.reports(REQUEST)
    client.close()
    shard.until(lambda counters: counters["connections"] == 1)
    for half, named in zip(halves, ({"topic": "t2"}, {"topic": "t"}, {}), strict=True):
        shard.core.resubmit(number, end(half, **named)[4:])
    ended(shard, 2)
    shard.until(lambda _: shard.core.open_halves(0, 9)[2] == [0])


def test_ends_that_come_before_the_transactions_are_loaded_wait(make: Make) -> None:
    first = make()
    halves = [send_half(first, b"%d" % n) for n in range(300)]
    first.stop()
    second = make(started=False)
    # After an end that waits the connection is not read, so all of these must come in one read.
    producers = [second.connect() for _ in range(10)]
    for n, producer in enumerate(producers):
        behind = send("t", b"answered all the same", 5)
        producer.put(*map(end, halves[n * 30 : n * 30 + 30]), behind)
    second.until(lambda counters: counters["postponed"] == 300)
    assert second.core.stats()["unread_postponed"] == 10
    for producer in producers:
        assert producer.reply().opaque == 5  # this was sent together with the ends
        producer.put(send("t", b"x", 6))
    assert producers[0].is_silent()
    assert all(producer.is_silent(0) for producer in producers)
    other = second.connect()
    assert other.ask(send("t", b"x", 1)).code == 0
    other.put(end((300, 1)))
    other.reset()
    second.core.start_transactions(0, 1)
    second.until(lambda counters: counters["transactions_committed"] == 300)
    assert [producer.reply().opaque for producer in producers] == [6] * 10
    counters = second.core.stats()
    assert (counters["postponed_dropped"], counters["unread_postponed"]) == (0, 0)
    assert second.core.open_halves(0, 9)[0] == 300


def test_an_end_that_is_not_done_in_time_is_dropped_and_so_are_the_next_at_once(
    clock: DrivenClock, make: Make
) -> None:
    first = make()
    half = send_half(first)
    first.stop()
    shard = make(started=False)
    client = shard.connect()
    client.put(end(half))
    shard.until(lambda counters: counters["unread_postponed"] == 1)
    client.put(pull("g", "t", opaque=3))
    clock.advance(2.9)
    shard.look_at_clock()
    assert client.is_silent()
    clock.advance(0.2)
    assert client.reply().opaque == 3  # once the 3 s are over
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
    """The ends look at records in the ring, which must not keep the ring from moving on."""
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


def test_an_end_of_what_another_process_has_ended_is_controls(make: Make) -> None:
    """Control looks whether the half message was stored anew, and gives the end back to be
    answered."""
    first = make()
    halves = [send_half(first, b"%d" % n) for n in range(3)]
    first.stop()
    shard = make(started=False)
    shard.core.end_halves([1], 0)  # as an op message in the log says
    shard.core.start_transactions(0, 1)
    client = shard.connect()
    client.put(end(halves[1], one_way=False, opaque=7))
    ((number, frame),) = shard.reports(REQUEST)
    assert shard.core.stats()["transactions_repeated"] == 0
    shard.core.resubmit(number, frame)
    assert (reply := client.reply()).opaque == 7
    assert reply.code == 0
    assert shard.core.stats()["transactions_repeated"] == 1
    for half in (halves[2], halves[2]):  # this process has ended it, so it is known
        assert client.ask(end(half, one_way=False)).code == 0
    assert shard.taken(REQUEST) == []
    assert committed(shard) == [b"2"]


def test_what_control_stores_anew_is_ended_by_any_of_its_places(make: Make) -> None:
    """Ends of other half messages do not go to control because of this."""
    shard = make()
    halves = [send_half(shard, b"%d" % n) for n in range(2)]
    client = shard.connect()
    for half in halves:
        assert client.ask(end(half, 12, one_way=False)).code == 0
    places = [halves[0]]
    # Control names the place of the half message that it was asked about.
    for body in (b"once", b"twice"):
        places.append(send_half(shard, body))
        shard.core.move_half(*halves[0], *places[-1])
    assert shard.core.open_halves(0, 9)[2] == [places[-1][0]]
    assert client.ask(end(halves[1], one_way=False)).code == 0
    for half in places:
        assert client.ask(end(half, one_way=False)).code == 0
    assert shard.taken(REQUEST) == []
    assert committed(shard) == [b"twice"]


@pytest.mark.parametrize("decision", [8, 12])
def test_an_end_that_was_on_its_way_counts_for_the_copy_made_for_a_check(
    make: Make, decision: int
) -> None:
    shard = make()
    halves = [send_half(shard)]
    client = shard.connect()
    shard.group("looks", HALF)
    for number in range(3):  # it is checked three times, and stored anew each time
        assert shard.core.check_halves(number, number + 1, RULES) == (number + 1, 0, 1, 0, [])
        (copy,) = decode_messages(client.ask(pull("looks", HALF, number + 1)).body)
        halves.append((copy.queue_offset, copy.physical_offset))
    # Offset and place belong to different half messages.
    assert client.ask(end((0, halves[1][1]), decision, one_way=False)).code == 1
    assert shard.core.open_halves(0, 9)[2] == [3]
    assert client.ask(end(halves[0], decision, one_way=False)).code == 0
    assert shard.core.open_halves(0, 9)[2] == []
    for half in halves:  # the transaction ends only once
        assert client.ask(end(half, 8, one_way=False)).code == 0
    counters = shard.core.stats()
    names = ("transactions_committed", "transactions_rolled_back", "transactions_repeated")
    done = (1, 0) if decision == 8 else (0, 1)
    assert tuple(counters[name] for name in names) == (*done, 4)
    if decision == 8:
        assert committed(shard) == [b"order"]
