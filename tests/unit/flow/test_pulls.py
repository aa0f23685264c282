"""Pulls over a socket: limits and codes of docs/protocol.md, tag filters, long polling."""

import os
import time
from pathlib import Path

import pytest
from support.calm_clock import calm_seconds
from support.driven_clock import DrivenClock
from support.shard import (
    HELD_MS,
    MIB,
    REQUEST,
    Shard,
    bodies,
    messages,
    pull,
    request,
    send,
)

from rmq.format.remoting import JSON, ROCKETMQ

FOUR = {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"}


def fill(shard: Shard, count: int, size: int = 4, topic: str = "t") -> None:
    client = shard.connect()
    client.put(*(send(topic, b"%0*d" % (size, n), n) for n in range(count)))
    assert {reply.code for reply in client.replies(count).values()} == {0}


def test_at_most_32_messages_and_as_many_as_asked(shard: Shard) -> None:
    fill(shard, 100)
    client = shard.connect()
    for asked, given in ((32, 32), (1000, 32), (5, 5), (1, 1), (0, 1), (-7, 1), (2**31 - 1, 32)):
        reply = client.ask(pull("g", "t", 10, maxMsgNums=asked))
        assert bodies(reply) == [b"%04d" % n for n in range(10, 10 + given)]
        assert reply.fields["nextBeginOffset"] == str(10 + given)
        assert (reply.fields["minOffset"], reply.fields["maxOffset"]) == ("0", "100")
        assert reply.fields.keys() >= FOUR


def test_at_most_256_kib_but_always_one_message(shard: Shard) -> None:
    client = shard.connect()
    for n in range(4):
        client.ask(send("t", bytes([n]) * 100_000, n))
    client.ask(send("t", bytes(MIB), 9))
    assert [len(body) for body in bodies(client.ask(pull("g", "t")))] == [100_000] * 2
    assert [len(body) for body in bodies(client.ask(pull("g", "t", 3)))] == [100_000]
    assert [len(body) for body in bodies(client.ask(pull("g", "t", 4)))] == [MIB]


def test_a_reader_in_bulk_that_asks_for_more_than_256_kib_gets_up_to_1_mib(shard: Shard) -> None:
    fill(shard, 300, 4000)
    client = shard.connect()
    size = len(client.ask(pull("g", "t")).body) // 32
    for most, asked, given in (
        (256 << 10, 1000, 32), (MIB, 1000, MIB // size), (MIB, 40, 40),
        (2**31 - 2, 1000, MIB // size), (2**31 - 1, 1000, 32), (-1, 1000, 32),
        (300 << 10, 1000, (300 << 10) // size),
    ):  # fmt: skip
        reply = client.ask(pull("g", "t", maxMsgNums=asked, maxMsgBytes=most))
        assert bodies(reply) == [b"%04000d" % n for n in range(given)]


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
def test_offsets_outside_the_queue_get_their_codes(shard: Shard, kind: int) -> None:
    client = shard.connect()
    for offset, code, following in ((0, 19, "0"), (1, 21, "0"), (-1, 21, "0"), (1 << 60, 21, "0")):
        reply = client.ask(pull("g", "t", offset, kind=kind))
        assert (reply.code, reply.fields["nextBeginOffset"]) == (code, following)
        assert reply.fields.keys() >= FOUR
    fill(shard, 3)
    for offset, code, following in (
        (3, 19, "3"), (4, 21, "3"), (2**63 - 1, 21, "3"), (-(2**63), 21, "0"),
    ):  # fmt: skip
        reply = client.ask(pull("g", "t", offset, kind=kind))
        assert (reply.code, reply.fields["nextBeginOffset"]) == (code, following)


def test_only_messages_of_subscribed_tags_are_given(shard: Shard) -> None:
    client = shard.connect()
    for n in range(60):
        client.put(send("t", b"%d" % n, n, i=f"TAGS\x01{'abc'[n % 3]}\x02"))
    client.replies(60)
    shard.group("ab", "t", tags=["a", "c"])
    assert bodies(client.ask(pull("ab", "t", maxMsgNums=6))) == [
        b"0", b"2", b"3", b"5", b"6", b"8",
    ]  # fmt: skip
    own = {"sysFlag": 4, "subscription": "b || none"}
    assert bodies(client.ask(pull("ab", "t", 50, **own))) == [b"52", b"55", b"58"]
    nothing = client.ask(pull("ab", "t", 50, sysFlag=4, subscription="none"))
    assert (nothing.code, nothing.fields["nextBeginOffset"]) == (20, "60")


def test_a_filter_that_passes_nothing_looks_at_a_bounded_number_of_entries(shard: Shard) -> None:
    shard.group("none", "t", tags=["none"])
    fill(shard, 20_000, 1)
    client = shard.connect()
    for asked in (1, 2**31 - 1):
        reply = client.ask(pull("none", "t", maxMsgNums=asked))
        assert (reply.code, reply.fields["nextBeginOffset"]) == (20, "16384")
    reply = client.ask(pull("none", "t", 16_384))
    assert (reply.code, reply.fields["nextBeginOffset"]) == (20, "20000")


def test_a_pull_commits_the_consumers_offset(shard: Shard) -> None:
    fill(shard, 5)
    client = shard.connect()
    client.ask(pull("g", "t", 4, sysFlag=1, commitOffset=4))
    assert shard.core.query_offset(b"g", b"t", 0) == 4
    client.ask(pull("g", "t", 4, sysFlag=1, commitOffset=-9))
    client.ask(pull("g", "t", 4, sysFlag=0, commitOffset=2))
    assert shard.core.offsets() == {b"t@g": {0: 4}}


def test_what_the_reactor_does_not_know_goes_to_control(shard: Shard) -> None:
    client = shard.connect()
    shard.topic("secret", perm=2)
    shard.core.put_group(b"off", 0, 1)
    for frame in (
        pull("g", "nowhere"), pull("nobody", "t"), pull("off", "t"), pull("g", "secret"),
        pull("g", "t", subVersion=2), pull("g", "t", sysFlag=4, expressionType="SQL92"),
    ):  # fmt: skip
        client.put(frame)
        ((number, handed),) = shard.reports(REQUEST)
        assert handed == frame[4:]
        shard.core.resubmit(number, handed)
        assert client.reply().code == 1  # control is not asked a second time
    assert shard.kept(REQUEST) == []


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"queueId": 1}, 29, "queueId[1]"),
        ({"queueId": -1}, 29, "queueId[-1]"),
        ({"queueId": 2**31}, 1, "queueId"),
        ({"queueOffset": "1e3"}, 1, "queueOffset"),
        ({"suspendTimeoutMillis": ""}, 1, "suspendTimeoutMillis"),
        ({"sysFlag": 2**40}, 1, "sysFlag"),
    ],
)
def test_bad_fields_are_refused(
    shard: Shard, fields: dict[str, object], code: int, says: str
) -> None:
    reply = shard.connect().ask(pull("g", "t", opaque=6, **fields))
    assert (reply.opaque, reply.code) == (6, code)
    assert says in (reply.remark or "")


# ---- long polling


def test_a_held_pull_is_answered_by_the_message_it_waits_for(shard: Shard) -> None:
    shard.group("a", "t", tags=["a"])
    waiting, sender = shard.connect(), shard.connect()
    waiting.put(pull("g", "t", 0, 1, HELD_MS), pull("a", "t", 0, 2, HELD_MS, kind=ROCKETMQ))
    shard.until(lambda counters: counters["pulls_waiting"] == 2)
    sender.ask(send("t", b"plain"))
    reply = waiting.reply()
    assert (reply.opaque, bodies(reply)) == (1, [b"plain"])
    assert waiting.is_silent()
    sender.ask(send("t", b"tagged", i="TAGS\x01a\x02"))
    reply = waiting.reply()
    assert (reply.opaque, bodies(reply), reply.serialize_type) == (2, [b"tagged"], ROCKETMQ)
    assert shard.core.stats()["pulls_waiting"] == 0


def test_a_held_pull_ends_when_its_time_is_over(shard: Shard) -> None:
    """A deadline between two ticks of the wheel used to wait for the wheel's next round, 102 s
    later."""
    holds_ms = (1, 99, 130, 151, 200, 250, 377)
    clients = [shard.connect() for _ in holds_ms]
    waited_ms: dict[int, list[tuple[float, float]]] = {hold_ms: [] for hold_ms in holds_ms}
    for n in range(4):
        began = []
        for hold_ms, client in zip(holds_ms, clients, strict=True):
            began.append((time.monotonic(), calm_seconds()))
            client.put(pull("g", "t", 0, n, hold_ms))
        for hold_ms, client, (since, calm) in zip(holds_ms, clients, began, strict=True):
            reply = client.reply()
            passed = (time.monotonic() - since, calm_seconds() - calm)
            assert (reply.opaque, reply.code) == (n, 19)
            waited_ms[hold_ms].append((passed[0] * 1000, passed[1] * 1000))
    for hold_ms, waits in waited_ms.items():
        assert hold_ms - 5 <= min(wait for wait, _ in waits)
        assert min(calm for _, calm in waits) < hold_ms + 400


def test_the_broker_limits_how_long_a_pull_is_held(tmp_path: Path) -> None:
    with Shard(tmp_path, suspend_max_ms=200) as shard:
        shard.topic("t")
        shard.group("g", "t")
        began = time.monotonic()
        assert shard.connect().ask(pull("g", "t", 0, 1, 2**62)).code == 19
        assert time.monotonic() - began > 0.19
        shard.core.set_option("long_polling", 0)
        shard.core.set_option("short_polling_ms", 60)
        began = time.monotonic()
        assert shard.connect().ask(pull("g", "t", 0, 1, HELD_MS)).code == 19
        assert time.monotonic() - began > 0.05


def test_held_pulls_of_a_removed_topic_are_answered(clock: DrivenClock, shard: Shard) -> None:
    shard.topic("short", 2, 2)
    shard.group("g", "short")
    client = shard.connect()
    client.put(pull("g", "short", 0, 1, HELD_MS), pull("g", "short", 0, 2, HELD_MS, queue=1))
    shard.until(lambda counters: counters["pulls_waiting"] == 2)
    shard.core.remove_topic(b"short")
    assert {reply.code for reply in client.replies(2).values()} == {17}
    assert shard.core.stats()["pulls_waiting"] == 0
    shard.topic("short")
    assert client.ask(send("short", b"x")).fields["queueOffset"] == "0"


def test_when_too_many_pulls_wait_the_next_is_told_so_and_places_become_free(
    tmp_path: Path,
) -> None:
    with Shard(tmp_path, pulls_max=10) as shard:
        shard.topic("t")
        shard.group("g", "t")
        holder, client = shard.connect(), shard.connect()
        for _ in range(3):
            holder.put(*(pull("g", "t", 0, n, HELD_MS) for n in range(10)))
            shard.until(lambda counters: counters["pulls_waiting"] == 10)
            reply = client.ask(pull("g", "t", 0, 77, HELD_MS))
            assert (reply.code, reply.opaque) == (2, 77)
            assert "start flow control for a while" in (reply.remark or "")
            holder.close()
            shard.until(lambda counters: counters["pulls_waiting"] == 0)
            holder = shard.connect()
        holder.put(*(pull("g", "t", 0, n, HELD_MS) for n in range(10)))
        shard.until(lambda counters: counters["pulls_waiting"] == 10)
        client.put(send("t", b"x", 1))
        assert client.reply().code == 0
        assert {reply.code for reply in holder.replies(10).values()} == {0}


def test_many_held_pulls_are_each_answered_once_by_one_message(shard: Shard) -> None:
    clients = [shard.connect() for _ in range(20)]
    for client in clients:
        client.put(*(pull("g", "t", 0, n, HELD_MS) for n in range(10)))
    shard.until(lambda counters: counters["pulls_waiting"] == 200)
    clients[0].put(send("t", b"x", 100))
    for number, client in enumerate(clients):
        found = client.replies(11 if number == 0 else 10)
        assert all(bodies(reply) == [b"x"] for opaque, reply in found.items() if opaque < 10)
        assert client.is_silent(0)


def test_held_pulls_of_a_queue_are_answered_in_the_order_in_which_they_came(shard: Shard) -> None:
    client = shard.connect()
    for opaque in (5, 3, 8, 1, 9):
        client.put(pull("g", "t", 0, opaque, HELD_MS))
    shard.until(lambda counters: counters["pulls_waiting"] == 5)
    shard.connect().put(send("t", b"x", 100))
    assert [client.reply().opaque for _ in range(5)] == [5, 3, 8, 1, 9]


def test_a_held_pull_in_the_middle_may_end_and_the_rest_stay_in_order(shard: Shard) -> None:
    client, other = shard.connect(), shard.connect()
    for opaque, hold_ms in ((1, HELD_MS), (2, HELD_MS), (3, 150), (4, HELD_MS), (5, 150)):
        client.put(pull("g", "t", 0, opaque, hold_ms))
        if opaque == 2:
            other.put(pull("g", "t", 0, 7, HELD_MS))
        shard.until(lambda counters, n=opaque: counters["pulls_waiting"] >= min(n, 4))
    assert sorted(client.reply().opaque for _ in range(2)) == [3, 5]
    client.put(pull("g", "t", 0, 6, HELD_MS))
    shard.until(lambda counters: counters["pulls_waiting"] == 5)
    other.close()
    shard.until(lambda counters: counters["pulls_waiting"] == 4)
    shard.connect().put(send("t", b"x", 100))
    assert [client.reply().opaque for _ in range(4)] == [1, 2, 4, 6]


def test_records_out_of_memory_come_from_disk_the_same(tmp_path: Path) -> None:
    with Shard(tmp_path, ring_bytes=MIB, record_max_bytes=MIB // 2) as shard:
        shard.topic("t")
        shard.group("g", "t")
        client = shard.connect()
        for n in range(40):
            assert client.ask(send("t", bytes([n]) * 100_000, n)).code == 0
        for path in (tmp_path / "store" / "commitlog").iterdir():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        offset, found = 0, []
        while offset < 40:
            reply = client.ask(pull("g", "t", offset))
            found += [(m.queue_offset, m.body[:1]) for m in messages(reply)]
            offset = int(reply.fields["nextBeginOffset"])
        assert found == [(n, bytes([n])) for n in range(40)]


def test_what_could_not_be_mended_for_now_is_not_called_damaged(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        fill(shard, 10)
    file = tmp_path / "store" / "consumequeue" / "t" / "0" / f"{0:020d}"
    with Shard(tmp_path) as shard:  # the entries are only in the file
        shard.topic("t")
        shard.group("g", "t")
        client = shard.connect()
        file.rename(tmp_path / "aside")
        file.mkdir()  # so that it can neither be read nor written
        reply = client.ask(pull("g", "t", 1))
        assert (reply.code, "offset 1 could not be made anew" in str(reply.remark)) == (2, True)
        file.rmdir()
        (tmp_path / "aside").rename(file)
        assert client.ask(pull("g", "t", 1)).code == 2
        clock.advance(61)
        assert bodies(client.ask(pull("g", "t", 1))) == [b"%04d" % n for n in range(1, 10)]


def test_a_one_way_pull_and_one_of_a_lite_consumer(shard: Shard) -> None:
    client = shard.connect()
    client.ask(send("t", b"x"))
    named = {
        "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1,
        "sysFlag": 0, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 1,
    }  # fmt: skip
    client.put(request(11, 1, one_way=True, **named), request(361, 2, **named))
    reply = client.reply()
    assert (reply.opaque, bodies(reply)) == (2, [b"x"])
    assert client.is_silent()


def test_more_pulls_may_wake_in_a_turn_than_there_are_reply_buffers(tmp_path: Path) -> None:
    with Shard(tmp_path, reply_buffers=32, connections_max=200) as shard:
        shard.topic("t")
        shard.group("g", "t")
        clients = [shard.connect() for _ in range(60)]
        for client in clients:
            client.put(pull("g", "t", 0, hold_ms=HELD_MS))
        shard.until(lambda counters: counters["pulls_waiting"] == len(clients))
        assert shard.connect().ask(send("t", b"news")).code == 0
        assert [bodies(client.reply()) for client in clients] == [[b"news"]] * len(clients)


def test_a_pull_that_was_let_in_before_an_account_changed_is_not_held_behind_it(
    shard: Shard,
) -> None:
    """Such a pull waits until its client reads other answers, and is looked at again then."""
    for topic in ("t", "quiet"):
        shard.topic(topic)
        shard.group("g", topic)
    producer, client = shard.connect(), shard.connect()
    producer.put(*(send("t", bytes(10_000), n) for n in range(100)))
    producer.replies(100)
    last = pull("g", "quiet", 0, opaque=5000, hold_ms=HELD_MS)
    client.put(*(pull("g", "t", 0, opaque=n) for n in range(1000, 1060)), last)
    shard.until(lambda counters: counters["pulls"] == 61 and counters["pulls_waiting"] == 0)
    shard.core.remove_user(b"dora")
    assert producer.ask(send("quiet", b"not for her")).code == 0
    client.replies(60)
    reply = client.reply()
    assert (reply.opaque, reply.code, reply.body) == (5000, 20, b"")


def test_a_change_of_accounts_does_not_say_that_the_queue_ends(shard: Shard) -> None:
    """A pull that waits for its connection was never held: if it were answered that the queue ends,
    a client that reads to the end would stop."""
    fill(shard, 4, 2 * MIB)
    deaf = shard.connect(receive_buffer=4096)
    deaf.put(*(pull("g", "t", n % 4, n) for n in range(8)))
    shard.until(lambda counters: counters["pulls"] == 8 and counters["pulls_found"] > 0)
    shard.core.remove_user(b"nobody")
    found = deaf.replies(8)
    assert {reply.code for reply in found.values()} == {0, 20}
    for opaque, reply in found.items():
        if reply.code == 20:
            assert reply.fields["nextBeginOffset"] == str(opaque % 4)


def test_a_reset_is_told_however_many_pulls_wait(tmp_path: Path) -> None:
    """If pulls are refused because their client does not read, the client must still be told of the
    reset, or it would go on where it was."""
    with Shard(tmp_path, pulls_max=32) as shard:
        shard.topic("t", 32, 32)
        shard.group("g", "t")
        fill(shard, 1, 3 * MIB)
        for queue in range(1, 32):
            shard.core.reset_offset(b"g", b"t", queue, 7)
        deaf = shard.connect(receive_buffer=4096)
        deaf.put(*(pull("g", "t", 9 if queue else 0, queue, queue=queue, kind=ROCKETMQ)
                   for queue in range(32)))  # fmt: skip
        shard.until(lambda counters: counters["pulls_found"] == 1)
        found = deaf.replies(32)
        assert len(found.pop(0).body) > 3 * MIB
        assert {(reply.code, reply.fields["nextBeginOffset"]) for reply in found.values()} == {
            (21, "7")
        }
        assert not any(shard.core.offsets(2).values())
