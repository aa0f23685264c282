"""Fed slaves: a slave to which a test feeds the bytes of a master's log, in pieces of its choice.

The protocol that normally brings these bytes has its own tests (tests/unit/flow/test_ha_stream.py).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.live_broker import open_core
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.node.truncation import truncate


def log_of(store: Path, end: int) -> bytes:
    found = bytearray()
    for file in sorted((store / "commitlog").iterdir()):
        with file.open("rb") as segment:
            found += segment.read(min(end - len(found), file.stat().st_size))
    return bytes(found)


def queues_of(store: Path) -> dict[str, bytes]:
    top = store / "consumequeue"
    return {str(f.relative_to(top)): f.read_bytes() for f in top.rglob("*") if f.is_file()}


def pieces(data: bytes, seed: int) -> Iterator[int]:
    """Random ends of pieces, which have a few bytes, a few records, or many records."""
    maker, at = random.Random(seed), 0
    while at < len(data):
        at = min(len(data), at + maker.choice((1, 7, 90, 400, 3000, 32768)) + maker.randrange(50))
        yield at


def copy_tables(master: Path, slave: Path) -> None:
    """Copies the tables of the master's control side, which it has beside the log."""
    shutil.copytree(master / "config", slave / "config", dirs_exist_ok=True)


async def feed(core: Any, data: bytes, start: int = 0) -> None:
    """Feeds the master's log from `start` on; returns when all of it is dispatched."""
    end = start
    while end < len(data):
        end = core.append_raw(end, data[end : end + (1 << 20)])
    await until(lambda: core.stats()["log_dispatched"] == end)


def records_of(log: bytes) -> list[int]:
    """The offsets at which the records of a one-segment log start, and the end of the last one."""
    starts, at = [], 0
    while at + 8 <= len(log) and (size := int.from_bytes(log[at : at + 4], "big")):
        starts.append(at)
        at += size
    return [*starts, at]


class FedSlave:
    """A slave with its control side. truncate() replaces the broker by a new one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def core(self) -> Any:
        return self.broker.core

    async def feed(self, data: bytes, start: int = 0) -> None:
        await feed(self.core, data, start)

    async def truncate(self, offset: int) -> None:
        self.broker = await truncate(self.broker, offset)

    async def stop(self) -> None:
        await self.broker.stop()
        self.core.stop()


async def fed_slave(directory: Path, master: Path | None = None, **settings: object) -> FedSlave:
    """Starts a slave on the directory, with the master's tables."""
    if master is not None:
        copy_tables(master, directory)
    loaded, core = open_core(directory, **settings)
    core.demote()
    core.start()
    broker = Broker(loaded, core)
    await broker.start()
    return FedSlave(broker)
