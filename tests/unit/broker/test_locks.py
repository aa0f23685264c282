"""Queue locks of orderly consumers."""

import json
from pathlib import Path

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq import names
from rmq.broker.tables import locks
from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.locks import LockTable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

QUEUE = MessageQueue("t", "b", 0)


class Clock:
    def __init__(self, now: list[float]) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now[0]


@in_loop
async def test_a_lock_lasts_60_s_without_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(locks, "clock", Clock(now))
    table = LockTable(FakeCore(), tmp_path)
    assert table.lock("g", [QUEUE], "a") == [QUEUE]
    now[0] = 50.0
    assert table.lock("g", [QUEUE], "a") == [QUEUE]  # the lock is renewed
    now[0] = 109.0
    assert table.lock("g", [QUEUE], "b") == []
    assert table.held_by_anyone("g")
    now[0] = 111.0
    assert not table.held_by_anyone("g")
    assert table.lock("g", [QUEUE], "b") == [QUEUE]
    assert table.lock("g", [QUEUE], "a") == []


@in_loop
async def test_groups_do_not_share_locks_and_only_the_owner_unlocks(tmp_path: Path) -> None:
    table = LockTable(FakeCore(), tmp_path)
    assert table.lock("g", [QUEUE], "a") == [QUEUE]
    assert table.lock("h", [QUEUE], "b") == [QUEUE]
    table.unlock("g", [QUEUE], "b")
    assert table.lock("g", [QUEUE], "b") == []
    table.unlock("g", [QUEUE], "a")
    assert table.lock("g", [QUEUE], "b") == [QUEUE]


@in_loop
async def test_a_group_has_a_bounded_number_of_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCKS_MAX", 3)
    table = LockTable(FakeCore(), tmp_path)
    queues = [MessageQueue("t", "b", number) for number in range(5)]
    assert table.lock("g", queues, "a") == queues[:3]
    assert table.lock("g", queues, "a") == queues[:3], "those it has are renewed"
    assert table.lock("h", queues, "a") == queues[:3]
    table.unlock("g", queues[:1], "a")
    assert table.lock("g", queues[3:], "b") == queues[3:4]


@in_loop
async def test_lock_requests_over_the_wire(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        client = broker.core.client()

        def body(
            client_id: str, *queues: int, topic: str = "t", broker_name: str = "broker-a"
        ) -> bytes:
            wanted = [MessageQueue(topic, broker_name, n).members() for n in queues]
            return fastjson.dumps({"clientId": client_id, "consumerGroup": "g", "mqSet": wanted})

        def held(reply: bytes) -> list[int]:
            return [queue["queueId"] for queue in json.loads(reply)["lockOKMQSet"]]

        assert held((await client.call(41, body("a", 0, 1, 2, -1))).body) == [0, 1]
        assert held((await client.call(41, body("b", 0, 1))).body) == []
        assert held((await client.call(41, body("b", 0, topic="nowhere"))).body) == []
        # Each of these names would be one more lock of the same queue.
        for other in ("broker-b", "", "__syslo__"):
            assert held((await client.call(41, body("b", 0, broker_name=other))).body) == []
        static = body("b", 1, broker_name=names.LOGIC_QUEUE_BROKER)
        assert held((await client.call(41, static)).body) == [1]
        assert (await client.call(42, static)).code == 0
        assert (await client.call(42, body("a", 0))).code == 0
        kept = json.loads((tmp_path / "config" / "rmqLocks.json").read_bytes())
        assert kept["locks"] == {"g": {"a": [["t", "broker-a", 1]]}}
        assert held((await client.call(41, body("b", 0, 1))).body) == [0]
        assert (await client.call(41, b'{"clientId":"c","consumerGroup":"a/b"}')).code == 29
        wrong = b'{"clientId":"c","consumerGroup":"g","mqSet":[1]}'
        assert (await client.call(41, wrong)).code == 1
        assert (await client.call(41)).code == 1


@in_loop
async def test_locks_count_for_60_s_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        await broker.groups.update(GroupConfig("g"))
        client = broker.core.client()
        for client_id, queue in (("a", 0), ("b", 1)):
            wanted = [MessageQueue("t", "broker-a", queue).members()]
            body = fastjson.dumps({"clientId": client_id, "consumerGroup": "g", "mqSet": wanted})
            assert len(json.loads((await client.call(41, body)).body)["lockOKMQSet"]) == 1
        # What a killed broker leaves: the file has the lock before the clients are told.
        kept = (tmp_path / "config" / "rmqLocks.json").read_bytes()
    now = [1000.0]
    monkeypatch.setattr(locks, "clock", Clock(now))
    (tmp_path / "config" / "rmqLocks.json").write_bytes(kept)
    core = FakeCore()
    table = LockTable(core, tmp_path / "config")
    table.load()
    zero, one = (MessageQueue("t", "broker-a", queue) for queue in (0, 1))
    assert core.group_locks[b"g"] == 60_000
    assert table.lock("g", [zero, one], "a") == [zero]
    assert table.lock("g", [zero, one], "c") == []
    table.unlock("g", [one], "b")
    assert table.lock("g", [one], "c") == [one]
    now[0] += 61
    assert table.lock("g", [zero], "d") == [zero]


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"locks":3}', '{"locks":{"g":[1]}}', '{"locks":{"g":{"c":[["t",1,2],[],7]}}}'],
)
def test_a_damaged_lock_file_is_no_lock(tmp_path: Path, content: str) -> None:
    (tmp_path / "rmqLocks.json").write_text(content)

    @in_loop
    async def run() -> None:
        table = LockTable(FakeCore(), tmp_path)
        table.load()
        assert table.lock("g", [QUEUE], "a") == [QUEUE]
        await table.saved()

    run()


@in_loop
async def test_a_lock_file_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "rmqLocks.json.tmp").mkdir()
    (tmp_path / "rmqLocks.json").mkdir()
    table = LockTable(FakeCore(), tmp_path)
    assert table.lock("g", [QUEUE], "a") == [QUEUE]
    await table.saved()
    assert table.lock("g", [QUEUE], "b") == []
