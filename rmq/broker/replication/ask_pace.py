"""Ask pace: how soon the controller is asked again what it did not decide.

A question may fail and settle nothing: no controller answers, its store does not, or RocketMQ's
says that the set is what it was (2013) where a lost answer may still come true. It is asked again,
at first at each look; and the longer that lasts the more seldom, with a pause of an eighth of the
time that it has lasted, and ASK_MS at most. So a controller that was away for two seconds is asked
within 0.3 s of its return, and one that says the same for half a minute hears it some 50 times, not
300.

What differs from what failed is asked at once: another set, and all once the set has changed.

    pace = AskPace()
    pace.is_due(members, now)       nobody asked for these, or long enough ago
    pace.undecided(members, now)    it was asked, and that settled nothing
    pace.decided()                  the controller said yes or no, or has another set
"""

from __future__ import annotations

from typing import NamedTuple

ASK_MS = 1000  # the longest pause; the controller is asked for leases as often
SPELL_MS = 10_000  # a question that was not asked for so long begins anew
PART = 8  # of the time that a question has been open: the pause before it is asked again


class Spell(NamedTuple):
    """In which one question was asked again and again."""

    first_ms: int
    last_ms: int

    @property
    def pause_ms(self) -> int:
        return min((self.last_ms - self.first_ms) // PART, ASK_MS)


class AskPace:
    """Of one mastership; owned by one thread. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._spells: dict[frozenset[int], Spell] = {}

    def is_due(self, members: frozenset[int], now: int) -> bool:
        spell = self._spells.get(members)
        return spell is None or now - spell.last_ms >= spell.pause_ms

    def undecided(self, members: frozenset[int], now: int) -> None:
        spell = self._spells.get(members)
        goes_on = spell is not None and now - spell.last_ms <= SPELL_MS
        self._spells[members] = Spell(spell.first_ms if spell and goes_on else now, now)

    def decided(self) -> None:
        self._spells.clear()
