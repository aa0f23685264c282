"""Joining: before a slave's store is opened: whose slave it is, and where its log begins.

An empty log has to begin where the master's does, whose oldest files may be gone: its first file
gets that name. So a slave without a log waits here for its master; one with a log opens it and
serves what it has, whether the master is there or not.

Example: the master keeps its log from 3221225472 on (files of 1 GiB); the slave's first file is
commitlog/00000000003221225472, all zeros, and the stream begins there.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from rmq.base.durable_directory import make_directory, sync_directory
from rmq.broker.replication.master_search import MasterSearch
from rmq.config import Settings
from rmq.errors import ConfigError, RmqError

log = logging.getLogger("rmq.broker.joining")

RETRY_S = 1.0
NAME_DIGITS = 20


async def join(settings: Settings) -> None:
    """Returns when the store may be opened. ConfigError: the master that was found is not ours."""
    directory = log_directory(settings)
    if directory.is_dir() and any(path.name.isdigit() for path in directory.iterdir()):
        return
    search, said = MasterSearch(settings), ""
    while True:
        try:
            start = (await search.find()).log_start
            break
        except ConfigError:
            raise
        except (RmqError, OSError, ValueError, asyncio.TimeoutError) as error:
            text = str(error) or type(error).__name__
            if text != said:
                said = text
                log.warning("waiting for the master, whose log this one is to begin with: %s", text)
        await asyncio.sleep(RETRY_S)
    begin_log(directory, start, settings.mappedFileSizeCommitLog)


def log_directory(settings: Settings) -> Path:
    path = settings.storePathCommitLog or str(Path(settings.storePathRootDir) / "commitlog")
    return Path(path).expanduser()


def begin_log(directory: Path, start: int, segment_bytes: int) -> None:
    """Makes the first file of a log that begins at `start`. At 0 the store makes it itself."""
    if start == 0:
        return
    if start < 0 or start % segment_bytes:
        raise ConfigError(
            f"mappedFileSizeCommitLog={segment_bytes}: the master's log begins at {start}, which "
            "is no start of such a file; set it as the master has it"
        )
    make_directory(directory)
    path = directory / f"{start:0{NAME_DIGITS}d}"
    with path.open("xb") as file:
        file.truncate(segment_bytes)
        os.fsync(file.fileno())
    sync_directory(directory)
    log.info("the log begins where the master's does: %d", start)
