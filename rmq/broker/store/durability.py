"""Durability: waits until what control stored in the log is as safe as an answer of 0 promises.

The reactor does the same for its own answers (cext/flow/append/promise.pxd, acknowledgement.pxd);
docs/promises.md has a row for each request code. core.append() returns when the record is written,
which is all that ASYNC_FLUSH without slaves promises. With SYNC_FLUSH the record must be synced,
which the flusher has begun already. Where answers wait for slaves, these must have the record. A
master may promise nothing when its controller may have elected another one meanwhile.

Example: 323 stores a half message anew. It is answered 0 when it is on the disk and the slave has
it, 10 (FLUSH_DISK_TIMEOUT) after syncFlushTimeout, 11 (SLAVE_NOT_AVAILABLE) when the lease ended.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from rmq.base import clock
from rmq.broker.core_seam import LogCalls
from rmq.codes import ResponseCode
from rmq.config import Settings

POLL_S = 0.001  # between two looks at the marks
# In the reactor's words.
REMARKS = {
    ResponseCode.SUCCESS: None,
    ResponseCode.FLUSH_DISK_TIMEOUT: "stored, but not synced to disk within syncFlushTimeout",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "stored, but not replicated within slaveTimeout",
    ResponseCode.SLAVE_NOT_AVAILABLE: "stored, but fewer slaves follow than are to have it, or "
    "another broker may be master by now",
}


class Promises(Protocol):
    """What is used here of replication."""

    def may_promise(self) -> Callable[[], bool]: ...


class Context(Protocol):
    """What is used here of the broker."""

    settings: Settings

    @property
    def core(self) -> LogCalls: ...
    @property
    def replication(self) -> Promises: ...


async def durable(context: Context) -> tuple[ResponseCode, str | None]:
    """(SUCCESS, None) when everything that was appended before the call is safe; else the response
    code and the remark that say what is missing."""
    may_promise = context.replication.may_promise()
    end, _, _ = context.core.log_copies()
    began = clock.monotonic()
    while True:
        waited_ms = (clock.monotonic() - began) * 1000
        code = _look(context, end, waited_ms) if may_promise() else ResponseCode.SLAVE_NOT_AVAILABLE
        if code is not None:
            return code, REMARKS[code]
        await asyncio.sleep(POLL_S)


def _look(context: Context, end: int, waited_ms: float) -> ResponseCode | None:
    """The response code, or None while it must still wait."""
    settings, core = context.settings, context.core
    _, copied, too_few = core.log_copies()
    if copied < end and too_few:
        return ResponseCode.SLAVE_NOT_AVAILABLE
    if copied < end and waited_ms > settings.slaveTimeout:
        return ResponseCode.FLUSH_SLAVE_TIMEOUT
    is_synced = settings.flushDiskType != "SYNC_FLUSH" or core.log_range()[2] >= end
    if not is_synced and waited_ms > settings.syncFlushTimeout:
        return ResponseCode.FLUSH_DISK_TIMEOUT
    return ResponseCode.SUCCESS if is_synced and copied >= end else None
