"""Exchange: what a slave asks its master for, and how it is told when that has changed (906).

RocketMQ's slaves ask for every table again and again. A slave of rmq says what it has, and is
answered when the master has something else, or after a while:

    906  rmqSlave "1"   rmqKnown {"topics":"1763726400.5 7",..}   rmqWaitMillis 10000
         -> masterAddress, masterHaAddress, masterFlushOffset, rmqVersions {"topics":".. 8",..}

With rmqKept it says what it was told of and does not have, as accounts that go by TLS alone: it is
answered when there is something else, and nobody takes it for one that has them.

With rmqOrders it asks for the batches that are out of pops in order, which no request of RocketMQ's
gives (metadata_copy.py).

A slave of an older rmq copies none of the LATER tables: of these rmqKnown names each that is
copied, with "" before it is here, and one that it does not name is neither waited for nor news.

With rmqLogTail, before it asks for the log, a slave says how its log ends (tail_checksum.py).

A master that gives no rmqVersions is RocketMQ's own. Whoever knows that a table has changed calls
wake(); the others are looked at once in POLL_S.

What a slave says it has is also the proof that it has it: settled() waits for that, so that a topic
whose creation was answered is not lost with this machine; and where a controller elects masters
nobody is in sync before it has() the tables.
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
# The others change with each message that is consumed.
PROMPT = ("topics", "groups", "modes", "accounts")
LATER = ("orders",)  # that not each rmq copies
WAIT_MS_MAX = 30_000
GONE_S = 15.0  # a slave that has not asked for so long is not waited for

Versions = dict[str, str]


class Exchange:
    """Owned by the control thread."""

    def __init__(self, start: str, tables: Mapping[str, Callable[[], int]]) -> None:
        """tables: name -> a number that grows with each change, from this `start` of the broker
        on: another start has another text."""
        self._start = start
        self._tables = tables
        self._changed = asyncio.Event()
        self._is_closed = False
        self._known: dict[int, tuple[float, Versions]] = {}  # slave -> when it asked, what it has

    def versions(self) -> Versions:
        return {name: f"{self._start} {count()}" for name, count in self._tables.items()}

    def wake(self) -> None:
        """A table has changed that nobody shall wait POLL_S for."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Nobody waits for a change any more."""
        self._is_closed = True
        self.wake()

    def begin(self) -> None:
        """A mastership begins: slaves have copied these tables from another one last, or not at
        all, and what they said before is of no use."""
        self._known.clear()

    def counts(self, tables: Iterable[str]) -> dict[str, int]:
        """How many changes each has seen by now."""
        return {name: self._tables[name]() for name in tables}

    def has(self, slave: int, least: Mapping[str, int]) -> bool:
        """Whether the slave has said that it has these tables, with at least so many changes; of
        those that it copies."""
        if slave not in self._known:
            return False
        _, known = self._known[slave]
        return all(
            self._count(known.get(name, "")) >= count
            for name, count in least.items()
            if _copies(known, name)
        )

    def slaves(self) -> int:
        """How many have asked within GONE_S."""
        now = clock.monotonic()
        return sum(now - asked < GONE_S for asked, _ in self._known.values())

    def ever(self) -> int:
        """How many have asked at all."""
        return len(self._known)

    async def changed(
        self, slave: int, known: Versions | None, wait_s: float, kept: Versions | None = None
    ) -> Versions:
        """The versions as soon as they are others than the slave knows, or as they are then. None:
        it does not say what it knows, as where it only looks who is there. kept: it has heard of
        these, and does not have them."""
        began = clock.monotonic()
        until = began + wait_s
        if slave in self._known or self._has_room(began):
            before = self._known.get(slave, (0.0, {}))[1]
            self._known[slave] = (began, before if known is None else known)
            self.wake()  # who waits for this slave
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
        """For one more slave: one that is gone makes it."""
        if len(self._known) >= SLAVES_MAX:
            oldest = min(self._known, key=lambda slave: self._known[slave][0])
            if now - self._known[oldest][0] < GONE_S:
                return False
            del self._known[oldest]
        return True

    async def settled(
        self, tables: Iterable[str], needed: int | Callable[[], AbstractSet[int]], timeout_s: float
    ) -> bool:
        """Whether so many slaves, or each of those that count just then, have these tables as they
        are now; waits for them so long."""
        goal = self.counts(tables)
        until = clock.monotonic() + timeout_s
        self.wake()
        while not self._have(goal, needed):
            left_s = until - clock.monotonic()
            if left_s <= 0 or self._is_closed:
                return False
            with contextlib.suppress(asyncio.TimeoutError):  # who counts is said to nobody
                await within(self._changed.wait(), min(left_s, POLL_S))
        return True

    def _have(self, goal: Mapping[str, int], needed: int | Callable[[], AbstractSet[int]]) -> bool:
        """They have them, or have newer ones."""
        found = {slave for slave in self._known if self.has(slave, goal)}
        return len(found) >= needed if isinstance(needed, int) else found >= needed()

    def _count(self, version: str) -> int:
        """-1 for one of another start."""
        start, _, count = version.rpartition(" ")
        return int(count) if start == self._start and count.isdecimal() else -1


def _copies(known: Versions, name: str) -> bool:
    """Whether a slave that says this has the table, or is to have it."""
    return name not in LATER or name in known
