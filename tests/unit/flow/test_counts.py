"""What the reactor counts for operators, by topic, group and request: a real core, real sockets.

Names and labels are tested in tests/unit/observe; this file only shows that each event is counted
in the right place.
"""

import asyncio
import time
from pathlib import Path

from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.live_broker import served
from support.name_server import in_loop
from support.shard import HELD_MS, Shard, pull, send, send_batch
from support.waiting import until

from rmq.observe.sample import TopicSample

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
TIMER = "rmq_sys_wheel_timer"


def topic(shard: Shard, name: str) -> TopicSample:
    row = shard.core.topic_table()[name.encode()]
    return TopicSample(name, *row[:4], numbers=row[5])


def counts(shard: Shard, name: str) -> dict[str, int]:
    return {kind: messages for kind, (messages, _) in topic(shard, name).kinds.items()}


def test_messages_count_by_their_type(shard: Shard) -> None:
    client = shard.connect()
    assert client.ask(send("t", b"plain", 1)).code == 0
    assert client.ask(send("t", b"ordered", 2, i="__SHARDINGKEY\x01k\x02")).code == 0
    # A delay level of 0 is no delay.
    assert client.ask(send("t", b"again", 3, i="DELAY\x010\x02")).code == 0
    assert client.ask(send_batch("t", [b"x", b"y", b"z"], 4)).code == 0
    assert counts(shard, "t") == {"normal": 5, "fifo": 1}
    found = topic(shard, "t")
    assert found.messages_in == 6
    assert sum(size for _, size in found.kinds.values()) == found.bytes_in


def test_what_a_group_was_given_counts_for_it_alone(shard: Shard) -> None:
    shard.group("h", "t")
    client = shard.connect()
    for n in range(5):
        assert client.ask(send("t", b"x", n)).code == 0
    stored = topic(shard, "t").bytes_in
    assert shard.core.deliveries() == {}
    assert client.ask(pull("g", "t", 0)).code == 0
    assert client.ask(pull("g", "t", 3)).code == 0
    assert client.ask(pull("h", "t", 0)).code == 0
    assert client.ask(pull("h", "t", 5)).code == 19
    assert shard.core.deliveries() == {
        (b"g", b"t"): (7, stored * 7 // 5),
        (b"h", b"t"): (5, stored),
    }
    assert topic(shard, "t").messages_out == 12


def test_counters_of_a_removed_group_do_not_come_back(clock: DrivenClock, shard: Shard) -> None:
    """A waiting pull keeps the address of its group's counters, so they outlive the group."""
    client = shard.connect()
    client.put(pull("g", "t", 0, 1, hold_ms=HELD_MS))
    shard.until(lambda counters: counters["pulls_waiting"] == 1)
    shard.core.remove_group(b"g")
    client.put(send("t", b"x", 2))
    assert sorted(client.replies(2)) == [1, 2]
    shard.group("g", "t")
    assert shard.core.deliveries() == {}
    assert topic(shard, "t").messages_out == 1


def test_a_group_may_read_many_topics(shard: Shard) -> None:
    client = shard.connect()
    names = [f"many-{n}" for n in range(300)]  # more topics than are counted singly
    for name in names:
        shard.topic(name)
        shard.group("g", name)
        client.put(send(name, b"x"), pull("g", name))
    client.put(*(pull("g", name) for name in names[:3]))
    for _ in range(2 * len(names) + 3):
        client.reply()
    found = shard.core.deliveries()
    assert len(found) == 256
    assert {found[b"g", name.encode()][0] for name in names[:3]} == {2}
    assert {found[b"g", name.encode()][0] for name in names[3:256]} == {1}


def test_answers_are_timed_by_request_answer_and_holding(shard: Shard) -> None:
    client = shard.connect()
    client.put(*(send("t", b"x", n) for n in range(20)))
    client.replies(20)
    assert client.ask(send("t", b"x", 1, queue=99)).code == 29
    assert client.ask(pull("g", "t", 0)).code == 0
    assert client.ask(send("t", b"one way", 7, one_way=True) + pull("g", "t", 21, 8)).code == 19
    client.put(pull("g", "t", 21, 9, hold_ms=150))
    assert client.reply().code == 19
    found = {key: sum(steps) for key, (steps, _) in shard.core.rpc_times().items()}
    assert found == {
        (310, 0, False): 20, (310, 29, False): 1, (11, 0, False): 1,
        (11, 19, False): 1, (11, 19, True): 1,
    }  # fmt: skip
    steps, total = shard.core.rpc_times()[11, 19, True]
    assert total >= 100
    assert sum(steps[6:]) == 1  # held for 100 ms to a second, or longer on a busy machine


def test_a_send_that_waits_for_the_disk_is_timed_until_its_answer(tmp_path: Path) -> None:
    with Shard(tmp_path, sync_flush=True) as shard:
        shard.topic("t")
        client = shard.connect()
        began = time.monotonic()
        for n in range(10):
            assert client.ask(send("t", b"x", n)).code == 0
        took_ms = (time.monotonic() - began) * 1000
        steps, total = shard.core.rpc_times()[310, 0, False]
        assert sum(steps) == 10
        assert total <= took_ms + 10  # each answer's time is rounded to a millisecond


@in_loop
async def test_delayed_and_timed_messages_count_where_they_wait_and_where_they_come(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with served(tmp_path, messageDelayLevel="1s") as (broker, client):
        for properties in ("", "DELAY\x011\x02", "TIMER_DELAY_MS\x01300\x02"):
            assert (await client.send("t", b"x", 1, i=properties)).code == 0

        def numbers(name: str) -> TopicSample:
            row = broker.core.topic_table()[name.encode()]
            return TopicSample(name, *row[:4], numbers=row[5])

        await until(lambda: numbers("t").messages_in == 3)
        assert {kind: n for kind, (n, _) in numbers("t").kinds.items()} == {"normal": 1, "delay": 2}
        for name in (SCHEDULE, TIMER):
            kinds = {kind: n for kind, (n, _) in numbers(name).kinds.items()}
            assert kinds == {"normal": 0, "delay": 1}
        assert (sum(numbers("t").timed[0]), numbers("t").timed_out) == (1, 1)
        assert sum(numbers(TIMER).timed[0]) == 0


@in_loop
async def test_transactions_count_by_their_topic(tmp_path: Path) -> None:
    marks = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"

    async def end(client: BrokerClient, half: dict[str, str], decision: int) -> None:
        reply = await client.call(
            37, producerGroup="P", tranStateTableOffset=half["queueOffset"],
            commitLogOffset=int(half["msgId"][-16:], 16), commitOrRollback=decision,
            fromTransactionCheck=False, msgId="U",
        )  # fmt: skip
        assert reply.code == 0, reply.remark

    async with served(tmp_path) as (broker, client):
        assert (await client.send("t", b"make")).code == 0
        born = time.time_ns() // 1_000_000 - 20_000
        for decision in (8, 8, 12):
            half = await client.send("t", b"x", i=marks, h=4, g=born)
            assert half.code == 0, half.remark
            await end(client, half.fields, decision)
        await asyncio.sleep(0)
        row = broker.core.topic_table()[b"t"]
        found = TopicSample("t", *row[:4], numbers=row[5])
        assert found.ended == (2, 1)
        kinds = {kind: messages for kind, (messages, _) in found.kinds.items()}
        assert kinds == {"normal": 1, "transaction": 2}
        halves = broker.core.topic_table()[HALF.encode()]
        assert TopicSample(HALF, *halves[:4], numbers=halves[5]).kinds["transaction"][0] == 3
        steps, seconds = broker.core.histograms()["finish"]
        assert (sum(steps), steps[1]) == (3, 3)  # between 5 s and a minute
        assert 60 <= seconds < 180
