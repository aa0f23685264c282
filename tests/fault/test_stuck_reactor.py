"""Goal: a shard whose reactor hangs in a call is ended and started again, and the log says where it
hung.

Method: a supervisor and two shards behind the fault shim, which holds a write of one shard's log.
For the kernel the thread sleeps then; a thread that waits for a disk is left alone
(tests/unit/shards/test_silence).
Cannot prove: the same of a lock or an endless loop, which are seen by the same count of turns."""

import asyncio
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.faults import Faults
from support.sharded_broker import sharded_broker

LIMIT = ("--set", "rmqStuckReactorSeconds=5")


def test_shard_whose_reactor_hangs_is_replaced_and_it_is_said_where(
    tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(port: int) -> int:
        async with BrokerClient(port) as client:
            return (await client.send("t")).code

    for name, value in faults.environment().items():
        monkeypatch.setenv(name, value)
    with sharded_broker(tmp_path, 2, LIMIT) as broker:
        first, pid = broker.pids
        faults.hold("pwrite", path="shard-1/commitlog/")
        with pytest.raises(ConnectionError):
            asyncio.run(send(broker.ports[1]))
        assert asyncio.run(send(broker.ports[0])) == 0
        faults.clear()
        reason = broker.until_serving(1, other_than=pid).reason
        assert reason.startswith("stuck: the reactor has taken no turn for 5 s, in step write: ")
        assert f"{reason}: this process ends" in broker.log()
        assert asyncio.run(send(broker.ports[1])) == 0
        assert broker.pids[0] == first
