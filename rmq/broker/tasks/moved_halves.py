"""Moved halves: finds half messages that were stored anew and whose new places are not remembered.

A check back stores a half message anew, at another place. The reactor remembers the newest of these
moves (cext/flow/transaction/open_halves.pxd), but the log does not record them. So after a start,
or when a slave becomes the master, the old places are only known as ended. To answer correctly an
end that names an old place, the open half messages must be searched: a copy has the same key, birth
and body.

    sought = sought_of(message)             # some bytes: thousands of ends may wait at once
    place = await halves.place_of(sought)   # (log offset, half offset); None: it is ended

Ends that come while one search is under way share the next one, which begins after all of them
came. Half messages that are stored anew during a search go to the end of the queue, where the
search comes last. For the same reason, a half message that was not found can only appear at the end
of the queue later: the next search for it begins where the last one ended, so that a client that
repeats an end does not have all open half messages read each time.

Example: half 17 was stored anew as 90, and the broker was started again. The commit of 17 finds 90.
If the commit is repeated, the search goes from 18 to the end of the queue, 200; a third one begins
at 200.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from rmq import names
from rmq.broker.core_seam import LogCalls, TransactionCalls
from rmq.broker.store.queue_reader import Entry, QueueReader
from rmq.errors import ProtocolError, StoreError
from rmq.format.message import StoredMessage, decode_message

HALVES_AT_ONCE = 64  # half messages read before other work has its turn,
SLICE_BYTES = 256 * 1024  # or this many bytes of records; the last record may exceed that
ENDED_MAX = 65_536  # half messages remembered as open nowhere; the oldest are forgotten first
DIGEST_BYTES = 32
NAMING = ("PGROUP", "UNIQ_KEY", "REAL_TOPIC", "REAL_QID")  # properties that a copy has, too
_BORN = slice(40, 48)  # where a stored record has its birth time

Place = tuple[int, int]


class CoreCalls(TransactionCalls, LogCalls, Protocol):
    """What is used here of the core."""


class HalvesContext(Protocol):
    """What is used here of the broker."""

    queues: QueueReader

    @property
    def core(self) -> CoreCalls: ...


class Sought(NamedTuple):
    """A half message that is sought, with a place that it had."""

    half_offset: int
    born_ms: int
    digest: bytes  # of what is the same in all its copies


class Look(msgspec.Struct):
    """One search through the open half messages, for all that were sought before it began."""

    after: int = 2**63 - 1  # half offset to begin behind: copies lie behind their originals
    births: set[int] = set()
    wanted: set[bytes] = set()  # digests
    found: dict[bytes, Place] = {}
    is_done: bool = False


class MovedHalves:
    """Owned by the control thread."""

    def __init__(self, context: HalvesContext) -> None:
        self._context = context
        self._next = Look()
        self._lock = asyncio.Lock()
        # Digest -> half offset below which no copy is open.
        self._ended: dict[bytes, int] = {}

    async def place_of(self, sought: Sought) -> Place | None:
        """The place of an open copy of this half message, which may be the first one or one of a
        check back. StoreError: the disk cannot give all open half messages now."""
        look, digest = self._next, sought.digest
        look.after = min(look.after, max(sought.half_offset + 1, self._ended.get(digest, 0)))
        look.births.add(sought.born_ms)
        look.wanted.add(digest)
        async with self._lock:
            if look is self._next:
                self._next = Look()
                await self._walk(look)
        if not look.is_done:
            raise StoreError("the half messages that are open cannot be read just now")
        return look.found.get(digest)

    async def _walk(self, look: Look) -> None:
        at, size = look.after, 0
        while True:
            _, following, halves = self._context.core.open_halves(at, HALVES_AT_ONCE)
            if following <= at:  # the end of the queue
                break
            at = following
            for entry in self._entries(halves):
                self._compare(look, entry.physical_offset)
                size += entry.size
                if size >= SLICE_BYTES:
                    size = 0
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
        look.is_done = True
        for digest in look.wanted - look.found.keys():
            self._remember_ended(digest, at)

    def _entries(self, halves: list[int]) -> Iterator[Entry]:
        """The queue entries of these half messages, in few reads. A damaged one has no entry: the
        next check back gives it up."""
        queues = self._context.queues
        view = queues.view(names.HALF_TOPIC, 0) if halves else None
        if view is None:
            return
        first, some = 0, list[Entry]()
        for offset in halves:
            if offset - first >= len(some):
                first, some = offset, queues.entries(view, offset, HALVES_AT_ONCE, or_fail=True)
            if some:
                yield some[offset - first]

    def _compare(self, look: Look, physical_offset: int) -> None:
        record = self._context.core.read_record(physical_offset, 1)
        if record is None or int.from_bytes(record[_BORN], "big", signed=True) not in look.births:
            return  # damaged, or, as most are, not one of those that are sought
        with contextlib.suppress(ProtocolError):
            half = decode_message(record)[0]
            digest = sought_of(half).digest
            if digest in look.wanted:
                look.found[digest] = half.physical_offset, half.queue_offset

    def _remember_ended(self, digest: bytes, below: int) -> None:
        self._ended.pop(digest, None)
        self._ended[digest] = below
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]


def sought_of(message: StoredMessage) -> Sought:
    """What to search for, from a half message as it is stored."""
    properties, born_ms = message.properties, message.born_timestamp_ms
    named = repr((born_ms, message.born_host, *map(properties.get, NAMING))).encode()
    digest = hashlib.blake2b(len(named).to_bytes(4, "big") + named, digest_size=DIGEST_BYTES)
    digest.update(message.body)
    return Sought(message.queue_offset, born_ms, digest.digest())
