"""Commands: what a supervisor answers over the bus: status, numbers, drain, restart, shrink.

    Status            what each shard is doing, and why it is not serving
    AllStats          Stats of all shards, each within STATS_S; silent shards are named
    Drain(1)          shard 1 takes no sends any more, until Drain(1, on=False)
    Restart(1)        shard 1 is stopped cleanly and started anew; Done when it serves
    Shrink(1)         all shards but one are removed: they take no sends, must hold nothing
                      unconsumed, and are stopped

Shrinking first takes the shards' permission to write and then looks for unconsumed messages, so
that no message slips in between. When it is refused, or cannot be noted on the disk, the shards
that stay get their permission back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Protocol

from rmq import names
from rmq.base import clock
from rmq.errors import RmqError
from shards import shard as states
from shards.bus_router import BusRouter
from shards.messages import (
    AllStats,
    AllStatsReply,
    BusError,
    Done,
    Drain,
    Message,
    Restart,
    Shrink,
    Stats,
    StatsReply,
    Status,
    StatusReply,
)
from shards.shard import Shard

STATS_S = 1.0
RESTART_S = 60.0
SHOWN_MAX = 5  # queues named in a refusal
# What unconsumed_messages.py counts under system topics.
ON_THE_WAY = {
    names.SCHEDULE_TOPIC: "delayed",
    names.TIMER_TOPIC: "timed, or popped and perhaps to come again",
    names.HALF_TOPIC: "open transactions",
}


class Supervisor(Protocol):
    """What commands use of the supervisor."""

    router: BusRouter
    shards: dict[int, Shard]
    started_ms: int
    version: str

    async def changed(self, timeout_s: float = ...) -> None: ...

    async def drain(self, shard: Shard, on: bool, refuse: bool = False) -> None: ...

    async def remove(self, shard: Shard) -> None: ...

    def restart(self, shard: Shard) -> None: ...

    async def unconsumed(self, shard: Shard) -> dict[str, int]: ...


async def answer(supervisor: Supervisor, message: Message) -> Message:
    if isinstance(message, Status):
        shards = [shard.status() for _, shard in sorted(supervisor.shards.items())]
        return StatusReply(os.getpid(), supervisor.version, supervisor.started_ms, shards)
    if isinstance(message, AllStats):
        return await _stats(supervisor)
    if isinstance(message, Drain):
        await supervisor.drain(_shard(supervisor, message.index), message.on)
        return Done("it takes no sends" if message.on else "it takes sends again")
    if isinstance(message, Restart):
        return await _restart(supervisor, _shard(supervisor, message.index))
    if isinstance(message, Shrink):
        return await _shrink(supervisor, message)
    raise BusError(f"a supervisor answers no {type(message).__name__}")


def _shard(supervisor: Supervisor, index: int) -> Shard:
    found = supervisor.shards.get(index)
    if found is None:
        raise BusError(f"there is no shard {index}: 0 to {max(supervisor.shards)}")
    return found


async def _stats(supervisor: Supervisor) -> AllStatsReply:
    indexes = sorted(supervisor.shards)
    replies = await asyncio.gather(
        *(supervisor.router.ask(index, Stats(), STATS_S) for index in indexes),
        return_exceptions=True,
    )
    stats = [reply for reply in replies if isinstance(reply, StatsReply)]
    spoke = {each.index for each in stats}
    return AllStatsReply(stats, [index for index in indexes if index not in spoke])


async def _restart(supervisor: Supervisor, shard: Shard) -> Done:
    before = shard.pid
    supervisor.restart(shard)
    end = clock.monotonic() + RESTART_S
    while clock.monotonic() < end:
        if shard.pid not in (0, before) and shard.serving_at is not None:
            return Done(f"process {shard.pid} serves at {shard.address}")
        if shard.state == states.GIVEN_UP:
            break
        await supervisor.changed(1.0)
    raise BusError(f"shard {shard.index} does not serve yet: {shard.state}, {shard.reason}")


async def _shrink(supervisor: Supervisor, message: Shrink) -> Done:
    if not 1 <= message.shards <= len(supervisor.shards):
        raise BusError(f"there are {len(supervisor.shards)} shards; 1 to that many may stay")
    going = [
        supervisor.shards[i] for i in range(len(supervisor.shards) - 1, message.shards - 1, -1)
    ]
    before = {shard.index: shard.drain for shard in going}
    try:
        for shard in going:
            await supervisor.drain(shard, True, refuse=True)
        if not message.discard:
            held = [text for shard in going if (text := _held(await supervisor.unconsumed(shard)))]
            if held:
                what = "; ".join(held)
                raise BusError(f"messages nobody has consumed would be out of reach: {what}")
        for shard in going:
            await supervisor.remove(shard)
    except (OSError, RmqError):
        for shard in going:
            if shard.index in supervisor.shards:
                with contextlib.suppress(OSError, RmqError):
                    await supervisor.drain(shard, before[shard.index])
        raise
    stores = ", ".join(str(shard.place.store) for shard in going)
    return Done(
        f"{len(supervisor.shards)} shards are left. Not used any more: {stores or 'nothing'}"
    )


def _held(messages: dict[str, int]) -> str:
    largest = sorted(messages.items(), key=lambda pair: -pair[1])
    rows = [f"{count} of {_shown(name.removesuffix('@'))}" for name, count in largest[:SHOWN_MAX]]
    more = f" and {len(largest) - SHOWN_MAX} more" if len(largest) > SHOWN_MAX else ""
    return ", ".join(rows) + more


def _shown(name: str) -> str:
    words = "popped, about to come again" if name.startswith(names.REVIVE_PREFIX) else ""
    words = words or ON_THE_WAY.get(name, "")
    return f"{name} ({words})" if words else name
