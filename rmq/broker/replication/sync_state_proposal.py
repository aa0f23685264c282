"""Sync state proposal: which sync state set the controller is asked for, on the way to the one
wanted.

The controller may refuse a set: for one who joins that it does not take, or for a member that it
takes for dead. Then the set that is nearest and was not refused just now is asked for, so that none
of them keeps the others from joining, nor a dead member in.

    goal                     what is wanted
    goal without one         who is to join and may be the one that is not taken
    the present, and one     of those who are to join
    goal without a member    who may be dead to the controller, though it acknowledges: when all
                             that holds it was refused for longer. No smaller than the present
    the present              without those who are gone
    less than that           a member may be the one: when answers have been held up for a while,
                             and the present is refused for long, not by a controller that is back
                             and has not heard of all of them yet

A set that is too small for sends (minInSyncReplicas) is asked for at once where it is what is
wanted, or grows; else when answers have been held up for a while, and those who would make it
larger are refused for long. Of several sets the one is first that was refused longest ago: where
the controller takes its time none keeps another from being asked for.

Example: in sync {1, 3}, 3 is dead, 2 has caught up but is none of the controller's.
    {1, 2} -> refused
    {1}    -> taken, and what waited for 3 is answered; where that is too small, two seconds later
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rmq.broker.replication.role import in_sync_min
from rmq.config import Settings

SWAP_MS = 2000  # so long a member that is gone stays for one who joins in its place
REFUSED_MS = 2000  # so long a set that was refused is not asked for again
FORGOTTEN_MS = 60_000
PATIENCE_MS = 10_000  # so long a member without heartbeats keeps out who is to join


class Refusals(NamedTuple):
    """Of one set, with neither a lost answer nor a set that was taken between them."""

    first_ms: int
    last_ms: int


class SyncStateProposal:
    """Of one mastership; owned by one thread. Times are monotonic milliseconds."""

    def __init__(self, own_id: int, settings: Settings) -> None:
        self._own = frozenset({own_id})
        self._settings = settings
        # Replicas tell a controller that is back that they live, but not all of them at once.
        self._long_ms = max(REFUSED_MS, 2 * settings.brokerHeartbeatInterval)
        self._refused: dict[frozenset[int], int] = {}  # sets: until when they are not asked for
        self._refusals: dict[frozenset[int], Refusals] = {}
        self._last_refused: dict[frozenset[int], int] = {}
        self._pressing_ms: int | None = None  # since when somebody holds answers up

    def refuse(self, asked: frozenset[int], now: int) -> None:
        """The controller said no."""
        self._refused[asked] = now + REFUSED_MS
        self._last_refused[asked] = now
        before = self._refusals.get(asked)
        self._refusals[asked] = Refusals(before.first_ms if before else now, now)

    def taken(self) -> None:
        """The controller said yes: who was refused before may be one it hears of now."""
        self._refused.clear()
        self._refusals.clear()

    def lost(self) -> None:
        """There was no answer: a controller that is back hears of each replica anew."""
        self._refusals.clear()

    def turned_down(self, members: frozenset[int]) -> frozenset[int]:
        """Who was to join, in a set that was refused just now."""
        return frozenset[int]().union(*self._refused) - members

    def allowed(self, wish: frozenset[int], members: frozenset[int], now: int) -> frozenset[int]:
        """The wish without those who are to join and were refused just now, alone."""
        self._refused = {each: until for each, until in self._refused.items() if until > now}
        self._last_refused = {
            each: last for each, last in self._last_refused.items() if now - last < FORGOTTEN_MS
        }
        stay = wish & members
        beside = stay
        if (self._is_refused(stay) and self._is_for_long(stay)) or self._keeps_out(members):
            beside = self._own
        return wish - {each for each in wish - stay if self._is_refused(beside | {each})}

    def note(
        self, wish: frozenset[int], members: frozenset[int], acks: frozenset[int], now: int
    ) -> None:
        """One who is not wanted, and whose acks count, holds answers up."""
        if members <= wish and acks <= wish:
            self._pressing_ms = None
            self._refusals = {
                each: found for each, found in self._refusals.items() if each > members
            }
        elif self._pressing_ms is None:
            self._pressing_ms = now

    def nearest(
        self, goal: frozenset[int], members: frozenset[int], now: int, *, wish: frozenset[int],
        late: AbstractSet[int] = frozenset(), is_open: bool = False,
    ) -> frozenset[int] | None:  # fmt: skip
        """What is asked for now. `goal`: allowed(), without those of the `wish` who are `late`, as
        they do not have all yet; `is_open`: an answer was lost, so that the present set may be
        asked for. None: nothing."""
        ways = [
            each
            for each in self._ways(goal, members, now)
            if (is_open or each != members)
            and not self._is_refused(each)
            and (each == wish or not self._waits(each, wish - late, members, now))
        ]
        return min(ways, key=lambda each: self._last_refused.get(each, 0), default=None)

    def _ways(
        self, goal: frozenset[int], members: frozenset[int], now: int
    ) -> list[frozenset[int]]:
        """The nearest to the goal first."""
        stay = goal & members
        joining, others = sorted(goal - stay), sorted(stay - self._own)
        ways = [goal, *(goal - {each} for each in joining), *(stay | {each} for each in joining)]
        if self._keeps_out(members) and len(goal) > len(members):
            ways += [goal - {each} for each in others]
        ways.append(stay)
        if self._is_pressed(now) and self._is_for_long(stay):
            ways += [goal - {each} for each in others]
            ways += [stay - {each} for each in others]
            ways += [self._own | {each} for each in (*joining, *others)]
            ways.append(self._own)
        return ways

    def _waits(
        self, asked: frozenset[int], wish: frozenset[int], members: frozenset[int], now: int
    ) -> bool:
        """Less than what is wanted: a set that is too small, though some of the wish may still
        join."""
        if members <= asked or len(asked) >= in_sync_min(self._settings):
            return False
        if not self._is_pressed(now):
            return True
        stay = wish & members
        if self._is_for_long(stay):
            return False
        if asked == stay:
            known = {each for each in wish - stay if self._is_for_long(stay | {each})}
        else:
            long = (each for each in self._refusals if each <= wish and self._is_for_long(each))
            known = set[int]().union(*long)
        return not wish - members - asked <= known

    def _is_pressed(self, now: int) -> bool:
        return self._pressing_ms is not None and now - self._pressing_ms > SWAP_MS

    def _is_refused(self, members: frozenset[int]) -> bool:
        """Or it holds a set that was: who is not taken there is not taken here."""
        return any(each <= members for each in self._refused)

    def _is_for_long(self, asked: frozenset[int], long_ms: int = 0) -> bool:
        """It was refused, and again when it was asked for once more."""
        found = self._refusals.get(asked)
        return found is not None and found.last_ms - found.first_ms >= (long_ms or self._long_ms)

    def _keeps_out(self, members: frozenset[int]) -> bool:
        """Larger sets are refused for longer, perhaps for a member."""
        return any(
            each > members and self._is_for_long(each, PATIENCE_MS) for each in self._refusals
        )
