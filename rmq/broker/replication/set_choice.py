"""Set choice: which sync state set the controller is asked for, on the way to the one wanted.

The controller may refuse a set: for one who joins that it does not take, or for a member that it
takes for dead. Then the set that is nearest and was not refused just now is asked for, so that none
of them keeps the others from joining, nor a dead member in.

    goal                     what is wanted
    goal without one         who is to join and may be the one that is not taken
    the present, and one     of those who are to join
    the present              without those who are gone
    less than that           a member may be the one; when it has held answers up for a while

Example: in sync {1, 3}, 3 is dead, 2 has caught up but is none of the controller's.
    {1, 2} -> refused
    {1}    -> taken, and what waited for 3 is answered
"""

from __future__ import annotations

from rmq.broker.replication.role import in_sync_min
from rmq.config import Settings

SWAP_MS = 2000  # so long a member that is gone stays for one who joins in its place
REFUSED_MS = 2000


class SetChoice:
    """Of one mastership; owned by one thread. Times are monotonic milliseconds."""

    def __init__(self, own_id: int, settings: Settings) -> None:
        self._own = frozenset({own_id})
        self._settings = settings
        self._refused: dict[frozenset[int], int] = {}  # sets: until when they are not asked for
        self._pressing_ms: int | None = None  # since when somebody holds answers up

    def refuse(self, asked: frozenset[int], now: int) -> None:
        """The controller said no."""
        self._refused[asked] = now + REFUSED_MS

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
        if stay != members and self._is_pressed(now):
            ways += [*(stay - {each} for each in sorted(stay - self._own)), self._own]
        found = next((each for each in ways if not self._is_refused(each)), None)
        return found if is_open or found != members else None

    def waits(self, asked: frozenset[int], now: int) -> bool:
        """Less than the goal is asked for at once where it is enough; a set that is too small when
        somebody has held answers up for a while."""
        return len(asked) < in_sync_min(self._settings) and not self._is_pressed(now)

    def _is_pressed(self, now: int) -> bool:
        return self._pressing_ms is not None and now - self._pressing_ms > SWAP_MS

    def _is_refused(self, members: frozenset[int]) -> bool:
        """Or it holds a set that was: who is not taken there is not taken here."""
        return any(each <= members for each in self._refused)
