"""Live broker: a real ShardCore and its control side in this process, on a free port.

    async with live_broker(tmp_path, messageDelayLevel="1s 2s") as broker:
        async with BrokerClient(broker.core.port) as client:
            ...
        records(broker, "t")        # what a queue holds, decoded

Its files are small, so that a test's store takes little disk. At the end of the block the store is
closed cleanly; tests/process tests kills. With `slave`, or with the settings of a slave, its core
starts as a slave's (core_seam.py).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.broker_client import BrokerClient
from support.waiting import until_is

from cext.flow.shard_core import ShardCore
from rmq.broker.broker import Broker
from rmq.broker.core_options import make_core
from rmq.broker.replication.role import is_slave
from rmq.codes import ResponseCode
from rmq.config import Settings, load_properties
from rmq.format.message import StoredMessage, decode_message
from rmq.node.truncation import finish_truncation

SUCCESS = ResponseCode.SUCCESS
SMALL = {
    # A broker that starts reads its newest segments to the end, and the slots of the key index.
    "mappedFileSizeCommitLog": str(4 << 20),
    "mappedFileSizeConsumeQueue": "600000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "100000",
    "rmqRingBytes": str(8 << 20),
    "maxMessageSize": str(1 << 20),
    "namesrvAddr": "",
    "listenPort": "0",
    "brokerIP1": "127.0.0.1",
    "syncFlushTimeout": "600000",
    "brokerSuspendMaxTimeMillis": "3600000",
    # A busy disk must not cause refusals (tests/fault tests those). On a driven clock, which runs
    # fast while a test waits, these 20 minutes are one.
    "waitTimeMillsInSendQueue": "1200000",
    "osPageCacheBusyTimeOutMills": "1200000",
}


def open_core(directory: Path, **settings: object) -> tuple[Settings, ShardCore]:
    """Opens a core without starting it; returns its settings and the core."""
    texts = {**SMALL, "storePathRootDir": str(directory)}
    texts.update({key: str(value).lower() if isinstance(value, bool) else str(value)
                  for key, value in settings.items()})  # fmt: skip
    for part in ("", "commitlog", "consumequeue", "config"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    loaded = load_properties(None, texts)
    core = make_core(loaded)
    core.open()
    finish_truncation(core, loaded)
    return loaded, core


@asynccontextmanager
async def live_broker(
    directory: Path, slave: bool = False, **settings: object
) -> AsyncIterator[Broker]:
    loaded, core = open_core(directory, **settings)
    if slave or is_slave(loaded):
        core.demote()
    async with running(loaded, core) as broker:
        yield broker


@asynccontextmanager
async def running(loaded: Settings, core: ShardCore) -> AsyncIterator[Broker]:
    """Runs a broker on the settings and the core that open_core() returned."""
    core.start()
    broker = Broker(loaded, core)
    try:
        await broker.start()
        try:
            yield broker
        finally:
            await broker.stop()
    finally:
        core.stop()


@asynccontextmanager
async def served(directory: Path, **settings: object) -> AsyncIterator[tuple[Broker, BrokerClient]]:
    """A live broker and one client connected to it."""
    async with (
        live_broker(directory, **settings) as broker,
        BrokerClient(broker.core.port) as client,
    ):
        yield broker, client


async def fill_log(broker: Broker, client: BrokerClient, topic: str, end: int) -> None:
    """Sends until the log ends at `end` or behind it. Retries sends that are refused, as happens
    while the next file is made."""
    while broker.core.log_range()[1] < end:
        await until_is(
            lambda: client.send(topic, bytes(900_000)), lambda reply: reply.code == SUCCESS
        )


def entries(broker: Broker, topic: str, queue_id: int = 0) -> list[tuple[int, int, int]]:
    """(physical offset, size, tags code) of every entry of a queue."""
    view = broker.queues.view(topic, queue_id)
    if view is None:
        return []
    out: list[tuple[int, int, int]] = []
    while view.min_offset + len(out) < view.max_offset:
        some = broker.queues.entries(view, view.min_offset + len(out), 1000)
        assert some, "an entry cannot be read"
        out += [(entry.physical_offset, entry.size, entry.tags_code) for entry in some]
    return out


def records(broker: Broker, topic: str, queue_id: int = 0) -> list[StoredMessage]:
    """The messages of a queue."""
    out = []
    for physical_offset, _, _ in entries(broker, topic, queue_id):
        record = broker.core.read_record(physical_offset)
        assert record is not None
        out.append(decode_message(record)[0])
    return out
