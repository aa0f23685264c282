"""The control side over real sockets: a broker process, frames in and frames out.

What the unit tests show with a made-up core is shown here again with the real reactor: topics made
by sends, membership, offsets over a restart and a kill, retries, calls to clients. Official clients
are in tests/compat.
"""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.name_server import in_loop
from support.popping import ACK, BATCH_ACK, CHANGE, NOTIFICATION, PEEK, POLLING, POP, pop_fields
from support.shard import Client, request, send
from support.stored_table import stored_offsets
from support.waiting import next_ms, until, until_is

from rmq.broker.tables.groups import GroupConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import ROCKETMQ

HOLD_MS = 45_000  # for pulls whose message is sure to come, late on a busy machine


def port_of(broker: BrokerProcess) -> int:
    return int(broker.address.rpartition(":")[2])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory):
    with broker_process(tmp_path_factory.mktemp("control")) as broker:
        yield port_of(broker)


def test_a_first_send_makes_its_topic_and_is_stored(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            reply = await client.send("made", b"first", 3)
            assert (reply.code, reply.fields["queueId"], reply.fields["queueOffset"]) == (
                0,
                "3",
                "0",
            )
            assert reply.fields["MSG_REGION"] == "DefaultRegion"
            record = await client.call(33, offset=int(reply.fields["msgId"][-16:], 16))
            assert b"first" in record.body
            config = json.loads((await client.call(351, topic="made")).body)
            assert (config["writeQueueNums"], config["perm"]) == (4, 6)
            assert (await client.send("made", b"x", 4)).code == 29
            assert (await client.send("made two", b"x")).code == 29
            assert (await client.send("other", b"x", c="nowhere")).code == 17
            assert (await client.send("SCHEDULE_TOPIC_XXXX")).code == 16

    run()


def test_pipelined_sends_to_a_new_topic_are_all_stored(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port, serialize_type=1) as client:
            opaques = [client.post_send("burst", f"{n}".encode()) for n in range(200)]
            offsets = [int((await client.reply(o)).fields["queueOffset"]) for o in opaques]
            assert sorted(offsets) == list(range(200))

    run()


def test_a_consumer_joins_pulls_commits_and_leaves(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port, "c1") as one, BrokerClient(port, "c2") as two:
            await one.send("work", b"job", i="TAGS\x01a\x02")
            assert (await one.pull("workers", "work")).code == 24
            assert (await one.heartbeat("workers", "work")).code == 0
            assert (await one.asked(40)).fields == {"consumerGroup": "workers"}
            await two.heartbeat("workers", "work")
            assert (await one.asked(40)).is_oneway
            ids = json.loads((await one.call(38, consumerGroup="workers")).body)
            assert sorted(ids["consumerIdList"]) == ["c1", "c2"]
            place = {"consumerGroup": "workers", "topic": "work", "queueId": 0}
            assert (await one.call(14, **place)).fields == {"offset": "0"}
            (message,) = await one.pulled("workers", "work")
            assert message.body == b"job"
            one.post(15, one_way=True, **place, commitOffset=1)
            assert (await one.call(14, **place)).fields == {"offset": "1"}
            stats = fastjson.loads((await one.call(208, consumerGroup="workers")).body)
            row = stats["offsetTable"][MessageQueue("work", "broker-a", 0)]
            assert (row["brokerOffset"], row["consumerOffset"]) == (1, 1)
            assert row["lastTimestamp"] == message.store_timestamp_ms
            await two.call(35, clientID="c2", consumerGroup="workers")
            await one.asked(40)
        async with BrokerClient(port) as tool:
            await until_is(
                lambda: tool.call(203, consumerGroup="workers"), lambda reply: reply.code == 206
            )

    run()


def test_a_held_pull_is_answered_by_the_next_send(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            await client.send("held", b"0")
            await client.heartbeat("holders", "held")
            pull = client.pulled("holders", "held", offset=1, hold_ms=HOLD_MS)
            waiting = asyncio.create_task(pull)
            await client.until_held()
            assert not waiting.done()
            await client.send("held", b"1")
            assert [message.body for message in await waiting] == [b"1"]

    run()


def test_times_and_offsets_of_a_queue(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            for n in range(3):
                await client.send("timed", f"{n}".encode())
                next_ms()  # each message has a time of its own
            await client.heartbeat("readers", "timed")
            times = [m.store_timestamp_ms for m in await client.pulled("readers", "timed")]
            queue = {"topic": "timed", "queueId": 0}
            assert (await client.call(30, **queue)).fields == {"offset": "3"}
            assert (await client.call(31, **queue)).fields == {"offset": "0"}
            assert (await client.call(32, **queue)).fields == {"timestamp": str(times[0])}
            for n, ms in enumerate(times):
                found = await client.call(29, **queue, timestamp=ms)
                assert found.fields == {"offset": str(n)}
            entries = json.loads((await client.call(321, **queue, index=0, count=9)).body)
            assert len(entries["queueData"]) == 3
            stats = fastjson.loads((await client.call(202, topic="timed")).body)["offsetTable"]
            row = stats[MessageQueue("timed", "broker-a", 0)]
            assert (row["maxOffset"], row["lastUpdateTimestamp"]) == (3, times[2])

    run()


def test_a_failed_message_comes_again_or_is_dead(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port, "c1") as client:
            await client.send("jobs", b"poison", i="KEYS\x01k\x02")
            await client.heartbeat("strict", "jobs", "%RETRY%strict")
            (message,) = await client.pulled("strict", "jobs")
            sent = await client.call(
                36, offset=message.physical_offset, group="strict", delayLevel=1
            )
            assert sent.code == 0
            waiting = client.pulled("strict", "%RETRY%strict", hold_ms=HOLD_MS)
            (again,) = await waiting
            assert (again.body, again.reconsume_times) == (b"poison", 1)
            assert again.properties["RETRY_TOPIC"] == "jobs"
            assert again.properties["ORIGIN_MESSAGE_ID"] == message.message_id
            await client.call(36, offset=again.physical_offset, group="strict", delayLevel=-1)
            await client.heartbeat("undertaker", "%DLQ%strict")
            (dead,) = await client.pulled("undertaker", "%DLQ%strict")
            assert (dead.body, dead.properties["KEYS"]) == (b"poison", "k")

    run()


def test_sends_to_retry_topics_end_where_they_belong(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            body = fastjson.dumps(GroupConfig("rg", retry_times_max=2).members())
            assert (await client.call(200, body)).code == 0
            assert (await client.send("%RETRY%rg", b"soon", j=1)).code == 0
            assert (await client.send("%RETRY%rg", b"dead", j=3)).code == 0
            await client.heartbeat("rg", "%RETRY%rg")
            assert [m.body for m in await client.pulled("rg", "%RETRY%rg")] == [b"soon"]
            later = await client.send("%RETRY%rg", b"later", j=1, i="DELAY\x011\x02")
            assert (later.code, len(later.fields["msgId"])) == (0, 32)
            await client.heartbeat("dg", "%DLQ%rg")
            assert [m.body for m in await client.pulled("dg", "%DLQ%rg")] == [b"dead"]
            late = await client.pulled("rg", "%RETRY%rg", offset=1, hold_ms=HOLD_MS)
            assert [(m.body, m.reconsume_times) for m in late] == [(b"later", 1)]

    run()


def test_tools_reach_clients_through_the_broker(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port, "c1") as consumer, BrokerClient(port) as tool:
            sent = await tool.send("shown", b"look")
            await consumer.heartbeat("watchers", "shown")
            opaque = tool.post(307, consumerGroup="watchers", clientId="c1", jstackEnable=False)
            asked = await consumer.asked(307)
            consumer.answer(asked, body=b'{"jstack":""}')
            assert (await tool.reply(opaque)).body == b'{"jstack":""}'
            opaque = tool.post(
                309, consumerGroup="watchers", clientId="c1", msgId=sent.fields["msgId"]
            )
            asked = await consumer.asked(309)
            assert b"look" in asked.body
            consumer.answer(asked, body=b"{}")
            assert (await tool.reply(opaque)).code == 0
            reset = {"topic": "shown", "group": "watchers", "timestamp": -1, "isForce": True}
            queue = MessageQueue("shown", "broker-a", 0)
            place = {"consumerGroup": "watchers", "topic": "shown", "queueId": 0}
            moved = fastjson.loads((await tool.call(222, **reset)).body)["offsetTable"]
            assert moved[queue] == 1
            assert (await tool.call(14, **place)).fields == {"offset": "1"}
            await tool.call(25, b"useServerSideResetOffset=false\n")
            assert (await tool.call(222, **reset)).code == 0
            told = fastjson.loads((await consumer.asked(220)).body)["offsetTable"]
            assert told[queue] == 1

    run()


def test_a_deleted_topic_is_gone_with_its_queues_and_offsets(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            await client.send("brief", b"x")
            await client.heartbeat("gone", "brief")
            place = {"consumerGroup": "gone", "topic": "brief", "queueId": 0}
            await client.call(15, **place, commitOffset=1)
            assert (await client.call(215, topic="brief")).code == 0
            assert (await client.call(202, topic="brief")).code == 17
            assert (await client.pull("gone", "brief")).code == 17
            assert (await client.call(14, **place)).code == 22
            again = await client.send("brief", b"y")
            assert again.fields["queueOffset"] == "0"

    run()


def test_runtime_numbers_are_real(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            before = json.loads((await client.call(28)).body)["table"]
            for _ in range(10):
                await client.send("counted")

            async def look() -> dict[str, str]:
                return json.loads((await client.call(28)).body)["table"]

            def grown(table: dict[str, str]) -> int:
                return int(table["msgPutTotalTodayNow"]) - int(before["msgPutTotalTodayNow"])

            after = await until_is(look, grown)  # a table is given to all for 0.2 s
            assert grown(after) == 10
            assert int(after["commitLogMaxOffset"]) > int(before["commitLogMaxOffset"])
            assert int(after["earliestMessageTimeStamp"]) > 0
            assert (await client.call(999)).remark == " request type 999 not supported"

    run()


def test_a_pops_code_as_a_binary_header_cuts_it_is_none_in_json(port: int) -> None:
    """A binary header has 16 bits for the code, so 3442 means 200050 there. In a JSON header 3442
    is an unknown code, and is answered once. Such a request once went back and forth between the
    reactor and the control side for ever."""
    fields = pop_fields("poppers", "popped")
    client = Client(port)
    assert client.ask(send("popped")).code == 0  # this makes topic and group
    assert client.ask(request(POP, **fields)).code in (0, 210)
    cut = [code & 0xFFFF for code in (POP, ACK, PEEK, CHANGE, NOTIFICATION, POLLING, BATCH_ACK)]
    for given in ({}, fields):
        client.put(*[request(code, opaque=code, **given) for code in cut])
        replies = client.replies(len(cut))
        assert {opaque: reply.code for opaque, reply in replies.items()} == dict.fromkeys(cut, 3)
        assert client.ask(request(31, opaque=1, topic="popped", queueId=0)).opaque == 1
    for code in cut:
        assert client.ask(request(code, kind=ROCKETMQ)).code == 1, "its fields are missing"
    client.close()


def test_settings_change_at_run_time_by_the_allow_list(port: int) -> None:
    @in_loop
    async def run() -> None:
        async with BrokerClient(port) as client:
            await client.send("closing", b"x")
            await client.heartbeat("closers", "closing")
            assert len(await client.pulled("closers", "closing")) == 1
            assert (await client.call(25, b"brokerPermission=2\n")).code == 0
            assert (await client.pull("closers", "closing")).code == 16
            assert (await client.call(25, b"brokerPermission=6\n")).code == 0
            assert len(await client.pulled("closers", "closing")) == 1
            assert (await client.call(25, b"listenPort=1\n")).code == 16

    run()


@pytest.mark.parametrize("kill", [False, True])
def test_tables_survive_a_stop_and_a_kill(tmp_path: Path, kill: bool) -> None:
    @in_loop
    async def fill(port: int) -> None:
        async with BrokerClient(port) as client:
            await client.send("kept", b"a")
            await client.heartbeat("keepers", "kept")
            await client.call(15, consumerGroup="keepers", topic="kept", queueId=0, commitOffset=1)
            body = fastjson.dumps(GroupConfig("keepers", retry_times_max=5).members())
            await client.call(200, body)
            reply = await client.call(36, offset=0, group="keepers", delayLevel=2)
            assert reply.code == 0
            store = tmp_path / "store"
            await until(lambda: "kept@keepers" in stored_offsets(store))  # written every 100 ms

    @in_loop
    async def look(port: int) -> None:
        async with BrokerClient(port) as client:
            place = {"consumerGroup": "keepers", "topic": "kept", "queueId": 0}
            assert (await client.call(14, **place)).fields == {"offset": "1"}
            group = json.loads((await client.call(352, group="keepers")).body)
            assert group["retryMaxTimes"] == 5
            await client.heartbeat("keepers", "kept", "%RETRY%keepers")
            (again,) = await client.pulled("keepers", "%RETRY%keepers", hold_ms=HOLD_MS)
            assert (again.body, again.reconsume_times) == (b"a", 1)

    options = ["--set", "flushConsumerOffsetInterval=100"]
    broker = start_broker(tmp_path, options)
    fill(port_of(broker))
    broker.stop(signal.SIGKILL if kill else signal.SIGTERM)
    with broker_process(tmp_path, options) as broker:
        look(port_of(broker))
