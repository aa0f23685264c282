"""Set choice: which sync state set the controller is asked for, on the way to the one wanted.

The controller may refuse a set: for one who joins that it does not take, or for a member that it
takes for dead. Then the set that is nearest and was not refused just now is asked for, so that none
of them keeps the others from joining, nor a dead member in.

    goal                     what is wanted
    goal without one         who is to join and may be the one that is not taken
    the present, and one     of those who are to join
    the present              without those who are gone
    less than that           a member may be the one: when answers have been held up for a while,
                             and the present was refused for as long, not by a controller that is
                             back and has not heard of all of them yet

A set that is too small for sends (minInSyncReplicas) is asked for at once where it is what is
wanted, or grows; else it waits for the same while.

Example: in sync {1, 3}, 3 is dead, 2 has caught up but is none of the controller's.
    {1, 2} -> refused
    {1}    -> taken, and what waited for 3 is answered
"""

from __future__ import annotations

from rmq.broker.replication.role import in_sync_min
from rmq.config import Settings

SWAP_MS = 2000  # so long a member that is gone stays for one who joins in its place
REFUSED_MS = 2000  # so long a set that was refused is not asked for again


class SetChoice:
    """Of one mastership; owned by one thread. Times are monotonic milliseconds."""

    def __init__(self, own_id: int, settings: Settings) -> None:
        self._own = frozenset({own_id})
        self._settings = settings
        self._refused: dict[frozenset[int], int] = {}  # sets: until when they are not asked for
        self._pressing_ms: int | None = None  # since when somebody holds answers up
        self._first_refused: dict[frozenset[int], int] = {}  # since then

    def refuse(self, asked: frozenset[int], now: int) -> None:
        """The controller said no."""
        self._refused[asked] = now + REFUSED_MS
        self._first_refused.setdefault(asked, now)

    def allowed(self, goal: frozenset[int], members: frozenset[int], now: int) -> frozenset[int]:
        """The goal without those who are to join and were refused just now, alone."""
        self._refused = {each: until for each, until in self._refused.items() if until > now}
        stay = goal & members
        return goal - {each for each in goal - stay if self._is_refused(stay | {each})}

    def note(
        self, goal: frozenset[int], members: frozenset[int], is_open: bool, now: int
    ) -> None:  # fmt: skip
        """One who is gone, and a member or perhaps a member, holds answers up."""
        if members <= goal and not is_open:
            self._pressing_ms = None
            self._first_refused.clear()
        elif self._pressing_ms is None:
            self._pressing_ms = now

    def nearest(
        self, goal: frozenset[int], members: frozenset[int], is_open: bool, now: int
    ) -> frozenset[int] | None:
        """What is asked for now. `is_open`: an answer was lost, so that the present set may be
        asked for. None: nothing."""
        stay = goal & members
        joining = sorted(goal - stay)
        ways = [goal, *(goal - {each} for each in joining), *(stay | {each} for each in joining)]
        ways.append(stay)
        if (stay != members or is_open) and self._may_go_below(stay, now):
            others = sorted(stay - self._own)
            ways += [stay - {each} for each in others]
            ways += [self._own | {each} for each in others]
            ways.append(self._own)
        found = next((each for each in ways if not self._is_refused(each)), None)
        return found if is_open or found != members else None

    def waits(self, asked: frozenset[int], members: frozenset[int], now: int) -> bool:
        """Less than the goal is asked for: a set that is too small, though others may come."""
        is_too_small = not members <= asked and len(asked) < in_sync_min(self._settings)
        return is_too_small and not self._is_pressed(now)

    def _may_go_below(self, stay: frozenset[int], now: int) -> bool:
        refused_ms = now - self._first_refused.get(stay, now)
        return self._is_pressed(now) and refused_ms >= REFUSED_MS

    def _is_pressed(self, now: int) -> bool:
        return self._pressing_ms is not None and now - self._pressing_ms > SWAP_MS

    def _is_refused(self, members: frozenset[int]) -> bool:
        """Or it holds a set that was: who is not taken there is not taken here."""
        return any(each <= members for each in self._refused)
