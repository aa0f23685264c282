"""Freeze: the time in which the old master takes no sends, and whether it was ever interrupted.

    freeze = Freeze(old)
    freeze.begin()          RmqError: the old master still takes sends
    freeze.renew()          may be called any number of times; RmqError: it had ended in between
    freeze.check_covers()   RmqError: it had ended before now
    freeze.release()        the old master takes sends again

A freeze ends by itself, so that a takeover that was killed does no harm. Messages sent to the old
master after that end were acknowledged and are not known here, so the takeover then fails.

The clock used here goes on while this machine sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rmq.errors import RmqError
from rmq.takeover.old_master import OldMaster

FREEZE_S = 30.0
RENEW_S = 10.0
AGAIN = "it may have taken sends: start it again if it has ended, and then run this command again"


def boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Freeze:
    """Used by one thread."""

    def __init__(self, old: OldMaster, clock: Callable[[], float] = boot_time) -> None:
        self._old = old
        self._clock = clock
        self._renew_at = 0.0
        self._until = 0.0

    def begin(self) -> None:
        self._set()
        if not self._old.refuses_sends():
            raise RmqError(
                f"{self._old.address} takes sends although it was told not to "
                "(startAcceptSendRequestTimeStamp): was its clock changed?"
            )

    def renew(self) -> None:
        if self._clock() < self._renew_at:
            return
        until = self._until
        self._set()
        if self._clock() > until:
            raise RmqError(f"{self._old.address} could not be reached for too long, and {AGAIN}")

    def check_covers(self) -> None:
        if self._clock() > self._until:
            raise RmqError(
                f"{self._old.address} cannot be reached, nor could it for {FREEZE_S:g} s before, "
                f"and {AGAIN}"
            )

    def release(self) -> None:
        self._old.release()

    def _set(self) -> None:
        """Sets the freeze. Its time counts from before the question, so that it does not end later
        here than at the old master."""
        asked = self._clock()
        self._old.freeze(FREEZE_S)
        self._renew_at, self._until = asked + RENEW_S, asked + FREEZE_S
