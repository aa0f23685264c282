"""Moved halves: where half messages are that were stored anew, and whose places nobody remembers.

A check back stores a half message anew, at another place. The reactor remembers the newest of these
moves (cext/flow/transaction/open_halves.pxd); the log has no word of them, so that a start, or a
slave that becomes the master, knows the old places only as ended. An end that names one is answered
truly when those that are open are looked at: a copy has the same key, birth and body.

    place = await halves.place_of(message)      # (log offset, half offset); None: it is ended

Ends that come while one look is under way share the next one: it begins after all of them came, and
what is stored anew during it is at the end of the queue, where it comes last.

Example: half 17 was stored anew as 90, and the broker was started again. The commit of 17 finds 90.
"""

import asyncio
import contextlib
from typing import Protocol

import msgspec

from rmq import names
from rmq.broker.core_seam import LogCalls, TransactionCalls
from rmq.broker.store.queue_reader import QueueReader
from rmq.errors import ProtocolError, StoreError
from rmq.format.message import StoredMessage, decode_message

HALVES_AT_ONCE = 64  # read before others have their turn
NAMING = ("PGROUP", "UNIQ_KEY", "REAL_TOPIC", "REAL_QID")  # properties that a copy has, too

Place = tuple[int, int]
Identity = tuple[str | bytes | None, ...]


class CoreCalls(TransactionCalls, LogCalls, Protocol):
    """What is used here of the core."""


class HalvesContext(Protocol):
    """What is used here of the broker."""

    queues: QueueReader

    @property
    def core(self) -> CoreCalls: ...


class Look(msgspec.Struct):
    """One walk over the open half messages, for all that were asked for before it began."""

    after: int = 2**63 - 1  # half offset; copies lie behind what they are copies of
    wanted: set[Identity] = set()
    found: dict[Identity, Place] = {}
    is_done: bool = False


class MovedHalves:
    """Owned by the control thread."""

    def __init__(self, context: HalvesContext) -> None:
        self._context = context
        self._next = Look()
        self._lock = asyncio.Lock()

    async def place_of(self, message: StoredMessage) -> Place | None:
        """Of an open copy of this half message, as it was stored first or at some check back.
        StoreError: the disk does not give all that are open just now."""
        look, identity = self._next, _identity(message)
        look.after = min(look.after, message.queue_offset + 1)
        look.wanted.add(identity)
        async with self._lock:
            if look is self._next:
                self._next = Look()
                await self._walk(look)
        if not look.is_done:
            raise StoreError("the half messages that are open cannot be read just now")
        return look.found.get(identity)

    async def _walk(self, look: Look) -> None:
        core, queues = self._context.core, self._context.queues
        at = look.after
        while at < queues.range(names.HALF_TOPIC, 0)[1]:
            _, at, halves = core.open_halves(at, HALVES_AT_ONCE)
            for offset in halves:
                self._compare(look, offset)
            await asyncio.sleep(0)
        look.is_done = True

    def _compare(self, look: Look, offset: int) -> None:
        queues, core = self._context.queues, self._context.core
        view = queues.view(names.HALF_TOPIC, 0)
        entry = queues.entry(view, offset, or_fail=True) if view is not None else None
        record = core.read_record(entry.physical_offset, 1) if entry is not None else None
        if record is None:
            return  # a damaged one: the next check back gives it up
        with contextlib.suppress(ProtocolError):
            half = decode_message(record)[0]
            identity = _identity(half)
            if identity in look.wanted:
                look.found[identity] = half.physical_offset, half.queue_offset


def _identity(message: StoredMessage) -> Identity:
    properties = message.properties
    born = f"{message.born_timestamp_ms} {message.born_host}"
    return (message.body, born, *(properties.get(name) for name in NAMING))
