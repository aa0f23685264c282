"""Requests that read queues and messages, as mqadmin and consumers send them."""

import asyncio
import json
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.format.message import tags_code


@in_loop
async def test_offsets_and_times_of_a_queue(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        for ms in (10, 20, 20, 30):
            core.store("t", 1, store_timestamp_ms=ms)
        core.queue_minimum[b"t", 1] = 1
        queue = {"topic": "t", "queueId": 1}
        assert (await client.call(30, **queue)).fields == {"offset": "4"}
        assert (await client.call(31, **queue)).fields == {"offset": "1"}
        assert (await client.call(32, **queue)).fields == {"timestamp": "20"}
        for boundary, time_ms, offset in (
            ("", 20, "1"), ("LOWER", 25, "3"), ("lower", 31, "4"), ("LOWER", 5, "1"),
            ("UPPER", 20, "2"), ("upper", 99, "3"), ("UPPER", 5, "1"),
        ):  # fmt: skip
            fields = {"timestamp": time_ms, **({"boundaryType": boundary} if boundary else {})}
            assert (await client.call(29, **queue, **fields)).fields == {"offset": offset}


@in_loop
async def test_a_queue_that_holds_nothing(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        queue = {"topic": "nowhere", "queueId": 0}
        assert (await client.call(30, **queue)).fields == {"offset": "0"}
        assert (await client.call(31, **queue)).fields == {"offset": "0"}
        assert (await client.call(32, **queue)).fields == {"timestamp": "-1"}
        assert (await client.call(29, **queue, timestamp=5)).fields == {"offset": "0"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "../x", "queueId": 0}, 29),
        ({"topic": "t", "queueId": -1}, 29),
        ({"topic": "t", "queueId": 1 << 31}, 29),
        ({"topic": "t"}, 1),
        ({"queueId": 0}, 1),
        ({"topic": "t", "queueId": "one"}, 1),
    ],
)
def test_wrong_queues_are_refused(tmp_path: Path, fields: dict[str, object], code: int) -> None:
    @in_loop
    async def run() -> None:
        async with control(tmp_path) as broker:
            client = broker.core.client()
            for request in (29, 30, 31, 32, 321):
                reply = await client.call(request, timestamp=1, index=0, count=1, **fields)
                assert reply.code == code
                assert reply.remark

    run()


@in_loop
async def test_a_message_is_viewed_by_its_place(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        broker.core.store("t", 0, b"one")
        message = broker.core.store("t", 0, b"two")
        reply = await client.call(33, offset=message.physical_offset)
        assert reply.body == broker.core.records[message.physical_offset]
        for offset in (message.physical_offset + 1, -1, "x"):
            assert (await client.call(33, offset=offset)).code == 1


ASK = {"topic": "t", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 2**63 - 1}


@in_loop
async def test_messages_are_found_by_key_in_the_order_of_the_log(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        stored = [
            core.store("t", 0, store_timestamp_ms=n, properties_bytes=b"KEYS\1k x%d\2" % n)
            for n in range(10)
        ]
        reply = await client.call(12, key="k", **ASK)
        assert reply.code == 0
        assert reply.fields == {
            "indexLastUpdateTimestamp": "9",
            "indexLastUpdatePhyoffset": str(stored[9].physical_offset),
        }
        assert reply.body == b"".join(core.records[message.physical_offset] for message in stored)
        reply = await client.call(12, key="k", **{**ASK, "maxNum": 3, "endTimestamp": 7})
        wanted = [stored[n].physical_offset for n in (5, 6, 7)]
        assert reply.body == b"".join(core.records[offset] for offset in wanted)
        for fields in ({"key": "y"}, {"key": "k", "topic": "u"}, {"key": "k", "maxNum": 0}):
            reply = await client.call(12, **{**ASK, **fields})
            assert (reply.code, reply.body) == (22, b"")
            assert reply.fields["indexLastUpdateTimestamp"] in ("0", "9")


@in_loop
async def test_the_kind_of_key_and_the_limits_are_as_rocketmq_has_them(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        core.store("t", 0, properties_bytes=b"UNIQ_KEY\1U\2TAGS\1T1\2")
        for fields, kind, limit in (
            ({"key": "U"}, 0, 32),
            ({"key": "U", "_UNIQUE_KEY_QUERY": "true", "maxNum": 5}, 0, 32),
            ({"key": "U", "_UNIQUE_KEY_QUERY": "false", "maxNum": 5}, 0, 5),
            ({"key": "U", "indexType": "K", "maxNum": 2**31}, 0, 64),
            ({"key": "U", "indexType": "U", "maxNum": 64}, 0, 64),
            ({"key": "T1", "indexType": "T", "maxNum": 1}, 1, 1),
        ):
            assert (await client.call(12, **{**ASK, **fields})).code == 0
            assert core.index_questions[-1][1:4] == (fields["key"].encode(), kind, limit)
        assert (await client.call(12, key="T1", **ASK)).code == 22


@in_loop
async def test_what_does_not_fit_a_frame_is_left_out_oldest_first(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        stored = [
            core.store("t", 0, bytes(3_500_000), properties_bytes=b"KEYS\1k\2") for _ in range(6)
        ]
        body = (await client.call(12, key="k", **ASK)).body
        assert body == b"".join(core.records[message.physical_offset] for message in stored[2:])


@in_loop
async def test_an_index_that_cannot_be_read_is_an_error_of_the_broker(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        core.store("t", 0, properties_bytes=b"KEYS\1k\2")
        core.index_failure = "key index: Input/output error"
        reply = await client.call(12, key="k", **ASK)
        assert reply.code == 1
        assert "key index: Input/output error" in reply.remark
        core.index_failure = ""
        assert (await client.call(12, key="k", **ASK)).code == 0


@in_loop
async def test_many_questions_at_once_are_all_answered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        for n in range(200):
            core.store("t", 0, properties_bytes=b"KEYS\1k%d\2" % n)
        find = broker.index_queries.find
        end = 2**63 - 1
        found = await asyncio.gather(*(find(b"t", b"k%d" % n, 0, 9, 0, end) for n in range(200)))
        assert [len(answer[0]) for answer in found if answer is not None] == [1] * 200


@in_loop
async def test_wrong_or_pointless_queries_by_key_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for fields, code in (
            ({"topic": "../x", "key": "k"}, 29),
            ({}, 1),
            ({"key": "k", "maxNum": "many"}, 1),
            ({"key": "k", "beginTimestamp": 2**63}, 1),
        ):
            assert (await client.call(12, **{**ASK, **fields})).code == code
        broker.core.index = False
        reply = await client.call(12, key="k", **ASK)
        assert (reply.code, reply.remark) == (22, "messageIndexEnable=false: there is no index")


@in_loop
async def test_queue_entries_are_shown(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for n in range(5):
            broker.core.store("t", 0, properties_bytes=f"TAGS\1tag{n}\2".encode())
        ask = {"topic": "t", "queueId": 0, "count": 2}
        body = json.loads((await client.call(321, **ask, index=3)).body)
        assert [row["tagsCode"] for row in body["queueData"]] == [
            tags_code("tag3"), tags_code("tag4"),
        ]  # fmt: skip
        assert (body["minQueueIndex"], body["maxQueueIndex"]) == (0, 5)
        reply = await client.call(321, **ask, index=9)
        assert reply.code == 0
        assert "queueData" not in json.loads(reply.body)
        reply = await client.call(321, **ask, index=0, consumerGroup="g")
        assert json.loads(reply.body)["filterData"] == "g@t is not online!"
        assert (await client.call(321, **{**ask, "topic": "nowhere"}, index=0)).code == 1
