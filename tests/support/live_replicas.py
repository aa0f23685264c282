"""Live replicas: a slave beside a live broker, both in the test's process, joined by real sockets.

async with live_broker(m, **MASTER) as master, slave_of(master, s) as slave:
    await until_same_log(master, slave)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.live_broker import SMALL, live_broker
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.broker.replication.bootstrap import bootstrap
from rmq.config import load_properties

MASTER = {"brokerRole": "ASYNC_MASTER"}
SYNC = {"brokerRole": "SYNC_MASTER"}
TOPIC = {
    "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
}  # fmt: skip


@asynccontextmanager
async def slave_of(master: Broker, directory: Path, **settings: object) -> AsyncIterator[Broker]:
    """A slave of this master, on a store in the directory."""
    texts = {"brokerRole": "SLAVE", "brokerId": 1, "rmqMasterAddress": master.address, **settings}
    given = {key: str(value) for key, value in texts.items()}
    await bootstrap(load_properties(None, {**SMALL, "storePathRootDir": str(directory), **given}))
    async with live_broker(directory, **texts) as slave:
        yield slave


async def until_same_log(master: Broker, slave: Broker) -> None:
    """Waits until the slave has all of the master's log and topics."""
    end = master.core.log_range()[1]
    await until(lambda: slave.core.stats()["log_dispatched"] >= end)
    await until(lambda: slave.topics.registered.all() == master.topics.registered.all())
