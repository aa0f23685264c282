"""UPDATE_CONSUMER_OFFSET (15): taken by the reactor, refused by control, over real sockets."""

from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.live_broker import served
from support.name_server import in_loop
from support.waiting import until

COMMIT, QUERY, CREATE_GROUP = 15, 14, 200


def commit_fields(offset: object, **fields: Any) -> dict[str, Any]:
    return {"consumerGroup": "g", "topic": "t", "queueId": 1, "commitOffset": offset, **fields}


async def known(client: BrokerClient) -> None:
    """Makes topic t with 4 queues, and group g."""
    assert (await client.send("t")).code == 0
    assert (await client.call(CREATE_GROUP, b'{"groupName":"g"}')).code == 0


async def committed(client: BrokerClient, queue: int = 1) -> str | None:
    reply = await client.call(QUERY, consumerGroup="g", topic="t", queueId=queue,
                              setZeroIfNotFound="false")  # fmt: skip
    return reply.fields["offset"] if reply.code == 0 else None


@pytest.mark.parametrize("kind", [0, 1])
@in_loop
async def test_commits_are_taken_without_the_control_thread(tmp_path: Path, kind: int) -> None:
    async with served(tmp_path) as (broker, client):
        await known(client)
        client.serialize_type = kind
        before = broker.core.stats()["control_requests"]
        version = broker.core.offsets_version
        # An offset may also become lower, as with Apache's broker.
        for offset in (9, 5, 2**63 - 1, 5):
            reply = await client.call(COMMIT, **commit_fields(offset))
            assert (reply.code, reply.remark or "") == (0, "")
        for queue in range(4):
            client.post(COMMIT, one_way=True, **commit_fields(100 + queue, queueId=queue))
        await client.call(COMMIT, **commit_fields(7, queueId=0))
        assert broker.core.stats()["control_requests"] == before
        assert broker.core.offsets_version > version, "the file will be written"
        assert [await committed(client, queue) for queue in range(4)] == ["7", "101", "102", "103"]


@in_loop
async def test_what_names_nothing_that_is_there_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await known(client)
        codes = [
            (await client.call(COMMIT, **commit_fields(3, **fields))).code
            for fields in ({"consumerGroup": "nobody"}, {"topic": "nothing"}, {"queueId": 4},
                           {"queueId": -1}, {"queueId": "x"}, {"commitOffset": -1},
                           {"commitOffset": 2**63}, {"consumerGroup": "a b"})
        ]  # fmt: skip
        assert codes == [26, 17, 29, 29, 1, 1, 1, 29]
        for name in commit_fields(3):
            left = {key: value for key, value in commit_fields(3).items() if key != name}
            assert (await client.call(COMMIT, **left)).code != 0
        assert broker.core.offsets() == {}
        client.post(COMMIT, one_way=True, **commit_fields(3, topic="nothing"))
        assert (await client.call(COMMIT, **commit_fields(3))).code == 0


@in_loop
async def test_commits_do_not_count_until_a_reset_has_been_told(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await known(client)
        for _ in range(5):
            await client.send("t", queue=1)
        await client.call(COMMIT, **commit_fields(4))
        broker.core.reset_offset(b"g", b"t", 1, 2)
        assert (await client.call(COMMIT, **commit_fields(5))).code == 0
        assert await committed(client) == "2"
        await client.heartbeat("g", "t")
        moved = await client.pull("g", "t", queue=1, offset=5)
        assert (moved.code, moved.fields["nextBeginOffset"]) == (21, "2")
        await client.call(COMMIT, **commit_fields(3))
        assert await committed(client) == "3"


@in_loop
async def test_a_commit_is_in_the_file_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path) as (broker, client):
        await known(client)
        client.post(COMMIT, one_way=True, **commit_fields(4711))
        await until(lambda: broker.core.query_offset(b"g", b"t", 1) == 4711)
    async with served(tmp_path) as (_, client):
        assert await committed(client) == "4711"
