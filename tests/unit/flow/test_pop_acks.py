"""Which acks are in the log, when an ack is answered, and what is known of pops after a kill."""

import contextlib
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock, pass_some_time
from support.live_broker import live_broker, open_core, records, running, served
from support.name_server import in_loop
from support.popping import (
    ACK,
    BATCH_ACK,
    POP,
    REVIVE_LOG,
    Popped,
    ack,
    ack_fields,
    change,
    now_ms,
    pop,
    pop_all,
    pop_fields,
)
from support.stored_table import stored_offsets
from support.waiting import pass_seconds, until

from cext.flow.shard_core import ShardCore
from rmq.broker.broker import Broker
from rmq.broker.tables import pop_orders
from rmq.broker.tasks import pop_recovery
from rmq.codes import ResponseCode
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.observe.metrics import render

pytestmark = pytest.mark.usefixtures("clock")  # waits end at once: the clock jumps ahead

TIMER = "rmq_sys_wheel_timer"
RETRY = "%RETRY%g_t"
PAIRS_MAX, CHECK_POINTS_MAX = 262_144, 65_536  # limits in pop_table.pxd and revive_ring.pxd


async def fill(client: BrokerClient, count: int, queues: int = 1) -> None:
    for number in range(count):
        assert (await client.send("t", b"%d" % number, number % queues)).code == 0


def numbers(some: list[Popped]) -> list[int]:
    return sorted(int(one.body) for one in some)


def ack_records(broker: Broker) -> list[dict[str, Any]]:
    return [fastjson.loads(record.body) for record in records(broker, TIMER)
            if record.properties["TAGS"] != "ck"]  # fmt: skip


def acked(broker: Broker) -> list[tuple[int, int]]:
    """(queue id, offset) of all messages for which the log has an ack."""
    return sorted(
        (row["q"], offset) for row in ack_records(broker) for offset in row.get("aol", [row["ao"]])
    )


def places(some: list[Popped]) -> list[tuple[int, int]]:
    return sorted((one.message.queue_id, one.message.queue_offset) for one in some)


async def ack_in_one_write(client: BrokerClient, some: list[Popped]) -> list[int]:
    with client.in_one_write():
        posts = [client.post(ACK, **ack_fields("g", one)) for one in some]
    return [(await client.reply(post)).code for post in posts]


@in_loop
async def test_acks_of_one_check_point_that_come_together_are_one_record(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 40, 2)
        first = await pop(client, "g", "t", invisibleTime=10_000)
        await pass_seconds(broker.core, 0.01)  # so that the next pop has another time
        rest = await pop(client, "g", "t", invisibleTime=10_000)
        assert await ack_in_one_write(client, first[1:] + rest) == [0] * 39
        assert len(ack_records(broker)) < 20  # 3 or 4, if the socket keeps the requests together
        assert acked(broker) == places(first[1:] + rest)
        assert broker.core.stats()["pop_acks"] == 39
        pass_some_time(8)
        again = await pop_all(client, "g", "t", 1)
        assert numbers(again) == [int(first[0].body)]
        await pass_seconds(broker.core, 0.3)
        assert await pop(client, "g", "t") == []


@in_loop
async def test_a_batch_acknowledges_what_a_filter_found_far_behind_its_check_point(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", i="TAGS\x01a\x02")
        with client.in_one_write():
            posts = [
                client.post_send("t", i=f"TAGS\x01{'b' if number == 5000 else 'a'}\x02")
                for number in range(1, 5001)
            ]
        assert {(await client.reply(post)).code for post in posts} == {0}
        wanted = {"exp": "b", "expType": "TAG", "invisibleTime": 10_000}
        (one,) = await pop_all(client, "g", "t", 1, **wanted)
        start, popped_ms, invisible_ms, revive_queue, *_ = one.extra.split(" ")
        assert (int(start), one.message.queue_offset) == (0, 5000)
        bits = b64encode((1 << 5000).to_bytes(5000 // 8 + 1, "little")).decode()
        body = {"brokerName": "broker-a", "acks": [{
            "c": "g", "t": "t", "r": "0", "so": 0, "q": 0, "rq": int(revive_queue),
            "pt": int(popped_ms), "it": int(invisible_ms), "b": bits,
        }]}  # fmt: skip
        reply = await client.call(BATCH_ACK, fastjson.dumps(body))
        assert reply.code == 0, reply.remark
        assert acked(broker) == [(0, 5000)]
        await pass_seconds(broker.core, 12, 1.0)
        assert broker.core.stats()["pop_revived"] == 0
        assert await pop(client, "g", "t", **wanted) == []


@in_loop
async def test_more_check_points_than_places_and_acks_given_twice_are_all_taken(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 60)
        some = []
        while found := await pop(client, "g", "t", maxMsgNums=1):
            some += found
        assert len(some) == 60
        assert await ack_in_one_write(client, some + some[:5] * 8) == [0] * 100
        assert sorted(set(acked(broker))) == places(some)
        assert len(acked(broker)) == broker.core.stats()["pop_acks"] == 100


@in_loop
async def test_with_sync_flush_an_ack_is_answered_when_its_record_is_synced(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, flushDiskType="SYNC_FLUSH") as (broker, client):
        await fill(client, 20)
        some = await pop(client, "g", "t")
        assert len(some) == 20
        for one in some:
            await ack(client, "g", one)
            end = max(record.physical_offset for record in records(broker, TIMER))
            assert broker.core.log_range()[2] > end


@in_loop
async def test_who_leaves_before_the_answer_disturbs_nobody(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 4)
        some = await pop(client, "g", "t")
        async with BrokerClient(broker.core.port) as leaving:
            with leaving.in_one_write():
                for one in some[:2]:
                    leaving.post(ACK, **ack_fields("g", one))
        assert await ack_in_one_write(client, some[2:3]) == [0]
        client.post(ACK, one_way=True, **ack_fields("g", some[3]))
        # What a client sent just before it left may be lost.
        await until(lambda: set(places(some[2:])) <= set(acked(broker)))


# ------------------------------------------------------------------- after a kill


async def forget(broker: Broker) -> None:
    """Sets the broker's offsets back to those of its file, as a kill does."""
    broker.core.remove_offsets(None, None)
    for key, queues in stored_offsets(Path(broker.settings.storePathRootDir)).items():
        topic, _, group = key.partition("@")
        for queue, offset in queues.items():
            broker.offsets.commit(group, topic, int(queue), offset)


@in_loop
async def test_the_log_says_where_a_group_goes_on_that_pops(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 80, 2)
        await broker.offsets.save()
        mark = broker.offsets.mark
        assert mark is not None
        assert broker.core.popped_since(mark) == {}
        found = await pop(client, "g", "t", maxMsgNums=5, queueId=0)
        found += await pop(client, "g", "t", maxMsgNums=7, queueId=1)
        await ack(client, "g", found[0])
        await change(client, "g", found[1], 60_000)
        assert broker.core.popped_since(mark) == {(b"t", b"g", 0): 5, (b"t", b"g", 1): 7}
        await forget(broker)
        assert broker.offsets.query("g", "t", 0) == -1
        assert pop_recovery.recover(broker) == 2
        assert [broker.offsets.query("g", "t", n) for n in range(2)] == [5, 7]
        assert pop_recovery.recover(broker) == 0
        rest = await pop_all(client, "g", "t", 80 - len(found))
        assert numbers(found + rest) == list(range(80))


@in_loop
async def test_a_group_that_its_file_does_not_have_goes_on_there_too(tmp_path: Path) -> None:
    """The pop made the group, and the power was cut before subscriptionGroup.json had it."""
    async with served(tmp_path) as (broker, client):
        await fill(client, 20)
        await broker.offsets.save()
        await pop(client, "g", "t", maxMsgNums=5)
        await forget(broker)
        broker.groups._groups.pop("g")
        assert pop_recovery.recover(broker) == 1
        assert broker.offsets.query("g", "t", 0) == 5


@in_loop
async def test_what_an_operator_has_reset_since_stays_reset(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 20)
        some = await pop(client, "g", "t", invisibleTime=5000)
        assert len(some) == 20
        await broker.offsets.reset("g", "t", {0: 0})
        # The check point comes out of the timer behind the mark of the offset file.
        await until(lambda: broker.core.stats()["pop_revived"] == 20)
        await change(client, "g", some[3], 60_000)
        await forget(broker)
        assert pop_recovery.recover(broker) == 0
        assert broker.offsets.query("g", "t", 0) == 0


@in_loop
async def test_without_a_mark_the_log_is_not_believed(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 3)
        await pop(client, "g", "t")
        broker.offsets.mark = None
        await client.call(15, consumerGroup="g", topic="t", queueId=0, commitOffset=0)
        assert pop_recovery.recover(broker) == 0
        assert broker.offsets.query("g", "t", 0) == 0


@in_loop
async def test_the_file_has_a_mark_from_the_first_start_on(tmp_path: Path) -> None:
    file = tmp_path / "config" / "consumerOffset.json"
    async with live_broker(tmp_path) as broker:
        assert fastjson.loads(file.read_bytes())["rmqLogOffset"] == broker.offsets.mark == 0


@in_loop
async def test_what_came_again_says_so_in_the_log(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 3)
        some = await pop(client, "g", "t", invisibleTime=100)
        await until(lambda: broker.core.stats()["pop_revived"] == 3)
        queue = int(some[0].extra.split(" ")[3])
        revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
        await until(lambda: len(records(broker, revive, queue)) == 2)
        note = records(broker, revive, queue)[1]
        assert fastjson.loads(note.body)["aol"] == [0, 1, 2]
        assert (note.properties["TAGS"], note.properties["POP_REVIVED"]) == ("bAck", "1")
        assert records(broker, RETRY)[-1].physical_offset < note.physical_offset
        assert broker.core.stats()["pop_acks_late"] == 0


@in_loop
async def test_a_check_point_that_is_delivered_twice_is_one(tmp_path: Path) -> None:
    """A kill between a delivery of the timer and the write of its position delivers the check point
    again; it has one ack all the same."""
    async with served(tmp_path) as (broker, client):
        await fill(client, 3)
        some = await pop(client, "g", "t", invisibleTime=60_000)
        (point,) = records(broker, TIMER)
        await ack(client, "g", *some[:2])
        revive = point.properties["REAL_TOPIC"].encode(), int(point.properties["REAL_QID"])
        broker.core.append(*revive, point.body, point.properties_bytes, 0, 0, 1, bytes(8), 0, 0)
        pass_some_time(58)
        (again,) = await pop_all(client, "g", "t", 1)
        assert again.body == some[2].body
        await ack(client, "g", again)
        tags = [each.properties["TAGS"] for each in records(broker, revive[0].decode(), revive[1])]
        assert tags[:2] == ["ck", "ck"]
        await pass_seconds(broker.core, 3)
        assert broker.core.stats()["pop_revived"] == 1


@in_loop
async def test_a_change_within_the_pops_millisecond_is_a_check_point_of_its_own(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with served(tmp_path) as (broker, client):
        await fill(client, 1)
        # The broker's clock stands still until it reaches the earlier time again.
        clock.set_wall(-60)
        (one,) = await pop(client, "g", "t", maxMsgNums=1, invisibleTime=60_000)
        changed = await change(client, "g", one, 60_000)
        twice = await change(client, "g", changed, 60_000)
        first, *others = [int(each.extra.split(" ")[1]) for each in (one, changed, twice)]
        assert others == [first + 1, first + 2]
        points = [fastjson.loads(record.body) for record in records(broker, TIMER)
                  if record.properties["TAGS"] == "ck"]  # fmt: skip
        assert [point["pt"] for point in points] == [first, *others], "as it was answered"
        clock.advance(118)
        (again,) = await pop_all(client, "g", "t", 1)
        await ack(client, "g", again)
        await pass_seconds(broker.core, 3)
        assert broker.core.stats()["pop_revived"] == 1


def put_pairs(core: ShardCore, topic: bytes, groups: Iterable[bytes]) -> None:
    """Makes pairs of topic and group, as pops do."""
    core.put_topic(topic, 1, 1, 6, 0)
    block = pop_orders.packed({"o": [0], "popTime": 0})
    for group in groups:
        with contextlib.suppress(RmqError):  # the queue does not exist, but the pair is made
            core.put_pop_order(topic, group, -1, block)


def put_many_pairs(core: ShardCore, count: int) -> None:
    put_pairs(core, b"other", (b"g%d" % number for number in range(count)))


@in_loop
async def test_what_was_popped_before_a_start_comes_again_however_many_pop_since(
    tmp_path: Path,
) -> None:
    """When the check point comes out of the timer, there are as many pairs of topic and group as
    pops may make. Only this check point can bring the message back, because the group's offset is
    behind it."""
    async with served(tmp_path) as (_, client):
        await fill(client, 1)
        assert len(await pop(client, "g", "t", invisibleTime=60_000)) == 1
    settings, core = open_core(tmp_path)
    put_many_pairs(core, PAIRS_MAX)
    async with running(settings, core) as broker, BrokerClient(core.port) as client:
        pass_some_time(58)
        await until(lambda: core.stats()["pop_revived"] == 1)
        assert [each.body for each in records(broker, RETRY)] == [b"0"]
        assert core.stats()["pop_unreadable"] == 0
        # Its pair is gone with its check point, because there are as many pairs as there may be.
        reply = await client.call(POP, **pop_fields("g", "t"))
        assert reply.code == ResponseCode.POLLING_FULL


@in_loop
async def test_a_pair_that_a_pop_made_stays_when_a_check_point_of_it_ends_among_too_many(
    tmp_path: Path,
) -> None:
    """Meanwhile a check point of another group waits, whose pair is one too many."""
    # With one revive queue check points end in the order of their times.
    one_ring = {"reviveQueueNum": 1}
    async with served(tmp_path, **one_ring) as (_, client):
        await fill(client, 2)
        few = {"maxMsgNums": 1, "invisibleTime": 60_000}
        await ack(client, "h", *await pop(client, "h", "t", **few))
        assert len(await pop(client, "g", "t", **few)) == 1
    settings, core = open_core(tmp_path, **one_ring)
    put_many_pairs(core, PAIRS_MAX - 1)
    put_pairs(core, b"t", [b"h"])
    assert core.stats()["pop_pairs"] == PAIRS_MAX
    async with running(settings, core) as broker, BrokerClient(core.port) as client:
        pass_some_time(58)
        await until(lambda: core.stats()["pop_revived"] == 1)
        assert numbers(await pop(client, "h", "t")) == [1]
        assert [each.body for each in records(broker, RETRY)] == [b"0"]
        assert core.stats()["pop_pairs"] == PAIRS_MAX


@in_loop
async def test_pairs_beside_those_of_pops_go_with_their_check_points(tmp_path: Path) -> None:
    """A change of an invisible time makes a check point of a pair that is not known; a pop in order
    would keep its pair for ever."""
    groups = [f"late{number}" for number in range(5)]
    async with served(tmp_path) as (_, client):
        await fill(client, 2)
        long = {"maxMsgNums": 1, "invisibleTime": 3_600_000}
        some = {group: (await pop(client, group, "t", **long))[0] for group in groups}
    settings, core = open_core(tmp_path)
    put_many_pairs(core, PAIRS_MAX)

    def all_came() -> bool:
        return core.stats()["pop_revived"] == len(groups)

    async with running(settings, core) as broker, BrokerClient(core.port) as client:
        for group, one in some.items():
            await change(client, group, one, 5000)
        # The check points wait for a second. If the machine was too slow, they are over.
        await until(lambda: core.stats()["pop_pairs"] > PAIRS_MAX or all_came())
        for group in groups:
            reply = await client.call(POP, **pop_fields(group, "t", order="true"))
            assert reply.code == ResponseCode.POLLING_FULL
        await until(all_came)
        reply = await client.call(POP, **pop_fields(groups[0], "t"))
        assert reply.code == ResponseCode.POLLING_FULL
        assert core.stats()["pop_pairs"] == PAIRS_MAX
        assert [len(records(broker, f"%RETRY%{group}_t")) for group in groups] == [1] * 5
        core.remove_topic(b"other")  # the pairs of this topic go with it, so there is room
        assert len(await pop(client, groups[0], "t", maxMsgNums=1)) == 1


# ------------------------------------------------------------------- many at once


@in_loop
async def test_more_check_points_than_a_ring_holds_are_hurried_and_told(tmp_path: Path) -> None:
    """The check points end at the same moment. The ring is full, so ten cannot be read: for each of
    them another one makes room before it is known which acks are in the log. The others wait until
    it is known."""
    one_file = {"mappedFileSizeCommitLog": 64 << 20}  # check points come faster than files are made
    async with served(tmp_path, reviveQueueNum=1, **one_file) as (broker, client):
        await fill(client, 1)
        await ack(client, "g", *await pop(client, "g", "t"))
        core, begun_ms = broker.core, now_ms()
        body = (b'{"bm":0,"bn":"broker-a","c":"g","it":%d,"n":1,"pt":%d,"q":0,"ro":0,"so":1000,'
                b'"t":"t"}')  # fmt: skip
        revive_log, host = REVIVE_LOG.encode(), bytes(8)
        for number in range(CHECK_POINTS_MAX + 10):
            # Each check point is of another pop, of a message that does not exist.
            check_point = body % (3_600_000 + number, begun_ms - number)
            core.append(revive_log, 0, check_point, b"TAGS\x01ck\x02", 0, 0, begun_ms, host, 0, 0)
        assert core.stats()["pop_hurried"] == core.stats()["pop_unreadable"] == 0
        pass_some_time(3_600)
        await until(lambda: core.stats()["pop_unreadable"] == CHECK_POINTS_MAX + 10)
        hurried = core.stats()["pop_hurried"]
        assert 10 <= hurried < 100  # some more while records are fetched from the disk
        (told,) = {line for line in render([broker.sampler.take()]).decode().splitlines()
                   if line.startswith("rmq_pops_hurried_total{")}  # fmt: skip
        assert told.endswith(f" {hurried}")


# ------------------------------------------------------------------- settings


@in_loop
async def test_a_group_with_too_many_in_its_hands_gets_no_more_of_the_queue(
    tmp_path: Path,
) -> None:
    settings = {"enablePopMessageThreshold": True, "popInflightMessageThreshold": 10}
    async with served(tmp_path, **settings) as (broker, client):
        await fill(client, 40, 2)
        few = {"maxMsgNums": 6, "queueId": 0}
        some = await pop(client, "g", "t", **few) + await pop(client, "g", "t", **few)
        assert len(some) == 12
        assert await pop(client, "g", "t", **few) == []
        assert len(await pop(client, "g", "t", maxMsgNums=6, queueId=1)) == 6
        assert len(await pop(client, "other", "t", **few)) == 6
        await ack(client, "g", some[0])
        assert await pop(client, "g", "t", **few) == []
        waiting = client.post(POP, **pop_fields("g", "t", **few, pollTime=3_600_000))
        async with BrokerClient(client.port) as other:
            await pass_seconds(broker.core, 0.1)
            await ack(other, "g", some[1])
        assert (await client.reply(waiting)).code == 0


@in_loop
async def test_what_comes_again_is_no_longer_in_the_groups_hands(tmp_path: Path) -> None:
    settings = {"enablePopMessageThreshold": True, "popInflightMessageThreshold": 3}
    async with served(tmp_path, **settings) as (_, client):
        await fill(client, 10)
        assert len(await pop(client, "g", "t", maxMsgNums=4, invisibleTime=5000)) == 4
        assert await pop(client, "g", "t") == []
        assert len(await pop_all(client, "g", "t", 10)) == 10


@in_loop
async def test_the_retry_topics_own_name_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path, popResponseReturnActualRetryTopic=True) as (broker, client):
        await fill(client, 2)
        assert len(await pop(client, "g", "t", invisibleTime=100)) == 2
        await until(lambda: broker.core.stats()["pop_revived"] == 2)
        reply = await client.call(POP, **pop_fields("g", "t"))
        assert reply.fields["msgOffsetInfo"] == "1 0 0,1"
        assert RETRY.encode() in reply.body
        assert b"POP_CK" not in reply.body
