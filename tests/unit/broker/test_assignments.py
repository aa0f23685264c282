"""Server-side assignment: each queue goes to exactly one member, shared out as Java's strategies
do."""

import json
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.requests.assignments import allocate, allocate_popping
from rmq.broker.tables.topic_config import TopicConfig
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
@pytest.mark.parametrize(("queues", "members"), [(5, 2), (8, 3), (2, 5), (0, 2), (7, 7)])
def test_each_queue_has_one_owner(strategy: str, queues: int, members: int) -> None:
    all_queues = [MessageQueue("t", "b", n) for n in range(queues)]
    ids = [f"c{n}" for n in range(members)]
    parts = [allocate(all_queues, ids, client_id, strategy) for client_id in ids]
    assert sorted(queue for part in parts for queue in part) == all_queues
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert allocate(all_queues, ids, "stranger", strategy) == []


def test_neighbours_and_turns() -> None:
    queues = [MessageQueue("t", "b", n) for n in range(5)]
    assert [q.queue_id for q in allocate(queues, ["a", "b"], "a", "AVG")] == [0, 1, 2]
    assert [q.queue_id for q in allocate(queues, ["a", "b"], "b", "AVG_BY_CIRCLE")] == [1, 3]


@in_loop
async def test_assignments_over_the_wire(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        await broker.topics.create(TopicConfig("t", 2, 2))
        client = broker.core.client()
        ask = {"topic": "t", "consumerGroup": "g", "clientId": "c1", "strategyName": "AVG",
               "messageModel": "CLUSTERING"}  # fmt: skip
        assert (await client.call(400, fastjson.dumps(ask))).body == b"{}"
        data = {"groupName": "g", "subscriptionDataSet": []}
        await client.call(34, fastjson.dumps({"clientID": "c1", "consumerDataSet": [data]}))
        rows = json.loads((await client.call(400, fastjson.dumps(ask))).body)
        queues = [row["messageQueue"]["queueId"] for row in rows["messageQueueAssignments"]]
        assert queues == [0, 1]
        assert {row["mode"] for row in rows["messageQueueAssignments"]} == {"PULL"}
        mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0}
        assert json.loads((await client.call(402)).body) == {"messageRequestModeMap": {}}
        assert (await client.call(401, fastjson.dumps(mode))).code == 0
        assert (await client.call(401, fastjson.dumps({**mode, "mode": "PUSH"}))).code == 29
        assert (await client.call(401, fastjson.dumps({**mode, "topic": "no"}))).code == 17
        retry = {**mode, "topic": "%RETRY%g"}
        assert (await client.call(401, fastjson.dumps(retry))).code == 16
        rows = json.loads((await client.call(400, fastjson.dumps(ask))).body)
        (row,) = rows["messageQueueAssignments"]
        assert (row["messageQueue"]["queueId"], row["mode"]) == (-1, "POP")
        kept = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0, "topic": "t"}
        assert json.loads((await client.call(402)).body) == {
            "messageRequestModeMap": {"t": {"g": kept}}
        }
    async with control(tmp_path) as broker:
        assert broker.request_modes.of("t", "g") == ("POP", 0)
        assert broker.request_modes.of("t", "other") == ("PULL", 0)


def test_members_that_pop_share_their_neighbours_queues() -> None:
    queues = [MessageQueue("t", "b", n) for n in range(4)]
    ids = ["c0", "c1", "c2", "c3"]

    def of(member: str, neighbours: int, members: list[str] = ids) -> list[int]:
        found = allocate_popping(queues, members, member, "AVG", neighbours)
        return [queue.queue_id for queue in found]

    assert [of(member, 1) for member in ids] == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert of("c1", 2) == [1, 2, 3]
    assert of("c1", 0) == of("c1", -1) == of("c1", 3) == of("c1", 9) == [-1]
    assert of("stranger", 1) == []
    many = [f"c{n}" for n in range(6)]
    assert [of(member, 1, many) for member in many] == [[0], [1], [2], [3], [0], [1]]
