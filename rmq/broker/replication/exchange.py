"""Exchange: what a slave asks its master for, and how it is told when something changed (906).

RocketMQ's slaves ask for every table at intervals. A slave of rmq says which versions it has, and
is answered when the master has other versions, or after a while:

    906  rmqSlave "1"   rmqKnown {"topics":"1763726400.5 7",..}   rmqWaitMillis 10000
         -> masterAddress, masterHaAddress, masterFlushOffset, rmqVersions {"topics":".. 8",..}

With rmqKept a slave names versions that it was told of but does not have, such as accounts, which
are sent only by TLS: it is answered when there are other versions, and does not count as having
these.

With rmqOrders it asks for the batches that are popped in order and not acknowledged, for which
RocketMQ has no request (metadata_copy.py).

A slave of an older rmq copies none of the LATER tables. So rmqKnown names each LATER table that the
slave copies, with "" before it has the table; a LATER table that is not named is neither waited for
nor told of.

With rmqLogTail, before it asks for the log, a slave says how its log ends (tail_checksum.py).

A master that gives no rmqVersions is RocketMQ's own. Code that knows that a table has changed calls
wake(); the other tables are checked every POLL_S.

What a slave says it has is also the proof that it has it. settled() waits for that proof, so that a
topic whose creation was answered is not lost with this machine; and where a controller elects
masters, a slave is not in sync before has() is true for its tables.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from rmq.base import clock
from rmq.base.deadline import within
from rmq.limits import SLAVES_MAX

POLL_S = 1.0
# The tables that are told of at once; the others change with each message that is consumed.
PROMPT = ("topics", "groups", "modes", "accounts")
LATER = ("orders",)  # tables that older versions of rmq do not copy
WAIT_MS_MAX = 30_000
GONE_S = 15.0  # a slave that has not asked for this long is not waited for

Versions = dict[str, str]


class Exchange:
    """Owned by the control thread."""

    def __init__(self, start: str, tables: Mapping[str, Callable[[], int]]) -> None:
        """tables: name -> returns a number that grows with each change since this start of the
        broker. start: a text that differs for each start."""
        self._start = start
        self._tables = tables
        self._changed = asyncio.Event()
        self._is_closed = False
        self._known: dict[int, tuple[float, Versions]] = {}  # slave -> when it asked, what it has

    def versions(self) -> Versions:
        return {name: f"{self._start} {count()}" for name, count in self._tables.items()}

    def wake(self) -> None:
        """Tells slaves now of a changed table, instead of after POLL_S."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Ends all waiting for changes."""
        self._is_closed = True
        self.wake()

    def begin(self) -> None:
        """Begins a mastership: slaves have last copied the tables from another master, or not at
        all, so what they said before does not count."""
        self._known.clear()

    def counts(self, tables: Iterable[str]) -> dict[str, int]:
        """How many changes each of these tables has seen so far."""
        return {name: self._tables[name]() for name in tables}

    def has(self, slave: int, least: Mapping[str, int]) -> bool:
        """Whether the slave has said that it has these tables, as far as it copies them, with at
        least so many changes."""
        if slave not in self._known:
            return False
        _, known = self._known[slave]
        return all(
            self._count(known.get(name, "")) >= count
            for name, count in least.items()
            if _copies(known, name)
        )

    def slaves(self) -> int:
        """How many slaves have asked within GONE_S."""
        now = clock.monotonic()
        return sum(now - asked < GONE_S for asked, _ in self._known.values())

    def ever(self) -> int:
        """How many slaves have asked at all."""
        return len(self._known)

    async def changed(
        self, slave: int, known: Versions | None, wait_s: float, kept: Versions | None = None
    ) -> Versions:
        """Returns the versions as soon as they differ from those that the slave knows, or else as
        they are after `wait_s`. known=None: the slave does not say what it knows, for example when
        it only looks for its master. kept: versions that it was told of but does not have."""
        began = clock.monotonic()
        until = began + wait_s
        if slave in self._known or self._has_room(began):
            before = self._known.get(slave, (0.0, {}))[1]
            self._known[slave] = (began, before if known is None else known)
            self.wake()  # wakes those that wait for this slave
        heard = (known or {}) | (kept or {})
        while True:
            present, now = self.versions(), clock.monotonic()
            looked_at = PROMPT if now - began < POLL_S else present.keys()
            left_s = until - now
            differs = any(
                present.get(name) != heard.get(name) for name in looked_at if _copies(heard, name)
            )
            if differs or left_s <= 0 or self._is_closed:
                return present
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._changed.wait(), min(left_s, POLL_S))

    def _has_room(self, now: float) -> bool:
        """Whether there is room for one more slave; a slave that is gone makes room."""
        if len(self._known) >= SLAVES_MAX:
            oldest = min(self._known, key=lambda slave: self._known[slave][0])
            if now - self._known[oldest][0] < GONE_S:
                return False
            del self._known[oldest]
        return True

    async def settled(
        self, tables: Iterable[str], needed: int | Callable[[], AbstractSet[int]], timeout_s: float
    ) -> bool:
        """Waits until `needed` slaves have these tables as they are now, or all of the slaves in
        the set that needed() returns at each look; returns whether they had them in time."""
        goal = self.counts(tables)
        until = clock.monotonic() + timeout_s
        self.wake()
        while not self._have(goal, needed):
            left_s = until - clock.monotonic()
            if left_s <= 0 or self._is_closed:
                return False
            with contextlib.suppress(asyncio.TimeoutError):  # no event tells when needed() changes
                await within(self._changed.wait(), min(left_s, POLL_S))
        return True

    def _have(self, goal: Mapping[str, int], needed: int | Callable[[], AbstractSet[int]]) -> bool:
        """Whether the needed slaves have these tables, or newer ones."""
        found = {slave for slave in self._known if self.has(slave, goal)}
        return len(found) >= needed if isinstance(needed, int) else found >= needed()

    def _count(self, version: str) -> int:
        """The number of changes in a version; -1 for a version of another start."""
        start, _, count = version.rpartition(" ")
        return int(count) if start == self._start and count.isdecimal() else -1


def _copies(known: Versions, name: str) -> bool:
    """Whether a slave that names these versions copies the table."""
    return name not in LATER or name in known
