"""Durability: what control stores in the log is as safe as flushDiskType says when it is answered.

The reactor does this for its own answers (cext/flow/append/promise.pxd); docs/promises.md has a row
for each request code. core.append() returns when the record is written, which is what ASYNC_FLUSH
promises; with SYNC_FLUSH the sync has to pass it, which the flusher has begun by then.

Example: 323 stores a half message anew and is answered 0 when it is on the disk, or 10
(FLUSH_DISK_TIMEOUT) after syncFlushTimeout.
"""

import asyncio

from rmq.broker.core_seam import LogCalls
from rmq.codes import ResponseCode
from rmq.config import Settings

POLL_S = 0.001  # between two reads of the mark
NOT_SYNCED = "stored, but not synced to disk within syncFlushTimeout"


async def durable(settings: Settings, core: LogCalls) -> ResponseCode:
    """SUCCESS when all that was appended before the call is safe, else FLUSH_DISK_TIMEOUT."""
    if settings.flushDiskType != "SYNC_FLUSH":
        return ResponseCode.SUCCESS
    end = core.log_range()[1]
    loop = asyncio.get_running_loop()
    patience = loop.time() + settings.syncFlushTimeout / 1000
    while core.log_range()[2] < end:
        if loop.time() > patience:
            return ResponseCode.FLUSH_DISK_TIMEOUT
        await asyncio.sleep(POLL_S)
    return ResponseCode.SUCCESS
