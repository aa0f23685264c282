"""Queue locks of orderly consumers."""

import json
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker import locks
from rmq.broker.locks import LockTable
from rmq.broker.topic_config import TopicConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

QUEUE = MessageQueue("t", "b", 0)


def test_a_lock_lasts_60_s_without_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(locks.time, "monotonic", lambda: now[0])
    table = LockTable(FakeCore())
    assert table.lock("g", [QUEUE], "a") == [QUEUE]
    now[0] = 50.0
    assert table.lock("g", [QUEUE], "a") == [QUEUE]  # renewed
    now[0] = 109.0
    assert table.lock("g", [QUEUE], "b") == []
    assert table.held_by_anyone("g")
    now[0] = 111.0
    assert not table.held_by_anyone("g")
    assert table.lock("g", [QUEUE], "b") == [QUEUE]
    assert table.lock("g", [QUEUE], "a") == []


def test_groups_do_not_share_locks_and_only_the_owner_unlocks() -> None:
    table = LockTable(FakeCore())
    assert table.lock("g", [QUEUE], "a") == [QUEUE]
    assert table.lock("h", [QUEUE], "b") == [QUEUE]
    table.unlock("g", [QUEUE], "b")
    assert table.lock("g", [QUEUE], "b") == []
    table.unlock("g", [QUEUE], "a")
    assert table.lock("g", [QUEUE], "b") == [QUEUE]


@in_loop
async def test_lock_requests_over_the_wire(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        client = broker.core.client()

        def body(client_id: str, *queues: int, topic: str = "t") -> bytes:
            wanted = [MessageQueue(topic, "broker-a", n).members() for n in queues]
            return fastjson.dumps({"clientId": client_id, "consumerGroup": "g", "mqSet": wanted})

        def held(reply: bytes) -> list[int]:
            return [queue["queueId"] for queue in json.loads(reply)["lockOKMQSet"]]

        assert held((await client.call(41, body("a", 0, 1, 2, -1))).body) == [0, 1]
        assert held((await client.call(41, body("b", 0, 1))).body) == []
        assert held((await client.call(41, body("b", 0, topic="nowhere"))).body) == []
        assert (await client.call(42, body("a", 0))).code == 0
        assert held((await client.call(41, body("b", 0, 1))).body) == [0]
        assert (await client.call(41, b'{"clientId":"c","consumerGroup":"a/b"}')).code == 29
        wrong = b'{"clientId":"c","consumerGroup":"g","mqSet":[1]}'
        assert (await client.call(41, wrong)).code == 1
        assert (await client.call(41)).code == 1
