"""Sync state proposal: which sync state set to ask the controller for, on the way to the wanted
one.

The controller may refuse a set, because of a joining replica that it does not accept, or because of
a member that it takes for dead. Then the nearest set that was not refused just now is asked for, so
that one refused replica neither keeps others from joining nor keeps a dead member in.

    goal                     the wanted set
    goal without one         joining replica, which may be the one that is refused
    the present, and one     of the joining replicas
    goal without a member    that the controller may take for dead although it acknowledges: when
                             all sets with it were refused for longer. Not smaller than the present
    the present              without the members that are gone
    less than that           a member may be the cause: when answers have been held up for a while,
                             and the present set was refused for long, so not merely by a controller
                             that is back and has not heard of all replicas yet

A set that is too small for sends (minInSyncReplicas) is never asked for in place of a larger one.
It would allow no answer, and nobody but the master could be elected any more, although those who
leave have everything that was answered. So they stay members, and what waits is answered without
them, as too few answer (sync_watch.py). That rests on three things:

    each ack needs the whole set      not with allAckInSyncStateSet=false
    more than the master is needed    not with minInSyncReplicas=1
    those who leave have everything   not if one came back with less, is a learner now, or would be
                                      elected after it has lost something (sync_watch.py)

Elsewhere such a set is asked for at once if it is the wanted one or larger than the present one;
otherwise only when answers have been held up for a while, and the replicas that would make it
larger were refused for long. Of several possible sets, the one that was refused longest ago comes
first: so with a slow controller no set keeps another from being asked for.

Example: in sync {1, 3}; 3 is dead; 2 has caught up but is not known to the controller.
    {1, 2} -> refused, and asked for again and again
    {1}    -> if it is not too small: taken, and what waited for 3 is answered
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from rmq.broker.replication.role import in_sync_min
from rmq.config import Settings

SWAP_MS = 2000  # how long a member that is gone stays, for another that may replace it
REFUSED_MS = 2000  # how long a refused set is not asked for again
FORGOTTEN_MS = 60_000
PATIENCE_MS = 10_000  # how long a member without heartbeats may keep others from joining


class Refusals(NamedTuple):
    """Refusals of one set, with neither a lost answer nor an accepted set between them."""

    first_ms: int
    last_ms: int


class SyncStateProposal:
    """Used for one mastership; owned by one thread. Times are monotonic milliseconds."""

    def __init__(self, own_id: int, settings: Settings, has_all: Callable[[int], bool]) -> None:
        """has_all: whether a member that is elected is sure to have everything that was
        answered."""
        self._own = frozenset({own_id})
        self._settings = settings
        self._has_all = has_all
        # Replicas do not all tell at the same time a controller that is back that they live.
        self._long_ms = max(REFUSED_MS, 2 * settings.brokerHeartbeatInterval)
        self._refused: dict[frozenset[int], int] = {}  # set -> until when it is not asked for
        self._refusals: dict[frozenset[int], Refusals] = {}
        self._last_refused: dict[frozenset[int], int] = {}
        self._pressing_ms: int | None = None  # since when answers are held up

    def refuse(self, asked: frozenset[int], now: int) -> None:
        """Called when the controller has refused the set."""
        self._refused[asked] = now + REFUSED_MS
        self._last_refused[asked] = now
        before = self._refusals.get(asked)
        self._refusals[asked] = Refusals(before.first_ms if before else now, now)

    def taken(self) -> None:
        """Called when the controller has accepted a set: it may also know replicas now that it
        refused before."""
        self._refused.clear()
        self._refusals.clear()

    def lost(self) -> None:
        """Called when there was no answer: a controller that comes back must hear of each replica
        anew."""
        self._refusals.clear()

    def turned_down(self, members: frozenset[int]) -> frozenset[int]:
        """The joining replicas in sets that were refused just now."""
        return frozenset[int]().union(*self._refused) - members

    def allowed(self, wish: frozenset[int], members: frozenset[int], now: int) -> frozenset[int]:
        """The wish, without joining replicas that were refused just now when each was the only one
        joining."""
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
        """Notes whether answers are held up by a replica that is not wanted but whose acks
        count."""
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
        """The set to ask for now; None: none. `goal`: allowed(), without the replicas of the `wish`
        that are `late`, because they do not have everything yet; `is_open`: an answer was lost, so
        that the present set may be asked for."""
        ways = [
            each
            for each in self._ways(goal, members, now)
            if (is_open or each != members)
            and not self._is_refused(each)
            and not self._locks_out(each, members)
            and (each == wish or not self._waits(each, wish - late, members, now))
        ]
        return min(ways, key=lambda each: self._last_refused.get(each, 0), default=None)

    def _ways(
        self, goal: frozenset[int], members: frozenset[int], now: int
    ) -> list[frozenset[int]]:
        """The sets that may be asked for, the nearest to the goal first."""
        stay = goal & members
        joining, others = sorted(goal - stay), sorted(stay - self._own)
        ways = [goal, *(goal - {each} for each in joining), *(stay | {each} for each in joining)]
        if self._keeps_out(members) and len(goal) > len(members):
            ways += [goal - {each} for each in others]
        ways.append(stay)
        if self.is_pressed(now) and self._is_for_long(stay):
            ways += [goal - {each} for each in others]
            ways += [stay - {each} for each in others]
            ways += [self._own | {each} for each in (*joining, *others)]
            ways.append(self._own)
        return ways

    def _locks_out(self, asked: frozenset[int], members: frozenset[int]) -> bool:
        """Whether this set would allow no answer, and those who leave have all that was
        answered."""
        if len(asked) >= min(in_sync_min(self._settings), len(members)):
            return False
        return all(map(self._has_all, members - asked))

    def _waits(
        self, asked: frozenset[int], wish: frozenset[int], members: frozenset[int], now: int
    ) -> bool:
        """Whether this set must wait: it is smaller than wanted and too small for sends, and more
        replicas of the wish may still join."""
        if members <= asked or len(asked) >= in_sync_min(self._settings):
            return False
        if not self.is_pressed(now):
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

    def is_stuck(
        self, goal: frozenset[int], members: frozenset[int], now: int, is_open: bool
    ) -> bool:
        """Whether answers are held up, and the controller refuses for long every set that may be
        asked for."""
        return self.is_pressed(now) and all(
            self._locks_out(each, members)
            or any(known <= each and self._is_for_long(known) for known in self._refusals)
            for each in self._ways(goal, members, now)
            if is_open or each != members
        )

    def is_pressed(self, now: int) -> bool:
        """Whether answers have been held up for a while."""
        return self._pressing_ms is not None and now - self._pressing_ms > SWAP_MS

    def _is_refused(self, members: frozenset[int]) -> bool:
        """Whether the set was refused, or contains one that was: a replica that is refused in one
        set is refused in the other, too."""
        return any(each <= members for each in self._refused)

    def _is_for_long(self, asked: frozenset[int], long_ms: int = 0) -> bool:
        """Whether the set was refused, and again when it was asked for later."""
        found = self._refusals.get(asked)
        return found is not None and found.last_ms - found.first_ms >= (long_ms or self._long_ms)

    def _keeps_out(self, members: frozenset[int]) -> bool:
        """Whether larger sets are refused for longer, perhaps because of a member."""
        return any(
            each > members and self._is_for_long(each, PATIENCE_MS) for each in self._refusals
        )
