"""A log without any known epoch, under a controller: it leads, and others copy it.

Such a log comes from a broker that ran without a controller, from a restored store, or from one
whose epochFileCheckpoint was removed. Two live brokers in this process, and a controller. The file
of epochs: test_log_epochs.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.controllers import controller
from support.live_broker import SMALL, live_broker, records
from support.live_replicas import TOPIC, until_same_log
from support.name_server import in_loop
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.broker.replication.bootstrap import bootstrap_controlled
from rmq.broker.replication.controlled_replication import ControlledReplication
from rmq.broker.replication.epoch_file import EpochFile
from rmq.broker.replication.epochs import Epochs
from rmq.config import load_properties

SUCCESS = 0


async def write_without_controller(folder: Path, body: bytes) -> int:
    """Writes a hundred messages. Returns where the log ends."""
    async with live_broker(folder) as broker, BrokerClient(broker.core.port) as client:
        await client.call(17, topic="t", **TOPIC)
        for _ in range(100):
            assert (await client.send("t", body)).code == SUCCESS
        return int(broker.core.log_range()[1])


@asynccontextmanager
async def replica(port: int, folder: Path) -> AsyncIterator[tuple[Broker, ControlledReplication]]:
    """A replica whose store begins as that of a new process does."""
    texts = {"enableControllerMode": "true", "controllerAddr": f"127.0.0.1:{port}"}
    settings = {**SMALL, "storePathRootDir": str(folder), **texts}
    await bootstrap_controlled(load_properties(None, settings))
    async with live_broker(folder, slave=True, **texts) as broker:
        assert isinstance(broker.replication, ControlledReplication)
        yield broker, broker.replication


@pytest.mark.parametrize("has_file", [False, True])
@in_loop
async def test_an_empty_replica_gets_all_of_it_and_joins(tmp_path: Path, has_file: bool) -> None:
    """has_file: there is an epoch file that lets the first epoch begin at the log's end, as rmq
    once wrote it."""
    end = await write_without_controller(tmp_path / "1", b"before")
    if has_file:
        EpochFile(tmp_path / "1" / "epochFileCheckpoint").write(Epochs.of([(1, end)]))
    async with (
        controller(tmp_path) as server,
        replica(server.port, tmp_path / "1") as (one, of_one),
    ):
        await until(lambda: not of_one.is_slave)
        async with (
            replica(server.port, tmp_path / "2") as (two, of_two),
            BrokerClient(one.core.port) as client,
        ):

            def is_in_sync() -> bool:
                return of_one._watch is not None and len(of_one._watch.members) == 2

            await until(lambda: is_in_sync() or "nothing says" in of_two._stream.problem)
            assert is_in_sync(), of_two._stream.problem
            assert two.core.log_range()[0] == 0 and two.core.log_range()[1] >= end
            assert (await client.send("t", b"after")).code == SUCCESS
            await until_same_log(one, two)
            bodies = [each.body for each in records(two, "t")]
            assert bodies == [b"before"] * 100 + [b"after"]


@in_loop
async def test_a_second_log_of_that_kind_is_no_copy_of_it_and_is_not_thrown_away(
    tmp_path: Path,
) -> None:
    """A second log of that kind must neither count as a copy of the first nor be thrown away:
    nobody knows which log has the messages. The slave says how its log can be kept."""
    for name in ("1", "2"):
        await write_without_controller(tmp_path / name, name.encode())
    async with controller(tmp_path) as server, replica(server.port, tmp_path / "1") as (_, of_one):
        await until(lambda: not of_one.is_slave)
        async with replica(server.port, tmp_path / "2") as (two, of_two):
            stream = of_two._stream
            await until(lambda: "written without a controller" in stream.problem)
            assert "cleanBrokerMetadata" in stream.problem
            assert "start this one first" in stream.problem
            assert [each.body for each in records(two, "t")] == [b"2"] * 100
