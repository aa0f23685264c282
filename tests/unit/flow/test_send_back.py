"""Messages that consumers could not process (36, and sends to retry topics): a real shard core."""

from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.live_broker import entries, fill_log, records, served
from support.name_server import in_loop
from support.page_cache import drop_page_cache
from support.shard import HELD_MS
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.broker.tables.groups import GroupConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.message import StoredMessage, tags_code

pytestmark = pytest.mark.usefixtures("clock")  # waits end at once: the clock jumps ahead

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS = "1s 1s 5s 1h"


async def source_of(broker: Broker, client: BrokerClient, **fields: Any) -> StoredMessage:
    marks = "TAGS\x01a\x02KEYS\x01k\x02UNIQ_KEY\x01U\x02DELAY\x010\x02"
    await client.heartbeat("g", "t")
    reply = await client.send("t", b"job", 1, h=7, i=marks, g=123, **fields)
    assert reply.code == 0, reply.remark
    return records(broker, "t", 1)[-1]


def asks(source: StoredMessage, **change: Any) -> dict[str, Any]:
    return {
        "offset": source.physical_offset, "group": "g", "delayLevel": 0, "originTopic": "t",
        "originMsgId": "U", "unitMode": False, **change,
    }  # fmt: skip


def control_requests(broker: Broker) -> int:
    return broker.core.stats()["control_requests"]


@in_loop
async def test_a_failed_message_waits_with_what_it_was_and_comes_back(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel="1s 1s 1s 2s") as (broker, client):
        source = await source_of(broker, client)
        reply = await client.call(36, **asks(source))
        assert (reply.code, reply.fields) == (0, {})
        waiting = records(broker, SCHEDULE, 2)[0]
        assert (waiting.body, waiting.flag, waiting.born_timestamp_ms) == (b"job", 7, 123)
        assert (waiting.born_host, waiting.reconsume_times) == (source.born_host, 1)
        kept = waiting.properties
        assert kept["ORIGIN_MESSAGE_ID"] == source.message_id
        assert {name: kept[name] for name in ("TAGS", "KEYS", "UNIQ_KEY")} == {
            "TAGS": "a", "KEYS": "k", "UNIQ_KEY": "U",
        }  # fmt: skip
        assert (kept["RETRY_TOPIC"], kept["WAIT"]) == ("t", "false")
        assert (kept["DELAY"], kept["REAL_TOPIC"], kept["REAL_QID"]) == ("3", "%RETRY%g", "0")
        due = entries(broker, SCHEDULE, 2)[0][2]
        assert due - waiting.store_timestamp_ms == 1000
        await until(lambda: records(broker, "%RETRY%g"))
        came = records(broker, "%RETRY%g")[0]
        assert came.store_timestamp_ms >= due
        assert (came.body, came.reconsume_times) == (b"job", 1)
        assert came.properties == kept
        assert entries(broker, "%RETRY%g")[0][2] == tags_code("a")
        # The second failure keeps the message's origin, and waits one level longer.
        assert (await client.call(36, **asks(came))).code == 0
        second = records(broker, SCHEDULE, 3)[0]
        assert second.reconsume_times == 2
        assert second.properties == {**kept, "DELAY": "4"}
        stats = broker.core.stats()
        assert (stats["sent_back"], stats["dead_letters"]) == (2, 0)


@in_loop
async def test_what_is_known_is_sent_back_without_the_control_thread(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        source = await source_of(broker, client)
        before = control_requests(broker)
        sends = [client.post(36, **asks(source)) for _ in range(500)]
        assert {(await client.reply(opaque)).code for opaque in sends} == {0}
        assert control_requests(broker) == before
        assert len(records(broker, SCHEDULE, 2)) == 500
        assert broker.core.stats()["write_outs"] < 500 + before + 20


@in_loop
async def test_the_last_failure_goes_to_the_dead_letters(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        await broker.groups.update(GroupConfig("g", retry_times_max=2))
        source = await source_of(broker, client)
        await client.send("%RETRY%g", b"tired", 0, j=2, i="RETRY_TOPIC\x01first\x02")
        tired = records(broker, "%RETRY%g")[0]
        assert (await client.call(36, **asks(tired))).code == 0
        assert (await client.call(36, **asks(source, delayLevel=-1))).code == 0
        dead = records(broker, "%DLQ%g")
        assert [message.body for message in dead] == [b"tired", b"job"]
        assert [message.reconsume_times for message in dead] == [3, 1]
        assert dead[0].properties["RETRY_TOPIC"] == "first"
        assert dead[0].properties["ORIGIN_MESSAGE_ID"] == tired.message_id
        assert (dead[1].properties["RETRY_TOPIC"], dead[1].properties["DELAY"]) == ("t", "0")
        assert "REAL_TOPIC" not in dead[1].properties
        assert entries(broker, "%DLQ%g")[1][2] == tags_code("a")
        # The limit of the client counts more than that of the group.
        assert (await client.call(36, **asks(tired, maxReconsumeTimes=16))).code == 0
        assert (await client.call(36, **asks(source, maxReconsumeTimes=0))).code == 0
        assert [message.body for message in records(broker, "%DLQ%g")][2:] == [b"job"]
        stats = broker.core.stats()
        assert (stats["sent_back"], stats["dead_letters"]) == (1, 3)


@in_loop
async def test_an_asked_level_is_taken_up_to_the_highest(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        source = await source_of(broker, client)
        for level in (4, 99, 2**31 - 1):
            assert (await client.call(36, **asks(source, delayLevel=level))).code == 0
        waiting = records(broker, SCHEDULE, 3)
        assert [message.properties["DELAY"] for message in waiting] == ["4"] * 3


@in_loop
async def test_a_group_may_say_how_long_its_retries_wait(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy":
                  {"initial": 600_000, "max": 7_200_000, "multiplier": 2}}  # fmt: skip
        await broker.groups.update(GroupConfig("g", retry_policy=policy))
        source = await source_of(broker, client)
        assert (await client.call(36, **asks(source))).code == 0
        assert (await client.call(36, **asks(source, delayLevel=1))).code == 0
        assert len(records(broker, SCHEDULE, 3)) == 1
        assert len(records(broker, SCHEDULE, 0)) == 1
        await broker.groups.update(GroupConfig("g"))
        assert (await client.call(36, **asks(source))).code == 0
        assert len(records(broker, SCHEDULE, 2)) == 1


@in_loop
async def test_retries_are_spread_over_the_retry_queues(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        await broker.groups.update(GroupConfig("g", retry_queues=3))
        source = await source_of(broker, client)
        for _ in range(120):
            assert (await client.call(36, **asks(source))).code == 0
        targets = [each.properties["REAL_QID"] for each in records(broker, SCHEDULE, 2)]
        assert {target: targets.count(target) > 5 for target in targets} == {
            "0": True, "1": True, "2": True,
        }  # fmt: skip


@in_loop
async def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, autoCreateSubscriptionGroup=False) as (broker, client):
        await client.send("t", b"job", 1)
        source = records(broker, "t", 1)[0]
        assert (await client.call(36, **asks(source))).code == 26
        await broker.groups.update(GroupConfig("g"))
        assert (await client.call(36, **asks(source))).code == 0
        for change, code in (
            ({"offset": 1}, 1), ({"offset": source.physical_offset + 8}, 1), ({"offset": -1}, 1),
            ({"offset": 2**63 - 1}, 1), ({"offset": "x"}, 1), ({"group": "a/b"}, 29),
            ({"delayLevel": "x"}, 1), ({"group": "g" * 200}, 29),
        ):  # fmt: skip
            assert (await client.call(36, **asks(source, **change))).code == code, change
        missing = asks(source)
        del missing["delayLevel"]
        reply = await client.call(36, **missing)
        assert (reply.code, "delayLevel" in (reply.remark or "")) == (1, True)
        await broker.groups.update(GroupConfig("g", retry_queues=0))
        # The message is dropped, because the group's settings say so.
        assert (await client.call(36, **asks(source))).code == 0
        assert len(records(broker, SCHEDULE, 2)) == 1
        broker.settings.set("brokerPermission", "4")
        broker.settings_changed(["brokerPermission"])
        await broker.groups.update(GroupConfig("g"))
        assert (await client.call(36, **asks(source))).code == 16


@in_loop
async def test_a_message_is_sent_back_after_a_restart(tmp_path: Path) -> None:
    # So large that the next file is ready before this one is full.
    large = {"mappedFileSizeCommitLog": 16 << 20}
    async with served(tmp_path, messageDelayLevel=LEVELS, **large) as (broker, client):
        source = await source_of(broker, client)
        big = b"y" * 900_000
        for number in range(24):  # more than the ring and one log file hold
            assert (await client.send("t", big + b"%d" % number)).code == 0
    async with served(tmp_path, messageDelayLevel=LEVELS, **large) as (broker, client):
        assert (await client.call(36, **asks(source))).code == 0
        again = records(broker, SCHEDULE, 2)[0]
        assert (again.body, again.properties["ORIGIN_MESSAGE_ID"]) == (b"job", source.message_id)


@in_loop
async def test_clients_that_send_their_own_retries_need_no_control_thread(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        await client.heartbeat("g", "t")
        before = control_requests(broker)
        marks = "RETRY_TOPIC\x01t\x02ORIGIN_MESSAGE_ID\x01M\x02DELAY\x014\x02"
        assert (await client.send("%RETRY%g", b"own", 0, j=1, i=marks)).code == 0
        assert (await client.send("%RETRY%g", b"last", 0, j=3, l=3)).code == 0
        assert control_requests(broker) == before
        waiting = records(broker, SCHEDULE, 3)[0]
        assert (waiting.body, waiting.reconsume_times) == (b"own", 1)
        assert waiting.properties["REAL_TOPIC"] == "%RETRY%g"
        assert waiting.properties["ORIGIN_MESSAGE_ID"] == "M"
        assert [message.body for message in records(broker, "%RETRY%g")] == [b"last"]


@in_loop
async def test_own_retries_that_came_too_often_are_dead(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        await client.heartbeat("g", "t")
        before = control_requests(broker)
        marks = "DELAY\x014\x02TAGS\x01a\x02"
        assert (await client.send("%RETRY%g", b"by client", 0, j=4, l=3, i=marks)).code == 0
        assert (await client.send("%RETRY%g", b"by group", 0, j=17, i=marks)).code == 0
        assert (await client.send("%RETRY%g", b"not yet", 0, j=16)).code == 0
        dead = records(broker, "%DLQ%g")
        assert [(each.body, each.reconsume_times) for each in dead] == [
            (b"by client", 4), (b"by group", 17),
        ]  # fmt: skip
        assert all(each.properties["TAGS"] == "a" for each in dead)
        assert not any("DELAY" in each.properties for each in dead)
        assert [code for _, _, code in entries(broker, "%DLQ%g")] == [tags_code("a")] * 2
        assert records(broker, SCHEDULE, 3) == []
        # For the first dead letter control made the topic.
        assert (control_requests(broker), broker.core.stats()["dead_letters"]) == (before + 1, 2)
        await broker.topics.delete("%DLQ%g")
        assert (await client.send("%RETRY%g", b"made anew", 0, j=17)).code == 0
        assert [each.body for each in records(broker, "%DLQ%g")][-1] == b"made anew"


@in_loop
async def test_the_first_dead_letter_of_a_group_has_its_topics_made(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        await broker.groups.update(GroupConfig("g", retry_times_max=2, retry_queues=2))
        sends = [client.post_send("%RETRY%g", b"%d" % n, 1, j=n % 4) for n in range(40)]
        assert {(await client.reply(opaque)).code for opaque in sends} == {0}
        assert [each.body for each in records(broker, "%DLQ%g")] == [
            b"%d" % n for n in range(40) if n % 4 == 3
        ]
        assert sorted(each.body for each in records(broker, "%RETRY%g", 1)) == sorted(
            b"%d" % n for n in range(40) if n % 4 != 3
        )
        before = control_requests(broker)
        assert (await client.send("%RETRY%g", b"later", 1, j=3)).code == 0
        assert control_requests(broker) == before


@in_loop
async def test_timed_dead_letters_wait_for_their_time(tmp_path: Path) -> None:
    async with served(tmp_path, timerPrecisionMs=100) as (broker, client):
        await client.heartbeat("g", "t")
        marks = "TIMER_DELAY_MS\x01700\x02DELAY\x013\x02"
        assert (await client.send("%RETRY%g", b"first", 0, j=17)).code == 0
        assert (await client.send("%RETRY%g", b"timed", 0, j=17, i=marks)).code == 0
        await until(lambda: len(records(broker, "%DLQ%g")) == 2)
        timed = records(broker, "%DLQ%g")[1]
        assert (timed.body, timed.reconsume_times) == (b"timed", 17)


@in_loop
async def test_own_retries_of_a_group_that_consumes_in_order_are_dead_at_once(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        await source_of(broker, client)
        queue = MessageQueue("t", broker.settings.brokerName, 1).members()
        lock = fastjson.dumps({"clientId": "c", "consumerGroup": "g", "mqSet": [queue]})
        assert (await client.call(41, lock)).code == 0
        assert (await client.send("%RETRY%g", b"in order", 0, j=1)).code == 0
        assert (await client.call(42, lock)).code == 0
        assert (await client.send("%RETRY%g", b"again", 0, j=1)).code == 0
        assert [each.body for each in records(broker, "%DLQ%g")] == [b"in order"]
        assert [each.body for each in records(broker, "%RETRY%g")] == [b"again"]


@in_loop
async def test_a_reset_tells_the_next_pull_and_commits_until_then_do_not_count(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (broker, client):
        for number in range(5):
            await client.send("t", b"%d" % number)
        await client.heartbeat("g", "t")
        place = {"consumerGroup": "g", "topic": "t", "queueId": 0}
        assert (await client.call(15, **place, commitOffset=5)).code == 0
        broker.core.reset_offset(b"g", b"t", 0, 2)
        assert (await client.call(15, **place, commitOffset=5)).code == 0
        assert (await client.call(14, **place)).fields["offset"] == "2"
        reply = await client.pull("g", "t", offset=4, sysFlag=1, commitOffset=4)
        assert (reply.code, reply.fields["nextBeginOffset"]) == (21, "2")
        assert reply.remark == "OFFSET_RESET"
        assert (reply.fields["minOffset"], reply.fields["maxOffset"]) == ("0", "5")
        assert (await client.call(14, **place)).fields["offset"] == "2"
        came = await client.pulled("g", "t", offset=2)
        assert [message.body for message in came] == [b"2", b"3", b"4"]
        assert (await client.call(15, **place, commitOffset=4)).code == 0
        assert (await client.call(14, **place)).fields["offset"] == "4"


@in_loop
async def test_a_reset_ends_the_pulls_that_are_held(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await client.send("t", b"x")
        await client.heartbeat("g", "t")
        held = client.post(
            11, consumerGroup="g", topic="t", queueId=0, queueOffset=1, maxMsgNums=32, sysFlag=2,
            commitOffset=0, suspendTimeoutMillis=HELD_MS, subVersion=1,
        )  # fmt: skip
        await until(lambda: broker.core.stats()["pulls_waiting"] == 1)
        broker.core.reset_offset(b"g", b"t", 0, 0)
        assert (await client.reply(held)).code == 19
        reply = await client.pull("g", "t", offset=1)
        assert (reply.code, reply.fields["nextBeginOffset"]) == (21, "0")
        broker.core.remove_offsets(b"g", None)
        assert (await client.pull("g", "t", offset=1)).code == 19


@in_loop
async def test_resets_of_one_group_and_queue_leave_others_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        for queue in (0, 1):
            await client.send("t", b"x", queue)
        for group in ("g", "h"):
            await client.heartbeat(group, "t")
        broker.core.reset_offset(b"g", b"t", 1, 0)
        # Beyond the topic's queues, which does no harm.
        broker.core.reset_offset(b"g", b"t", 300, 0)
        for group, queue in (("g", 0), ("h", 0), ("h", 1)):
            assert (await client.pull(group, "t", queue, offset=1)).code == 19
        assert (await client.pull("g", "t", 1, offset=1)).code == 21
        assert (await client.pull("g", "t", 1, offset=1)).code == 19


@in_loop
async def test_what_is_sent_back_late_comes_from_the_disk_without_control(tmp_path: Path) -> None:
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        source = await source_of(broker, client)
        assert (await client.call(36, **asks(source))).code == 0
        await fill_log(broker, client, "fill", 12 << 20)  # the ring of 8 MiB has moved on
    drop_page_cache(tmp_path)
    async with served(tmp_path, messageDelayLevel=LEVELS) as (broker, client):
        before = control_requests(broker)
        level = broker.core.stats()["records_asked"]
        reply = await client.call(36, **asks(source, delayLevel=4))
        assert reply.code == 0, reply.remark
        assert broker.core.stats()["records_asked"] == level + 1
        assert (await client.call(36, **asks(source, offset=source.physical_offset + 4))).code == 1
        assert control_requests(broker) == before
        (waiting,) = records(broker, SCHEDULE, 3)
        assert (waiting.body, waiting.reconsume_times) == (b"job", 1)
        assert waiting.properties["ORIGIN_MESSAGE_ID"] == source.message_id
