"""Truncation: a shard of this process goes on with a shorter log.

    broker = await truncate(broker, offset)

The broker is stopped, which writes its tables, the core cuts its log, and a new broker starts on
the same core. All connections are closed meanwhile, as RocketMQ's and Kafka's brokers close theirs
when the leader changes; the port stays. When the process ends on the way, its next start does the
rest.

The core is a follower, and nothing waits for its log (core.demote() is true); else StoreError, and
the broker that was given serves on.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmq.broker.broker import Broker
from rmq.broker.tables.deleted_topics import deleted_topics
from rmq.broker.tasks import truncation
from rmq.config import Settings
from rmq.node.slave_start import follow as begin_following


def finish_truncation(core: Any, settings: Settings) -> None:
    """At a start, between core.open() and core.start()."""
    truncation.finish(core, config_of(settings))


def config_of(settings: Settings) -> Path:
    return Path(settings.storePathRootDir).expanduser() / "config"


async def truncate(
    broker: Broker, offset: int, prepare: Callable[[Broker], None] = lambda _: None
) -> Broker:
    """prepare: called with the new broker before it starts."""
    core: Any = broker.core
    core.check_truncation(offset)
    await broker.stop()
    await asyncio.to_thread(cut, core, broker.settings, offset)
    begin_following(core, broker.settings)
    core.start()
    fresh = Broker(broker.settings, core)
    prepare(fresh)
    await fresh.start()
    return fresh


def cut(core: Any, settings: Settings, offset: int) -> None:
    """Reads files and waits for syncs."""
    found = truncation.summary_of(core, offset, settings.mappedFileSizeCommitLog)
    deleted = deleted_topics(config_of(settings))
    core.truncate(offset, found.note(), found.due_ms, found.timers_end, deleted)
    finish_truncation(core, settings)
