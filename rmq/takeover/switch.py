"""Switch: from the last send at the old master to the store that the new one opens.

    switch = Switch(old, follower, say)
    switch.lag()                  bytes that the copy is behind
    switch.run(end_old)           freeze, match, end the old master, look that nothing lacks

    freeze      the old master takes no sends any more; they are tried again by the clients
    match       log and offsets are here as they are there
    end         by the operator, or by a command; pulls and offsets go on until then
    look        the copy has all that the old master is known to have had, and what its files hold
                if they are on this machine

Whatever fails before the old master has ended leaves it as it was: it takes sends again. After that
nothing is done that cannot be undone by starting it again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from rmq.errors import RmqError, UnreachableError
from rmq.takeover.follower import Follower
from rmq.takeover.old_log import left_over
from rmq.takeover.old_master import OldMaster, Presence, delivered_to, offsets

FREEZE_S = 30.0
RENEW_S = 10.0
LOOK_S = 0.05
MATCH_S = 10.0
TABLES_S = 3.0
GONE_LOOKS = 3  # in a row
DETACHED_S = 10.0

Say = Callable[[str], None]


class Switch:
    """Used by the main thread, once."""

    def __init__(
        self, old: OldMaster, follower: Follower, log_directory: Path, say: Say,
        silent_is_gone: bool = False,
    ) -> None:  # fmt: skip
        """log_directory: of the copy. silent_is_gone: the operator knows that an old master that
        nobody can reach has ended."""
        self._old = old
        self._follower = follower
        self._log_directory = log_directory
        self._say = say
        self._silent_is_gone = silent_is_gone
        self._end = 0  # of the old master's log, as it said last
        self.frozen_at = 0.0  # time.monotonic()

    def lag(self) -> int:
        self._follower.check()
        return max(0, self._old.log_range()[1] - self._follower.log_range()[1])

    def run(self, end_old: Callable[[], None]) -> None:
        """Returns when the copy is all there is, and closed. RmqError: it is not, and the text says
        what to do."""
        try:
            self.frozen_at = time.monotonic()
            self._old.freeze(FREEZE_S)
            self._match()
            end_old()
            self._wait_gone()
        except BaseException:
            with contextlib.suppress(RmqError):
                self._old.release()
            raise
        self._look()
        self._follower.stop()

    # ---- match

    def _match(self) -> None:
        until = time.monotonic() + MATCH_S
        before = -1
        while True:
            self._follower.check()
            self._end = self._old.log_range()[1]
            if self._end == before and self._follower.log_range()[1] >= self._end:
                break
            if time.monotonic() > until:
                self._say("the old master's log still grows (delayed and timed messages)")
                if self._follower.log_range()[1] < before:
                    raise RmqError(
                        f"the copy is {self.lag()} bytes behind and does not catch up: the old "
                        "master takes sends again, try later"
                    )
                break
            before = self._end
            time.sleep(LOOK_S)
        self._match_tables()

    def _match_tables(self) -> None:
        """What consumers and deliveries do goes on; what they had done by now is to be here."""
        until, delivered = time.monotonic() + TABLES_S, delivered_to(self._old.address)
        while (missing := self._offsets_missing()) or self._is_behind(delivered):
            if time.monotonic() > until:
                break
            time.sleep(LOOK_S)
        if missing:
            self._say(f"consumers commit meanwhile: up to {missing} messages may come again")

    def _is_behind(self, delivered: dict[str, int]) -> bool:
        ours = delivered_to(self._follower.address)
        return any(ours.get(what, 0) < place for what, place in delivered.items())

    def _offsets_missing(self) -> int:
        """How many messages are consumed there, and not yet as far as is known here."""
        ours = offsets(self._follower.address)
        return sum(
            max(0, offset - max(0, ours.get(place, 0)))
            for place, offset in offsets(self._old.address).items()
        )

    # ---- the end of the old master

    def _wait_gone(self) -> None:
        looks, renewed, said = 0, time.monotonic(), False
        while looks < GONE_LOOKS:
            self._follower.check()
            match self._old.presence():
                case Presence.RUNS:
                    looks = 0
                    with contextlib.suppress(UnreachableError):
                        self._end = max(self._end, self._old.log_range()[1])
                        if time.monotonic() - renewed > RENEW_S:
                            self._old.freeze(FREEZE_S)
                            renewed = time.monotonic()
                case Presence.GONE:
                    looks += 1
                case Presence.SILENT if self._silent_is_gone:
                    looks += 1
                case Presence.SILENT:
                    looks = 0
                    if not said:
                        self._say(
                            f"nobody answers at {self._old.address}, and nobody refuses: it may "
                            "run. If you know that it does not, run again with --old-is-off"
                        )
                        said = True
            time.sleep(LOOK_S)

    # ---- nothing lacks

    def _look(self) -> None:
        """What was on its way when the old master ended has arrived when the stream has ended."""
        until = time.monotonic() + DETACHED_S
        while self._is_attached() and time.monotonic() < until:
            time.sleep(LOOK_S)
        end = self._follower.log_range()[1]
        if end < self._end:
            raise RmqError(
                f"the copy ends at {end}, and the old master's log at {self._end}: start the old "
                "master again, and then this command"
            )
        lacking = left_over(self._old.settings, end, self._log_directory)
        if lacking:
            raise RmqError(
                f"the old master's files hold {len(lacking)} messages beyond {end}, where the copy "
                f"ends (the first of topic {lacking[0].topic}): start the old master again, and "
                "then this command"
            )

    def _is_attached(self) -> bool:
        sample = self._follower.sample()
        return bool(sample.follows) and not sample.replication_problem
