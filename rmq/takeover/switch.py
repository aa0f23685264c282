"""Switch: the steps from the last send at the old master to the store that the new one opens.

    switch = Switch(old, slave, log_directory, say)
    switch.lag()                  how many bytes the copy is behind
    switch.run(end_old)           freeze, match, end the old master, check that nothing is missing

    freeze      the old master takes no sends any more; clients try them again
    match       waits until log and offsets here equal those there, from the log's beginning on
    end         the operator, or a command, ends the old master; it serves pulls and offsets until
                then
    look        checks that the copy has all that the old master is known to have had, and what its
                files hold, if they are on this machine

If something fails before the old master has ended, the old master is as before: it takes sends
again. After its end nothing is done that cannot be undone by starting it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rmq.errors import RmqError, UnreachableError
from rmq.takeover.freeze import FREEZE_S, Freeze
from rmq.takeover.old_log import left_over
from rmq.takeover.old_master import OldMaster, Presence, delivered_to, named, offsets
from rmq.takeover.slave import Slave

POLL_S = 0.05
MATCH_S = 10.0
TABLES_S = 5.0
GONE_LOOKS = 3  # in a row
DETACHED_S = 10.0

Say = Callable[[str], None]
LOST = "start the old master again, and then run this command again"


class Switch:
    """Used by the main thread, once."""

    def __init__(
        self, old: OldMaster, slave: Slave, log_directory: Path, say: Say,
        is_off: Callable[[str], bool],
    ) -> None:  # fmt: skip
        """log_directory: that of the copy. is_off: asks the operator, once, whether the old master,
        which cannot be reached, had ended by the time that is passed."""
        self._old = old
        self._slave = slave
        self._freeze = Freeze(old)
        self._log_directory = log_directory
        self._say = say
        self._is_off = is_off
        self._said: set[str] = set()
        self._seen = ""  # when the old master answered last
        self._end = 0  # the end of its log, as it said last
        self.frozen_at = 0.0  # time.monotonic()

    def lag(self) -> int:
        self._slave.check()
        return max(0, self._old.log_range()[1] - self._slave.log_range()[1])

    def run(self, end_old: Callable[[], Callable[[], None]]) -> None:
        """Returns when the copy is complete and closed. RmqError: it is not, and the text says what
        to do. `end_old` begins to end the old master; the function that it returns is called until
        the old master is gone, and raises RmqError if ending it has failed."""
        try:
            self.frozen_at = time.monotonic()
            self._freeze.begin()
            self._seen = time.strftime("%H:%M:%S")
            self._match()
            self._wait_gone(end_old())
        except BaseException:
            self._release()
            raise
        try:
            self._look()
            self._slave.stop()
        except BaseException:
            self._say(f"the old master has ended, and no other has replaced it: {LOST}")
            raise

    def _release(self) -> None:
        try:
            self._freeze.release()
        except RmqError:
            self._say(
                f"{self._old.address} cannot be told to take sends again. If it runs, it takes "
                f"them by itself within {FREEZE_S:g} s; if not, {LOST}"
            )
        else:
            self._say(f"{self._old.address} takes sends again")

    # ---- match

    def _match(self) -> None:
        self._match_beginnings()
        until = time.monotonic() + MATCH_S
        before = -1
        while True:
            self._slave.check()
            self._end = self._old.log_range()[1]
            if self._end == before and self._slave.log_range()[1] >= self._end:
                break
            if time.monotonic() > until:
                self._say("the old master's log still grows (delayed and timed messages)")
                if self._slave.log_range()[1] < before:
                    raise RmqError(
                        f"the copy is {self.lag()} bytes behind and does not catch up: try later"
                    )
                break
            before = self._end
            time.sleep(POLL_S)
        self._match_tables()

    def _match_beginnings(self) -> None:
        """Compares where both logs begin. The old master's retention may move its beginning
        forward, so it is asked last."""
        ours = self._slave.log_range()[0]
        theirs = self._old.log_range()[0]
        if ours > theirs:
            raise RmqError(
                f"the copy begins at {ours}, but the old master's log at {theirs}: the part in "
                "between was deleted from the copy. Give an empty directory with --store"
            )

    def _match_tables(self) -> None:
        """Waits until the copy has the offsets and deliveries of now. Consumers and deliveries of
        the old master go on meanwhile."""
        until, delivered = time.monotonic() + TABLES_S, delivered_to(self._old.address)
        names = named(self._old.address)
        while (
            (missing := self._offsets_missing())
            or self._is_behind(delivered)
            or names - named(self._slave.address)
        ):
            if time.monotonic() > until:
                break
            time.sleep(POLL_S)
        if lacking := sorted(names - named(self._slave.address)):
            raise RmqError(
                f"the copy did not get {len(lacking)} of the old master's topics and groups "
                f"({lacking[0]}): {self._slave.problem() or f'see {self._slave.log_path}'}"
            )
        if missing and (problem := self._slave.problem()):
            raise RmqError(f"the copy did not get the offsets that consumers committed: {problem}")
        if missing:
            self._say(f"consumers still commit: up to {missing} messages may be delivered again")

    def _is_behind(self, delivered: dict[str, int]) -> bool:
        ours = delivered_to(self._slave.address)
        return any(ours.get(what, 0) < place for what, place in delivered.items())

    def _offsets_missing(self) -> int:
        """How many messages are consumed at the old master, but not yet by the offsets here."""
        ours = offsets(self._slave.address)
        return sum(
            max(0, offset - max(0, ours.get(place, 0)))
            for place, offset in offsets(self._old.address).items()
        )

    # ---- the end of the old master

    def _wait_gone(self, check_end: Callable[[], None]) -> None:
        """Waits until the old master is gone, and renews the freeze all the time. The first look
        that finds it gone counts: the old master must have been frozen until then, and must not
        have been out of sight for too long."""
        refusals = silences = 0
        while refusals < GONE_LOOKS:
            self._slave.check()
            presence = self._old.presence()
            refusals = refusals + 1 if presence is Presence.GONE else 0
            silences = silences + 1 if presence is Presence.SILENT else 0
            if refusals == 1 or silences == 1:
                self._freeze.check_covers()
            if presence is Presence.RUNS:
                check_end()
                self._stay_frozen()
                self._seen = time.strftime("%H:%M:%S")
            if silences == GONE_LOOKS and self._is_off(self._seen):
                return
            time.sleep(POLL_S)

    def _stay_frozen(self) -> None:
        try:
            self._end = max(self._end, self._old.log_range()[1])
            self._freeze.renew()
        except UnreachableError as error:  # the old master is just ending, or hangs
            if self._old.presence() is Presence.RUNS:
                self._say_once(f"the old master does not answer: {error}")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    # ---- nothing is missing

    def _look(self) -> None:
        """Checks the copy when the stream has ended: by then everything that was on its way has
        arrived."""
        until = time.monotonic() + DETACHED_S
        while self._is_attached() and time.monotonic() < until:
            time.sleep(POLL_S)
        end = self._slave.log_range()[1]
        if end < self._end:
            raise RmqError(
                f"the copy lacks messages: it ends at {end}, the old master's log at {self._end}"
            )
        lacking = left_over(self._old.settings, end, self._log_directory)
        if lacking:
            raise RmqError(
                f"the old master's files hold {len(lacking)} messages beyond {end}, where the copy "
                f"ends (the first of topic {lacking[0].topic})"
            )

    def _is_attached(self) -> bool:
        sample = self._slave.sample()
        return bool(sample.follows) and not sample.replication_problem
