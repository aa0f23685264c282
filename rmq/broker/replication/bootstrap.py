"""Bootstrap: before a slave's store is opened: whose slave it is, where its log begins, and whether
it may have lost its end.

An empty log must begin where the master's does, whose oldest files may be gone: its first file is
named accordingly. So a slave without a log waits here for its master; a slave with a log opens it
and serves what it has, whether the master is there or not.

Example: the master keeps its log from 3221225472 on (files of 1 GiB); the slave's first file is
commitlog/00000000003221225472, all zeros, and the stream begins there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from rmq.base.first_segment import begin_log, check_start, forget_queues, has_segments
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.controller_link import ControllerError, ControllerLink
from rmq.broker.replication.epoch_file import EpochFile, epoch_path
from rmq.broker.replication.identity import IdentityFiles, identity_path
from rmq.broker.replication.lost_end import LostEnd, doubted_end_path, lost_end_path
from rmq.broker.replication.master_search import MasterSearch
from rmq.broker.replication.role import acks_durable
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.errors import ConfigError, RmqError
from rmq.format.store_files import is_present_boot, read_checkpoint

log = logging.getLogger("rmq.broker.bootstrap")

RETRY_S = 1.0
NOBODY = 0  # stands for the id of a broker that has none yet


async def bootstrap(settings: Settings) -> None:
    """Returns when the store may be opened. ConfigError: the master that was found is not the one
    of this slave."""
    if has_segments(settings.commit_log_directory):
        return
    search = MasterSearch(settings)
    begin_at(settings, await until_known(lambda: start_of(search)))


async def bootstrap_controlled(settings: Settings) -> None:
    """The same where the controller knows whose slave this is. The log of the first replica, which
    joins nobody, begins at 0. So does the log of a member of the sync state set whose store is
    gone, while nobody is master: the member must be present, or the others may wait for it
    (rmq/controller/decisions.py). Its log begins anew where the log of the elected master begins
    (ControlledReplication). ConfigError, StoreCorruptError: the id is another broker's, or the id
    or the epoch file cannot be read."""
    if has_segments(settings.commit_log_directory):
        note_doubt(settings)
        return
    note_lost_log(settings)
    link = ControllerLink(
        ControllerAddresses(settings.controllerAddr),
        settings.brokerClusterName,
        settings.brokerName,
    )
    broker_id = own_id(settings)
    try:
        start = await until_known(lambda: controlled_start(settings, link, broker_id))
    finally:
        link.close()
    begin_at(settings, start)


def note_lost_log(settings: Settings) -> None:
    """Notes a lost end if the log has no files but had epochs: somebody has removed it, perhaps
    with its checkpoint. If it were elected because of its epochs, it would lead with an empty
    log."""
    if EpochFile(epoch_path(settings)).read().entries:
        LostEnd(lost_end_path(settings)).note(
            f"{settings.commit_log_directory} has no log, and epochs of one are known"
        )


def note_doubt(settings: Settings) -> None:
    """Notes that the log may lack what this replica has acknowledged. A clean stop syncs it, and
    what was written since the machine was started is there, synced or not. This must be noted
    before the store is opened: that writes a checkpoint of the present boot, and the start may fail
    afterwards."""
    if settings.flushDiskType == "SYNC_FLUSH" and acks_durable(settings):
        return
    root = Path(settings.storePathRootDir).expanduser()
    written = read_checkpoint(root / "checkpoint")
    is_sure = written is not None and not written.own_problem and is_present_boot(written.boot_id)
    if is_sure or not (root / "abort").exists():
        return
    LostEnd(doubted_end_path(settings)).note(
        "the machine was started again without a clean stop of this broker, and what it "
        "acknowledged was not synced: its log may have lost its end",
        logging.WARNING,
    )


async def controlled_start(settings: Settings, link: ControllerLink, broker_id: int | None) -> int:
    try:
        info = await link.replica_info(NOBODY)
    except ControllerError as error:
        if error.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            return 0
        raise
    if info.master_id is None:
        members = info.sync_state.members
        if members and broker_id not in members:
            # One of the members must become master, and its log may begin anywhere.
            raise ControllerError(
                None,
                f"no broker of brokerName={settings.brokerName} is master now, and "
                f"{sorted(members)} have its log: start one of them; if none comes back, take "
                "them off (rmq replica remove, mqadmin cleanBrokerMetadata)",
            )
        return 0
    search = MasterSearch(settings)
    search.address = lambda: info.master_address
    return await start_of(search)


def own_id(settings: Settings) -> int | None:
    """The id of this broker; None: it has none yet."""
    cluster, name = settings.brokerClusterName, settings.brokerName
    return IdentityFiles(identity_path(settings), cluster, name).broker_id()


async def start_of(search: MasterSearch) -> int:
    return (await search.find()).log_start


def begin_at(settings: Settings, start: int) -> None:
    check_start(start, settings.mappedFileSizeCommitLog)
    root = Path(settings.storePathRootDir).expanduser()
    if start and root.is_dir():
        forget_queues(root)
    begin_log(settings.commit_log_directory, start, settings.mappedFileSizeCommitLog)
    if start:
        log.info("the log begins where the master's does: %d", start)


async def until_known(ask: Callable[[], Awaitable[int]]) -> int:
    said = ""
    while True:
        try:
            return await ask()
        except ConfigError:
            raise
        except (RmqError, OSError, ValueError, asyncio.TimeoutError) as error:
            text = str(error) or type(error).__name__
            if text != said:
                said = text
                log.warning("waiting for the master, whose log this one is to begin with: %s", text)
        await asyncio.sleep(RETRY_S)
