"""Requests that read queues and messages, as mqadmin and consumers send them."""

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


@in_loop
async def test_queries_by_key_say_that_there_is_no_index(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        fields = {"topic": "t", "key": "k", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1}
        reply = await broker.core.client().call(12, **fields)
        assert reply.code == 22
        assert "no key index yet" in (reply.remark or "")


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
