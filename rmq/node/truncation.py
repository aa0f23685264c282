"""Truncation: a shard of this process goes on with a shorter log, or with an empty one that begins
elsewhere.

    broker = await truncate(broker, offset)
    broker = await begin_elsewhere(broker, start)

The broker is stopped, which writes its tables. Then the core cuts its log, and a new broker starts
on the same core. All connections are closed, as RocketMQ and Kafka close theirs when the leader
changes; the port stays the same. Why the log is not cut in place is said in docs/design/log.md.
Each step is watched, and health checks are told which one is running
(rmq/broker/status/store_reopening.py). If the process ends on the way, its next start does the
rest.

The core has to be a slave, and nothing may wait for its log (core.demote() is true). Otherwise
StoreError is raised, and the given broker goes on serving.

truncate_damage(core, settings) is for the start of a replica whose log is damaged at a place that a
power cut may have left torn. A broker without replicas keeps the records after such a place, as
nobody else has them. If a replica kept them, it would lack some records in the middle, while the
end of its log says that it has them. It would count as in sync, and as master it would lose records
that others have. So its log is cut before the damage, and the rest is copied from the master. Until
then the replica reports that it has lost its end, as it does when its log is shorter than its
checkpoint says (rmq/broker/replication/lost_end.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rmq.broker.replication.epoch_file import EpochFile, epoch_path
from rmq.broker.replication.lost_end import LostEnd, lost_end_path
from rmq.broker.replication.role import is_controlled, is_slave
from rmq.broker.siblings import Siblings
from rmq.broker.status.http_server import StatusServer
from rmq.broker.status.sampler import Sampler
from rmq.broker.status.store_reopening import StoreReopening
from rmq.broker.tables.deleted_topics import deleted_topics
from rmq.broker.tasks import truncation
from rmq.config import Settings
from rmq.errors import StoreError
from rmq.node.slave_start import follow as begin_following

log = logging.getLogger("rmq.node.truncation")

B = TypeVar("B", bound="ReopenedBroker")


class ReopenedBroker(Protocol):
    """What is used here of the broker."""

    sampler: Sampler
    settings: Settings
    siblings: Siblings
    status: StatusServer | None

    @property
    def core(self) -> Any: ...

    def successor(self: B) -> B: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def finish_truncation(core: Any, settings: Settings) -> None:
    """Call it at a start, between core.open() and core.start()."""
    if core.truncation is not None and is_controlled(settings):
        _trim_epochs(settings, core.log_range()[1])
    truncation.finish(core, config_of(settings))


def _trim_epochs(settings: Settings, log_end: int) -> None:
    """Drops the epochs after the log's end, unless the log has lost its end. Records that were cut
    because the master lacks them are not lost. But if the end was lost, the epochs stay, as they
    tell how far the log went."""
    if not lost_end_path(settings).exists():
        file = EpochFile(epoch_path(settings))
        file.write(file.read().within(log_end))


def config_of(settings: Settings) -> Path:
    return Path(settings.storePathRootDir).expanduser() / "config"


async def truncate(broker: B, offset: int, prepare: Callable[[B], None] = lambda _: None) -> B:
    """Returns the new broker. prepare: called with it before it starts."""
    core = broker.core
    core.check_truncation(offset)

    def change(step: Callable[[str], None]) -> None:
        truncate_core(core, broker.settings, offset, step)

    return await _changed(broker, f"cut at {offset}", change, prepare)


async def begin_elsewhere(
    broker: B, start: int, prepare: Callable[[B], None] = lambda _: None
) -> B:
    """Like truncate(), but the log is empty then and begins at `start`."""
    core = broker.core
    core.check_beginning(start)

    def change(step: Callable[[str], None]) -> None:
        step("beginning")
        core.begin_log(start)

    return await _changed(broker, f"to begin at {start}", change, prepare)


async def _changed(
    broker: B,
    what: str,
    change: Callable[[Callable[[str], None]], None],
    prepare: Callable[[B], None],
) -> B:
    core = broker.core
    before = broker.sampler.take(brief=True) if broker.status is not None else None
    reopening = StoreReopening(broker.settings, what, before)
    await broker.siblings.reopening()
    await broker.stop()
    async with reopening:
        await asyncio.to_thread(change, reopening.step)
        reopening.step("starting")
        begin_following(core, broker.settings)
        core.start()
    fresh = broker.successor()
    prepare(fresh)
    await fresh.start()
    return fresh


def truncate_core(
    core: Any, settings: Settings, offset: int, step: Callable[[str], None] = lambda _: None
) -> None:
    """Blocks: it reads files and waits for syncs. step: called with each step's name before it
    begins."""
    step("reading")
    commit_log = settings.commit_log_directory
    found = truncation.summary_of(core, offset, settings.mappedFileSizeCommitLog, commit_log)
    deleted = deleted_topics(config_of(settings))
    step("cutting")
    core.truncate(offset, found.note(), found.due_ms, found.timers_end, deleted)
    step("mending")
    finish_truncation(core, settings)


def truncate_damage(core: Any, settings: Settings) -> None:
    """Call it at a start, between follow() and core.start(). Where the log may not be cut, that is
    logged and the log stays. StoreError: the cut failed."""
    if not (is_controlled(settings) or is_slave(settings)):
        return
    report = core.report
    if report["log_end"] < report["known_end"] and "truncated_to" not in report:
        _note_lost_end(
            settings,
            f"the log ends at {report['log_end']} and was on the disk up to {report['known_end']}",
        )
    (Path(settings.storePathRootDir).expanduser() / "rmqKnownEnd").unlink(missing_ok=True)
    damages = report["damages"]
    if not damages:
        return
    offset = min(each["log_offset"] for each in damages)
    core.set_visible(offset)
    try:
        core.check_truncation(offset)
    except StoreError as error:
        log.error("%s: this replica keeps what is behind the damage; remove its store, and it "
                  "copies everything", error)  # fmt: skip
        core.set_visible(truncation.OFFSET_MAX)
    else:
        log.warning("the log is cut at %d, before the first damage: a replica has the rest from "
                    "its master", offset)  # fmt: skip
        _note_lost_end(
            settings, f"the log was damaged at {offset} and ended at {report['log_end']}"
        )
        truncate_core(core, settings, offset)
    begin_following(core, settings)


def _note_lost_end(settings: Settings, why: str) -> None:
    """Noted for the controller, which is to elect another replica."""
    if is_controlled(settings):
        LostEnd(lost_end_path(settings)).note(why)
