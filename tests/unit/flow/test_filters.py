"""Message filters in the reactor, over a socket: SQL92 from a subscription or from a pull, held
pulls, bounded work in a turn, records from the disk, queue entries without the tag's code.

The meaning of expressions is tested in tests/unit/wire/test_sql_program.py.
"""

import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.page_cache import drop_from_page_cache, drop_page_cache, kept_in_memory
from support.shard import HELD_MS, REQUEST, Client, Shard, bodies, messages, pull, send
from support.waiting import HANG_S

from rmq.filters.sql92 import compile_expression
from rmq.format.message import decode_messages

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]

FUNCTION_PULL = 5
READ_RECORDS_MAX = 64  # that one read of a disk reader brings
HEAD = struct.Struct("=iiiiqqqqqq")


def program(expression: str) -> bytes:
    return compile_expression(expression).program


def subscribe(
    shard: Shard, group: str, expression: str, topic: str = "t", version: int = 1
) -> None:
    shard.core.put_group(group.encode(), 1, 1)
    shard.core.put_subscription(
        group.encode(), topic.encode(), version, None, 0, program(expression)
    )


def fill(shard: Shard, count: int, topic: str = "t", first: int = 0, more: str = "") -> None:
    """Sends messages; message n has the properties n = n and odd = n % 2."""
    client = shard.connect()
    for begin in range(first, first + count, 500):
        numbers = range(begin, min(begin + 500, first + count))
        client.put(*(
            send(topic, b"%d" % n, n, i=f"n\x01{n}\x02odd\x01{n % 2}\x02{more}") for n in numbers
        ))  # fmt: skip
        assert {reply.code for reply in client.replies(len(numbers)).values()} == {0}


def pull_through(client: Client, frame: Callable[[int], bytes], end: int) -> tuple[list[int], int]:
    """Pulls from offset 0 to the end; returns the bodies and the number of requests."""
    found: list[int] = []
    offset = requests = 0
    while offset < end:
        reply = client.ask(frame(offset))
        requests += 1
        assert reply.code in (0, 20), (reply.code, reply.remark)
        found += [int(body) for body in bodies(reply)] if reply.code == 0 else []
        following = int(reply.fields["nextBeginOffset"])
        assert offset < following <= end
        offset = following
    return found, requests


def test_only_messages_that_pass_the_expression_are_given(shard: Shard) -> None:
    subscribe(shard, "s", "n BETWEEN 10 AND 19 AND odd = '1'")
    fill(shard, 100)
    client = shard.connect()
    reply = client.ask(pull("s", "t"))
    assert bodies(reply) == [b"11", b"13", b"15", b"17", b"19"]
    assert (reply.fields["nextBeginOffset"], reply.fields["maxOffset"]) == ("100", "100")
    assert bodies(client.ask(pull("s", "t", 12, maxMsgNums=2))) == [b"13", b"15"]
    nothing = client.ask(pull("s", "t", 20))
    assert (nothing.code, nothing.fields["nextBeginOffset"]) == (20, "100")
    stats = shard.core.stats()
    assert stats["entries_skipped"] == 95 + 2 + 80
    assert stats["filter_failures"] == 0


def test_an_evaluation_that_fails_gives_nothing_and_is_counted(shard: Shard) -> None:
    subscribe(shard, "s", "NOT (word > 5)")
    fill(shard, 3, more="word\x01abc\x02")
    reply = shard.connect().ask(pull("s", "t"))
    assert (reply.code, reply.fields["nextBeginOffset"]) == (20, "3")
    assert shard.core.stats()["filter_failures"] == 3


def test_a_pull_brings_its_expression_along_once_control_has_compiled_it(shard: Shard) -> None:
    fill(shard, 10)
    client = shard.connect()
    text = "n > 7 AND 'é\"\\' <> odd"
    frame = pull("g", "t", sysFlag=4, subscription=text, expressionType="SQL92")
    client.put(frame)
    ((number, handed),) = shard.reports(REQUEST)
    shard.core.put_expression(text.encode(), program(text))
    shard.core.resubmit(number, handed)
    assert bodies(client.reply()) == [b"8", b"9"]
    assert bodies(client.ask(frame)) == [b"8", b"9"]  # control is not asked again
    assert shard.kept(REQUEST) == []
    tags = pull("g", "t", sysFlag=4, subscription="*", expressionType="")
    assert len(bodies(client.ask(tags))) == 10


def test_expressions_are_forgotten_when_there_are_too_many(shard: Shard) -> None:
    fill(shard, 3)
    client = shard.connect()
    for number in range(1030):
        text = f"n = {number}"
        shard.core.put_expression(text.encode(), program(text))
    own = {"sysFlag": 4, "expressionType": "SQL92"}
    assert client.ask(pull("g", "t", subscription="n = 1029", **own)).code == 20
    client.put(pull("g", "t", subscription="n = 1", **own))
    assert len(shard.reports(REQUEST)) == 1


def test_what_only_control_may_answer_goes_to_it(shard: Shard) -> None:
    subscribe(shard, "s", "n = 1")
    shard.core.put_expression(b"n = 1", program("n = 1"))
    brought = {"subscription": "n = 1", "expressionType": "SQL92"}
    frames = [
        pull("s", "t", subVersion=2),
        pull("s", "t", sysFlag=8),
        pull("g", "t", sysFlag=12, **brought),
        pull("g", "t", sysFlag=4, subscription="n = 1", expressionType="LUA"),
        pull("g", "t", sysFlag=4, expressionType="SQL92"),
        pull("g", "t", sysFlag=4, subscription="n = '" + "x" * 70_000 + "'",
             expressionType="SQL92"),
    ]  # fmt: skip
    client = shard.connect()
    for frame in frames:
        client.put(frame)
        ((_, handed),) = shard.reports(REQUEST)
        assert handed == frame[4:]
    shard.core.set_option("property_filter", 0)
    for frame in (pull("s", "t"), pull("g", "t", sysFlag=4, **brought)):
        client.put(frame)
        shard.reports(REQUEST)
    assert client.is_silent()


def test_a_newer_subscription_replaces_the_filter_and_held_pulls_keep_theirs(shard: Shard) -> None:
    subscribe(shard, "s", "n = 1")
    waiting, other = shard.connect(), shard.connect()
    waiting.put(pull("s", "t", hold_ms=HELD_MS))
    shard.until(lambda counters: counters["pulls_waiting"] == 1)
    subscribe(shard, "s", "n = 2", version=2)
    shard.core.remove_subscriptions(b"s")
    subscribe(shard, "s", "n = 2", version=2)
    fill(shard, 3)
    assert bodies(waiting.reply()) == [b"1"]
    assert bodies(other.ask(pull("s", "t"))) == [b"2"]


@pytest.mark.parametrize("by", ["sql", "tag"])
def test_a_held_pull_waits_for_a_message_that_passes(shard: Shard, by: str) -> None:
    if by == "sql":
        subscribe(shard, "s", "n >= 5")
    else:
        shard.group("s", "t", tags=["five"])
    waiting = shard.connect()
    waiting.put(pull("s", "t", hold_ms=HELD_MS, opaque=7))
    shard.until(lambda counters: counters["pulls_waiting"] == 1)
    fill(shard, 5)
    assert waiting.is_silent()
    fill(shard, 1, first=5, more="TAGS\x01five\x02")
    reply = waiting.reply()
    assert (reply.opaque, bodies(reply), reply.fields["nextBeginOffset"]) == (7, [b"5"], "6")


@pytest.mark.parametrize("by", ["sql", "tag"])
def test_a_held_pull_goes_on_behind_what_does_not_pass(
    clock: DrivenClock, shard: Shard, by: str
) -> None:
    """A held pull skips messages that do not pass as they come, so nothing is left to skip when its
    message comes."""
    if by == "sql":
        subscribe(shard, "s", "n = 40000")
    else:
        shard.group("s", "t", tags=["late"])
    waiting = shard.connect()
    waiting.put(pull("s", "t", hold_ms=30_000))
    shard.until(lambda counters: counters["pulls_waiting"] == 1)
    fill(shard, 1000)
    before = shard.core.stats()["entries_skipped"]
    fill(shard, 1, first=40_000, more="TAGS\x01late\x02")
    reply = waiting.reply()
    assert (reply.code, bodies(reply), reply.fields["nextBeginOffset"]) == (0, [b"40000"], "1001")
    assert shard.core.stats()["entries_skipped"] == before
    waiting.put(pull("s", "t", 1001, hold_ms=5000))
    shard.until(lambda counters: counters["pulls_waiting"] == 1)
    fill(shard, 10, first=1000)
    clock.advance(5.5)  # a pull ends at a tick of its wheel
    reply = waiting.reply()
    assert (reply.code, reply.fields["nextBeginOffset"]) == (19, "1011")
    assert shard.core.stats()["entries_skipped"] == before


def test_a_turn_spends_a_bounded_amount_on_filters(shard: Shard, tmp_path: Path) -> None:
    """Ten pulls that skip all messages must not keep the broker from answering others."""
    fill(shard, 20_000)
    subscribe(shard, "s", "n < 0")
    skippers = [shard.connect() for _ in range(10)]
    other = shard.connect()
    end = shard.core.log_range()[1]
    shard.core.sync_log(end)
    (segment,) = tmp_path.rglob(f"commitlog/{0:020d}")
    with kept_in_memory(segment, end):  # reads of the disk would change what a pull costs
        before = shard.core.stats()
        for skipper in skippers:
            skipper.put(pull("s", "t"))
        other.ask(pull("g", "t", 3, maxMsgNums=1))
        replies = [skipper.reply() for skipper in skippers]
    stats = shard.core.stats()
    passed = [int(reply.fields["nextBeginOffset"]) for reply in replies]
    assert {reply.code for reply in replies} == {20}
    # A page that the kernel moves counts as not in memory for that moment: its records come from
    # the disk, cost no turn, and the pull is answered before its end.
    reads = stats["pulls_from_disk"] - before["pulls_from_disk"]
    assert all(at == 16_384 for at in passed) or (reads > 0 and max(passed) <= 16_384)
    skipped = stats["entries_skipped"] - before["entries_skipped"]
    assert skipped == sum(passed)
    # A record costs 17, and a turn has 32768: 163,840 records take 85 turns.
    assert stats["turns"] - before["turns"] >= (skipped - reads * READ_RECORDS_MAX) * 17 // 32_768


def test_a_reply_is_filled_over_several_turns_or_given_as_it_is(shard: Shard) -> None:
    fill(shard, 20_000)
    subscribe(shard, "s", "n IN ('100', '101', '9000', '16383', '16384', '19999')")
    found, requests = pull_through(shard.connect(), lambda at: pull("s", "t", at), 20_000)
    assert found == [100, 101, 9000, 16383, 16384, 19999]
    assert requests <= 7


def test_retried_messages_are_judged_by_their_own_topics_filter_when_it_is_asked_for(
    shard: Shard,
) -> None:
    retry = "%RETRY%s"
    shard.topic(retry)
    shard.topic("other")
    subscribe(shard, "s", "n > 1")
    subscribe(shard, "s", "n > 100", topic=retry)
    for n, origin in ((0, "t"), (1, "t"), (2, "t"), (3, "t"), (0, "other"), (0, "")):
        properties = b"n\x01%d\x02" % n + (
            b"RETRY_TOPIC\x01%b\x02" % origin.encode() if origin else b""
        )
        shard.core.append(retry.encode(), 0, b"%d" % n, properties, 0, 0, 1, bytes(8), 1, 0)
    client = shard.connect()
    # With filterSupportRetry=false the retry topic's own filter counts.
    assert client.ask(pull("s", retry)).code == 20
    shard.core.set_option("filter_retries", 1)
    assert bodies(client.ask(pull("s", retry))) == [b"2", b"3", b"0", b"0"]


# ---- from the disk


@pytest.mark.parametrize("by", ["sql", "tag"])
def test_filtered_messages_come_from_the_disk_too(tmp_path: Path, by: str) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        fill(shard, 3000)
    with Shard(tmp_path) as shard:
        shard.topic("t")
        fill(shard, 100, first=3000, more="TAGS\x01here\x02")
        wanted = [700, 701, 2999, 3050]
        if by == "sql":
            texts = ", ".join(f"'{n}'" for n in wanted)
            subscribe(shard, "s", f"n IN ({texts})")
        else:
            shard.group("s", "t", tags=["here"])
            wanted = list(range(3000, 3100))
        drop_page_cache(tmp_path / "store")
        found, _ = pull_through(shard.connect(), lambda at: pull("s", "t", at), 3100)
        assert found == wanted


def test_entries_that_were_skipped_are_not_looked_at_again(tmp_path: Path) -> None:
    """A pull whose next queue entries come from the disk counts each skipped entry once. It is
    tried again if the page came into memory before the kernel said that it was missing."""
    until = time.monotonic() + HANG_S
    with Shard(tmp_path) as shard:
        shard.topic("t")
        fill(shard, 3000)
    path = tmp_path / "store" / "consumequeue" / "t" / "0" / "00000000000000000000"
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("s", "t", tags=["here"])
        client = shard.connect()
        reads = skipped = 0
        while reads == 0:
            assert time.monotonic() < until, "the queue is always in memory"
            drop_from_page_cache(path.parent)
            with path.open("rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                file.read(2 * mmap.PAGESIZE)
            reply = client.ask(pull("s", "t"))
            assert (reply.code, reply.fields["nextBeginOffset"]) == (20, "3000")
            skipped += 3000
            stats = shard.core.stats()
            assert stats["entries_skipped"] == skipped
            reads = stats["pulls_from_disk"]


def test_a_record_damaged_on_disk_stops_the_filtered_pull_there(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        fill(shard, 100)
        record = messages(shard.connect().ask(pull_all(shard, 50)))[0]
    log = next((tmp_path / "store" / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(record.physical_offset + 20)
        file.write(b"\xff")
    with Shard(tmp_path) as shard:
        shard.topic("t")
        subscribe(shard, "s", "n >= 40")
        client = shard.connect()
        assert bodies(client.ask(pull("s", "t", 0)))[-1] == b"49"
        reply = client.ask(pull("s", "t", 50))
        assert reply.code == 1 and "damaged" in (reply.remark or "")


def pull_all(shard: Shard, offset: int) -> bytes:
    shard.group("all", "t")
    return pull("all", "t", offset)


# ---- entries that Apache wrote with enableConsumeQueueExt


def test_the_tag_of_an_entry_that_points_into_the_extension_is_read_from_the_record(
    tmp_path: Path,
) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        client = shard.connect()
        for n in range(60):
            tag = f"TAGS\x01{'abc'[n % 3]}\x02" if n % 4 else ""
            client.put(send("t", b"%d" % n, n, i=tag))
        client.replies(60)
    path = tmp_path / "store" / "consumequeue" / "t" / "0" / "00000000000000000000"
    with path.open("r+b") as file:
        for n in range(60):
            file.seek(n * 20 + 12)
            file.write(struct.pack(">q", -(2**63) + n * 46))
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("s", "t", tags=["b", "other"])
        expected = [n for n in range(60) if n % 4 and n % 3 == 1]
        for cold in (False, True):
            if cold:
                drop_page_cache(tmp_path / "store")
            found, _ = pull_through(shard.connect(), lambda at: pull("s", "t", at), 60)
            assert found == expected
        everything = bodies(shard.connect().ask(pull_all(shard, 0)))
        assert len(everything) == 32


# ---- functions


def test_a_pull_with_a_function_is_left_to_control_with_its_records(shard: Shard) -> None:
    shard.core.put_group(b"f", 1, 1)
    shard.core.put_subscription(b"f", b"t", 1, None, 0, program("odd = '1'"), 3)
    fill(shard, 10)
    client = shard.connect()
    client.put(pull("f", "t", 2, opaque=77))
    ((number, payload),) = shard.reports(FUNCTION_PULL)
    assert number > 0
    head = HEAD.unpack_from(payload)
    assert head == (77, 0, 3, 0, 10, 0, 10, 0, 0, 1)
    assert payload[HEAD.size : HEAD.size + 1] == b"t"
    records = payload[HEAD.size + 1 :]
    assert [int(m.body) for m in decode_messages(records)] == [3, 5, 7, 9]
    assert client.is_silent()
    nothing = client.ask(pull("f", "t", 10))
    assert (nothing.code, nothing.fields["nextBeginOffset"]) == (19, "10")
    client.put(pull("f", "t", 10, opaque=78, hold_ms=HELD_MS))
    shard.until(lambda counters: counters["pulls_waiting"] == 1)
    fill(shard, 2, first=10)
    ((_, payload),) = shard.reports(FUNCTION_PULL)
    assert HEAD.unpack_from(payload)[0] == 78
    assert shard.core.stats()["pulls_waiting"] == 0


def test_a_program_that_is_none_is_refused(shard: Shard) -> None:
    for bad in (b"SQL1", b"nonsense" * 9, program("n = 1")[:-1]):
        with pytest.raises(Exception, match=r"group|SQL92"):
            shard.core.put_subscription(b"g", b"t", 2, None, 0, bad)
        with pytest.raises(Exception, match="SQL92"):
            shard.core.put_expression(b"x", bad)
    fill(shard, 1)
    assert bodies(shard.connect().ask(pull("g", "t"))) == [b"0"]
