"""Goal: a record larger than any buffer, which a store of another broker may have, reaches its
consumer, or is refused with a text that says how to go on.

Method: one core writes the store, and another one with smaller buffers serves it. Cannot show: what
happens on a machine that has no memory for the record.
"""

from pathlib import Path
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.page_cache import drop_from_page_cache
from support.popping import ACK, PEEK, POP, REVIVE_LOG, ack_fields, pop_fields, popped
from support.shard import EVENT, HELD_MS, MIB, Client, Shard, bodies, pull, request, send

from rmq.names import TIMER_TOPIC

pytestmark = pytest.mark.still_clock

LARGE = bytes(range(256)) * (3 * MIB // 256)
SMALL_BUFFERS = {"frame_max_bytes": MIB, "message_max_bytes": MIB // 2}
SMALL_LOG = {"record_max_bytes": MIB, "message_max_bytes": MIB // 2}
SYSTEM_ERROR, SYSTEM_BUSY, NOTHING = 1, 2, 210
RETRY = "%RETRY%g_t"


def written(directory: Path, large: bytes = LARGE, topic: str = "t", **options: Any) -> None:
    with Shard(directory, **options) as shard:
        shard.group("g_t")  # the group of the retry topic that tests use
        shard.core.put_retries(b"g_t", 1, 16, b"")
        shard.topic(topic)
        client = shard.connect()
        for body in (b"before", large, b"behind"):
            assert client.ask(send(topic, body)).code == 0


def serving(directory: Path, **options: Any) -> Shard:
    return Shard(directory, **{**SMALL_BUFFERS, **options})


def ready(shard: Shard) -> Client:
    shard.topic("t")
    shard.group("g", "t")
    return shard.connect()


def popping(shard: Shard) -> Client:
    """A client of a shard that has the topics and delay levels which pops need."""
    client = ready(shard)
    for topic in (TIMER_TOPIC, REVIVE_LOG):
        shard.topic(topic)
    shard.core.set_delay_levels([1000], [0])
    return client


def pop(client: Client, **fields: Any) -> list[bytes]:
    named = {"invisibleTime": HELD_MS, **fields}
    return bodies(client.ask(request(POP, **pop_fields("g", "t", **named))))


def refused(client: Client, **fields: Any) -> str:
    """The remark of a refused pop. The pop may wait first, because the queue's file is checked
    before its entry is believed."""
    reply = client.ask(request(POP, **pop_fields("g", "t", pollTime=HELD_MS, **fields)))
    assert reply.code == SYSTEM_ERROR
    return reply.remark or ""


def test_it_is_pulled_as_it_was_stored(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path) as shard:
        client = ready(shard)
        found, offset = [], 0
        for _ in range(3):
            reply = client.ask(pull("g", "t", offset))
            found += bodies(reply)
            offset = int(reply.fields["nextBeginOffset"])
        assert (found, offset) == ([b"before", LARGE, b"behind"], 3)
        assert shard.until(lambda stats: stats["large_bytes"] == 0)["pulls_from_disk"] > 0


def test_a_client_has_one_at_a_time(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path) as shard:
        client = ready(shard)
        client.put(pull("g", "t", 1, 1), pull("g", "t", 1, 2))
        replies = client.replies(2)
        assert (bodies(replies[1]), replies[2].code) == ([LARGE], SYSTEM_BUSY)
        assert bodies(client.ask(pull("g", "t", 1))) == [LARGE]


def test_who_does_not_read_it_is_closed_for_who_wants_one(
    clock: DrivenClock, tmp_path: Path
) -> None:
    size = 7 * MIB
    written(tmp_path, bytes(size), message_max_bytes=size + 1000)
    with serving(tmp_path, large_bytes=8 * MIB) as shard:
        client = ready(shard)
        slow = shard.connect(4096)
        slow.put(pull("g", "t", 1))
        shard.until(lambda stats: stats["pulls_found"] == 1)
        assert shard.core.stats()["large_bytes"] > size
        shard.until(lambda stats: stats["unread_unsent"] == 1)
        assert client.ask(pull("g", "t", 1)).code == SYSTEM_BUSY
        clock.advance(3)
        assert bodies(client.ask(pull("g", "t", 1))) == [bytes(size)]
        assert shard.core.stats()["connections_closed_deaf"] == 1
        with pytest.raises((EOFError, ConnectionResetError)):
            slow.reply()


def test_who_reads_it_slowly_keeps_it_and_gives_it_back(clock: DrivenClock, tmp_path: Path) -> None:
    size = 7 * MIB
    written(tmp_path, bytes(size), message_max_bytes=size + 1000)
    with serving(tmp_path, large_bytes=8 * MIB) as shard:
        client = ready(shard)
        slow = shard.connect(4096)
        slow.put(pull("g", "t", 1))
        shard.until(lambda stats: stats["unread_unsent"] == 1)
        assert client.ask(pull("g", "t", 1)).code == SYSTEM_BUSY
        assert bodies(slow.reply()) == [bytes(size)]
        shard.until(lambda stats: stats["large_bytes"] == 0)
        assert bodies(client.ask(pull("g", "t", 1))) == [bytes(size)]


def test_one_that_is_larger_than_may_be_read_says_how_to_go_on(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path, large_bytes=MIB) as shard:
        client = ready(shard)
        reply = client.ask(pull("g", "t", 1))
        assert reply.code == SYSTEM_ERROR
        assert "--queue 0 --to 2 goes on" in (reply.remark or "")
        assert bodies(client.ask(pull("g", "t", 2))) == [b"behind"]


@pytest.mark.parametrize("limits", [SMALL_BUFFERS, SMALL_LOG], ids=["buffers", "log"])
@pytest.mark.parametrize("order", ["false", "true"])
def test_a_pop_ends_before_it_and_the_next_is_refused(
    tmp_path: Path, limits: dict[str, int], order: str
) -> None:
    """The refused pop writes nothing and moves no offset. A pull returns the record, and an offset
    reset lets pops go on behind it."""
    written(tmp_path)
    with Shard(tmp_path, **limits) as shard:
        client = popping(shard)
        assert pop(client) == [b"before"]
        stored = shard.core.stats()["messages_in"]
        for _ in range(3):
            assert "rmq group reset g t --queue 0 --to 2" in refused(client, order=order)
        assert client.ask(request(PEEK, **pop_fields("g", "t"))).code == SYSTEM_ERROR
        assert shard.core.query_offset(b"g", b"t", 0) == 1
        assert shard.core.stats()["messages_in"] == stored
        assert any(b"--queue 0 --to 2" in line for _, line in shard.taken(EVENT))
        assert bodies(client.ask(pull("g", "t", 1, maxMsgNums=1))) == [LARGE]
        shard.core.reset_offset(b"g", b"t", 0, 2)
        assert pop(client, order=order) == [b"behind"]


def test_a_pop_from_the_disk_ends_before_it(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path) as shard:
        client = popping(shard)
        drop_from_page_cache(tmp_path / "store" / "commitlog")
        assert pop(client) == [b"before"]
        refused(client)
        shard.core.reset_offset(b"g", b"t", 0, 2)
        assert pop(client) == [b"behind"]


def test_a_pop_of_all_queues_is_given_what_others_have(tmp_path: Path) -> None:
    written(tmp_path)
    with serving(tmp_path) as shard:
        client = popping(shard)
        shard.topic("t", 4, 4)
        assert pop(client) == [b"before"]
        for n in range(8):
            assert "topic t queue 0 " in refused(client)
            assert client.ask(send("t", b"%d" % n, queue=1 + n % 3)).code == 0
            assert pop(client) == [b"%d" % n]
        assert client.ask(request(POP, **pop_fields("g", "t", queueId=1))).code == NOTHING


def test_one_in_a_retry_topic_holds_up_that_queue_alone(tmp_path: Path) -> None:
    written(tmp_path, topic=RETRY)
    with serving(tmp_path) as shard:
        client = popping(shard)
        shard.topic(RETRY)
        assert pop(client) == [b"before"]
        for n in range(8):
            assert f"rmq group reset g {RETRY} --queue 0 --to 2" in refused(client)
            assert client.ask(send("t", b"%d" % n)).code == 0
            assert pop(client) == [b"%d" % n]
        assert shard.core.query_offset(b"g", RETRY.encode(), 0) == 1
        shard.core.reset_offset(b"g", RETRY.encode(), 0, 2)
        assert pop(client) == [b"behind"]


def test_who_waits_is_refused_once_when_it_comes_to_the_head(tmp_path: Path) -> None:
    """The pop is held in order behind a message that another consumer has; when the large record is
    next, the pop is refused, once."""
    written(tmp_path)
    with serving(tmp_path) as shard:
        client, *waiting = popping(shard), shard.connect(), shard.connect()
        fields = {"order": "true", "invisibleTime": HELD_MS}
        (one,) = popped(client.ask(request(POP, **pop_fields("g", "t", **fields))), "g", "t")
        for each in waiting:
            each.put(request(POP, **pop_fields("g", "t", **fields, pollTime=HELD_MS)))
        shard.until(lambda stats: stats["pulls_waiting"] == 2)
        assert client.ask(request(ACK, **ack_fields("g", one))).code == 0
        assert [each.reply().code for each in waiting] == [SYSTEM_ERROR] * 2
        assert shard.core.stats()["pulls_waiting"] == 0
