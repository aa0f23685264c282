"""The control thread's part of transactions, on a made-up core: what is read at the start, and what
is set aside."""

import asyncio
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker.clients.client import Client
from rmq.broker.clients.connections import Connection
from rmq.broker.clients.producers import CHECK_TARGETS_MAX, ProducerTable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tasks.moved_halves import HALVES_AT_ONCE, SLICE_BYTES, sought_of
from rmq.errors import StoreError
from rmq.format import fastjson
from rmq.format.message import StoredMessage, decode_message

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ASIDE = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = b"CID_RMQ_SYS_TRANS"


def half(
    core: FakeCore, age_s: float = 60, more: bytes = b"", body: bytes = b"order", **change: Any
) -> StoredMessage:
    properties = b"REAL_TOPIC\1t\2REAL_QID\0011\2PGROUP\1P\2UNIQ_KEY\1U\2" + more
    born = time.time_ns() // 1_000_000 - int(age_s * 1000)
    fields: dict[str, Any] = {"born_timestamp_ms": born, "store_timestamp_ms": born, **change}
    return core.store(HALF, 0, body, properties_bytes=properties, **fields)


def group_offset(core: FakeCore, topic: str) -> int:
    return core.query_offset(GROUP, topic.encode(), 0)


@in_loop
async def test_op_messages_say_at_the_start_what_is_ended(tmp_path: Path) -> None:
    core = FakeCore()
    for _ in range(6):
        half(core)
    core.commit_offset(GROUP, HALF.encode(), 0, 1)
    core.commit_offset(GROUP, OP.encode(), 0, 1)
    for body in (b"5,", b"2,0,", b"4", b"x,,-1,9999999999999999999999,3", b"\xff"):
        core.store(OP, 0, body)
    async with control(tmp_path, core) as broker:
        assert core.serves_transactions
        assert core.first_half == 1
        assert core.ended_halves == {2, 3, 4}
        assert core.ops == []
        core.end_halves([1], 0)
        await broker.transactions.check()
        assert group_offset(core, HALF) == 6  # past the last half message, which was given up
        assert group_offset(core, OP) == 5
    assert core.first_half == 6


@in_loop
async def test_offsets_beyond_the_queues_are_not_believed(tmp_path: Path) -> None:
    core = FakeCore()
    half(core)
    core.commit_offset(GROUP, HALF.encode(), 0, 17)
    core.commit_offset(GROUP, OP.encode(), 0, 17)
    async with control(tmp_path, core):
        assert core.first_half == 1


@in_loop
async def test_what_the_reactor_gives_up_is_set_aside(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        half(core)
        half(core, more=b"TRANSACTION_CHECK_TIMES\00115\2")
        await broker.transactions.check()
        aside = core.queues[b"TRANS_CHECK_MAX_TIME_TOPIC", 0]
        assert len(aside) == 2
        assert len(core.queues[HALF.encode(), 0]) == 2
        assert core.ended_halves == {0, 1}
        assert core.ops == [0, 1]
        assert core.options["transactions_set_aside"] == 1  # both have the same unique key


@in_loop
async def test_an_unreadable_half_message_is_given_up(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        lost = half(core)
        del core.records[lost.physical_offset]
        await broker.transactions.check()
        assert core.ended_halves == {0}
        assert len(core.queues[HALF.encode(), 0]) == 1


@in_loop
async def test_a_half_message_that_cannot_be_read_now_stays_open(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        there = half(core)
        core.withheld.add(there.physical_offset)
        await broker.transactions.check()
        assert core.ended_halves == set()
        core.withheld.clear()
        await broker.transactions.check()
        assert core.ended_halves == {0}
        assert len(core.queues[b"TRANS_CHECK_MAX_TIME_TOPIC", 0]) == 1


@in_loop
async def test_an_op_message_that_cannot_be_read_now_is_not_passed(tmp_path: Path) -> None:
    """An op message that cannot be read now must not be passed: a start that does not see it would
    have its half message committed once more."""
    core = FakeCore()
    half(core)
    told = core.store(OP, 0, b"0,")
    async with control(tmp_path, core) as broker:
        assert core.ended_halves == {0}
        core.withheld.add(told.physical_offset)
        await broker.transactions.check()
        assert group_offset(core, OP) == 0
        core.withheld.clear()
        await broker.transactions.check()
        assert group_offset(core, OP) == 1


@in_loop
async def test_a_start_is_refused_while_the_op_queue_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the op queue cannot be read, the start must be refused: everything that its messages ended
    would be open, and could be committed once more. A single message that cannot be read is passed,
    and reported."""
    core = FakeCore()
    half(core)
    told = core.store(OP, 0, b"0,")
    core.withheld.add(told.physical_offset)
    async with control(tmp_path, core):
        assert core.ended_halves == set()
    assert "producers are asked again about what it ends" in caplog.text
    core.withheld.clear()
    core.memory_from[OP.encode(), 0] = 1
    queue = tmp_path / "consumequeue" / OP / "0"
    queue.mkdir(parents=True)
    (way := queue / f"{0:020d}").mkdir()  # it can be opened, but not read
    with pytest.raises(StoreError, match="op messages of transactions from 0 on"):
        async with control(tmp_path, core):
            pass
    way.rmdir()
    del core.memory_from[OP.encode(), 0]
    async with control(tmp_path, core):
        assert core.ended_halves == {0}


@in_loop
async def test_a_half_message_whose_entry_cannot_be_read_now_stays_open(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        half(core)
        core.memory_from[HALF.encode(), 0] = 1
        queue = tmp_path / "consumequeue" / HALF / "0"
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").mkdir()  # it can be opened, but not read
        await broker.transactions.check()
        assert core.ended_halves == set()


@in_loop
async def test_what_is_ended_while_it_is_set_aside_cannot_be_committed_once_more(
    tmp_path: Path,
) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        half(core)
        create = broker.topics.create

        async def create_slowly(topic: TopicConfig) -> TopicConfig:
            core.end_halves([0], 1)  # the commit comes while the topic is made
            return await create(topic)

        broker.topics.create = create_slowly  # type: ignore
        await broker.transactions.check()
        assert (b"TRANS_CHECK_MAX_TIME_TOPIC", 0) not in core.queues
        assert core.options.get("transactions_set_aside", 0) == 0


@in_loop
async def test_what_is_ended_as_it_is_set_aside_cannot_be_committed_once_more(
    tmp_path: Path,
) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        stored = half(core)
        append = core.append

        def append_late(*given: Any) -> tuple[int, int]:
            place = append(*given)
            core.end_halves([0], 1)  # the commit comes in the next turn
            return place

        core.append = append_late  # type: ignore
        await broker.transactions.check()
        assert len(core.queues[b"TRANS_CHECK_MAX_TIME_TOPIC", 0]) == 1
        assert core.options.get("transactions_set_aside", 0) == 0
        assert broker.transactions.revive(stored) is None


@in_loop
async def test_an_end_that_the_reactor_hands_over_comes_back_to_it(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        stored = half(core)
        plain = core.store("t", 0)
        fields = {"producerGroup": "P", "tranStateTableOffset": 0, "commitOrRollback": 8}
        client.put(37, **fields, commitLogOffset=stored.physical_offset)
        await core.until(client.given_back)
        assert core.topics[b"t"][0] == 2
        for offset in (plain.physical_offset, 12345, -1):
            assert (await client.call(37, **fields, commitLogOffset=offset)).code == 1
        assert len(client.given_back()) == 1


@pytest.mark.parametrize("what", ["record", "entry"])
@in_loop
async def test_what_was_set_aside_and_cannot_be_read_now_is_asked_for_again(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The start must go on without a message that was set aside and cannot be read now. A commit of
    it must not be answered as if the transaction were ended."""
    core = FakeCore()
    stored = half(core)
    core.end_halves([0], 0)
    aside = core.store(ASIDE, 0, b"order", properties_bytes=stored.properties_bytes)
    if what == "record":
        core.withheld.add(aside.physical_offset)
    else:
        core.memory_from[ASIDE.encode(), 0] = 1
        queue = tmp_path / "consumequeue" / ASIDE / "0"
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").mkdir()  # it can be opened, but not read
    async with control(tmp_path, core) as broker:
        assert "not all transactions that were set aside are known yet" in caplog.text
        for _ in range(2):
            with pytest.raises(StoreError):
                broker.transactions.revive(stored)
        core.withheld.clear()
        core.memory_from.clear()
        await broker.transactions.check()
        assert core.options["transactions_set_aside"] == 1
        place = broker.transactions.revive(stored)
        assert place is not None
        assert core.moved_halves == [(0, stored.physical_offset, place[1], place[0])]
        assert core.options["transactions_set_aside"] == 0
        assert broker.transactions.revive(stored) is None


@in_loop
async def test_the_reactor_hears_where_one_that_was_set_aside_is_now(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        stored = half(core)
        await broker.transactions.check()
        (entry,) = core.queues[ASIDE.encode(), 0]
        aside = decode_message(core.records[int.from_bytes(entry[:8], "big")])[0]
        assert aside.prepared_offset == stored.physical_offset
        broker.transactions.check_again(aside)
        ((old, old_log, new, new_log),) = core.moved_halves
        assert (old, old_log, new) == (0, stored.physical_offset, 1)
        copy = decode_message(core.records[new_log])[0]
        assert (copy.topic, copy.queue_offset, copy.prepared_offset) == (HALF, 1, 0)


@in_loop
async def test_ends_that_wait_for_a_look_hold_no_bodies(tmp_path: Path) -> None:
    """Ends that wait for a look must not hold bodies in memory: thousands may wait, and each end,
    like its half message, may have several MiB."""
    size, count = 256 * 1024, 32
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        places = [half(core, body=bytes([n]) * size).physical_offset for n in range(count)]
        core.end_halves(list(range(count)), 0)
        core.doubted_below = count
        tracemalloc.start()
        try:
            async with broker.moved_halves._lock:
                for n, place in enumerate(places):
                    client.put(
                        37, bytes(size), producerGroup="P", tranStateTableOffset=n,
                        commitLogOffset=place, commitOrRollback=12,
                    )  # fmt: skip
                await core.until(lambda: len(broker.moved_halves._next.wanted) == count)
                held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert held < 8 * size, "of 64 bodies"
        await core.until(lambda: len(client.given_back()) == count)


def reads_of(core: FakeCore, kinds: list[str]) -> None:
    """Appends "r" to kinds for each record of an open half message that is read."""
    plain = core.read_record

    def read_record(physical_offset: int, or_fail: int = 0) -> bytes | None:
        kinds.extend(["r"] * bool(or_fail))
        return plain(physical_offset, or_fail)

    core.read_record = read_record  # type: ignore


@in_loop
async def test_an_end_that_is_repeated_has_nothing_read_again(tmp_path: Path) -> None:
    """When an end is repeated, only what was stored since may be read, to find a copy of the half
    message if there is one now."""
    async with control(tmp_path) as broker:
        core, looks = broker.core, broker.moved_halves
        ended = half(core)
        born_ms, count = ended.born_timestamp_ms, 3 * HALVES_AT_ONCE + 1
        for n in range(count):
            half(core, body=b"%d" % n, born_timestamp_ms=born_ms + n % 2)
        core.end_halves([0], 0)
        read: list[str] = []
        views: list[bytes] = []
        reads_of(core, read)
        snapshot = core.queue_snapshot

        def queue_snapshot(topic: bytes, queue_id: int) -> Any:
            views.append(topic)
            return snapshot(topic, queue_id)

        core.queue_snapshot = queue_snapshot  # type: ignore
        for _ in range(3):
            assert await looks.place_of(sought_of(ended)) is None
            assert len(read) == count
            assert views.count(HALF.encode()) == 4, "one for some of them"
        copy = half(core, more=b"TRANSACTION_CHECK_TIMES\0011\2", born_timestamp_ms=born_ms)
        place = copy.physical_offset, copy.queue_offset
        for times in (1, 2):
            assert await looks.place_of(sought_of(ended)) == place
            assert len(read) == count + times


@in_loop
async def test_a_look_gives_others_their_turn_after_some_bytes(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        ended = half(core)
        for _ in range(12):
            half(core, body=bytes(SLICE_BYTES // 3))
        core.end_halves([0], 0)
        order: list[str] = []
        reads_of(core, order)

        async def others() -> None:
            while True:
                order.append("-")
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(others())
        assert await broker.moved_halves.place_of(sought_of(ended)) is None
        task.cancel()
        reads = "".join(order).split("-")
        assert sum(map(len, reads)) == 12
        assert max(map(len, reads)) <= 3


@in_loop
async def test_the_reactor_is_told_whom_to_ask_of_each_group(tmp_path: Path) -> None:
    """The reactor must be given only some connections of a group to ask; when one of them closes,
    another takes its place."""
    async with control(tmp_path) as broker:
        core, told = broker.core, broker.core.producers_told
        clients = [core.client() for _ in range(CHECK_TARGETS_MAX + 2)]
        for client in clients:
            body = {"clientID": f"c@{client.number}", "consumerDataSet": [],
                    "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
            assert (await client.call(34, fastjson.dumps(body))).code == 0
        numbers = [client.number for client in clients]
        assert told == {b"P": dict.fromkeys(numbers[:CHECK_TARGETS_MAX], b"")}
        core.report(1, numbers[0], b"")
        others = dict.fromkeys(numbers[1 : CHECK_TARGETS_MAX + 1], b"")
        await core.until(lambda: told == {b"P": others})
        for number in numbers[1:]:
            core.report(1, number, b"")
        await core.until(lambda: told == {b"P": {}})


def test_a_user_with_many_connections_keeps_no_other_from_being_asked() -> None:
    told: dict[bytes, dict[int, bytes]] = {}
    table = ProducerTable(lambda *_: None, told.__setitem__)
    for number in range(1, 2 * CHECK_TARGETS_MAX):
        connection = Connection(number, "h:1")
        table.register("P", Client(connection, f"c{number}", "JAVA", 1, 1, "mallory"))
    own = Connection(1000, "h:2")
    table.register("P", Client(own, "alice@1", "JAVA", 1, 1, "alice"))
    assert len(told[b"P"]) == CHECK_TARGETS_MAX
    assert told[b"P"][1000] == b"alice"
    table.register("P", Client(own, "alice@1", "JAVA", 1, 1, "bob"))
    assert told[b"P"][1000] == b"bob", "whose heartbeat it was counts"
    table.connection_closed(own)
    assert set(told[b"P"].values()) == {b"mallory"}
