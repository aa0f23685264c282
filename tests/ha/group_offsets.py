"""Group offsets: whether brokers remember how far groups are.

check_group_offsets(messages, findings)      # offset-fell, reset-lost, offset-unknown

A commit is in memory when it is answered, in a file some seconds later, and at the other replicas
within a second or two (docs/promises.md). A fault says how old a commit may be to be lost by it
(`Fault.loses_ms`); older commits must stay, and so must those that each broker was seen to have
(`Held`), as whoever is elected has them. While a fault lasts no commit is certain, as it may have
been made at a broker that is overruled; nor is one of a client that was made in that time, as it
may not know the new master.

A reset is safe when it is answered. A commit below the one before is what its sender wanted, and is
only counted.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.ha.findings import Findings
from tests.ha.history import ELSEWHERE, Committed, Held, OffsetRead, Reset
from tests.ha.messages import GroupQueue, Messages, Progress, ends_at

MS = 1_000_000
NEVER = 1 << 62


class Loss(NamedTuple):
    """Commits from `begin` to `end` may be gone at any time from `fault` on: a commit that an old
    master or a slave still took is overruled when the new master is heard."""

    begin: int
    fault: int
    end: int
    hidden: int  # resets that were answered since then need not be shown before the end
    loses_copies: bool
    changes_master: bool


class Restart(NamedTuple):
    """A broker that was started at `begin` may have old offsets until `end`."""

    begin: int
    end: int


def check_group_offsets(messages: Messages, findings: Findings) -> None:
    losses = losses_of(messages)
    restarts = restarts_of(messages)
    for place, steps in messages.offsets.items():
        reads = [each for each in steps if isinstance(each, OffsetRead)]
        findings.counts["offsets read"] += len(reads)
        if reads:
            _Sweep(place, steps, losses, restarts, findings).run()


def losses_of(messages: Messages) -> list[Loss]:
    found = []
    for fault in messages.faults:
        if fault.loses_ms and not fault.ends:
            end = ends_at(messages.faults, fault)
            if fault.until_settled:
                end = _settled(messages, end)
            begin = fault.at - fault.loses_ms * MS
            hidden = fault.at - fault.hides_ms * MS if fault.hides_ms >= 0 else NEVER
            found.append(
                Loss(begin, fault.at, end, hidden, fault.loses_copies, fault.until_settled)
            )
    return found


def restarts_of(messages: Messages, address: str = "") -> list[Restart]:
    """Those of the broker with this address; "": of all."""
    return [Restart(each.at, _settled(messages, each.at))
            for each in messages.started if address in ("", each.broker)]  # fmt: skip


def _settled(messages: Messages, at: int) -> int:
    """When all was settled for the first time since then."""
    return min((each for each in messages.settled if each >= at), default=NEVER)


class _Sweep:
    """Goes by time through the events of one group in one queue. `floors` are the offsets that are
    certain; the last one counts."""

    def __init__(
        self, place: GroupQueue, steps: list[Progress], losses: list[Loss],
        restarts: list[Restart], findings: Findings,
    ) -> None:  # fmt: skip
        self.place, self.steps, self.findings = place, steps, findings
        self.losses, self.restarts = losses, restarts
        self.floors: list[Progress] = []
        self.known: dict[int, int] = {}  # offset -> when it was first asked for
        for step in steps:
            if isinstance(step, Committed | Reset):
                before = self.known.get(step.offset, step.asked)
                self.known[step.offset] = min(before, step.asked)
        # Of events at the same time losses come first, then questions, then answers.
        self.line: list[tuple[int, int, Progress | Loss]] = []
        for loss in losses:
            self.line += [(loss.fault, 0, loss), (loss.end, 0, loss)]
        for step in steps:
            if isinstance(step, OffsetRead):
                self.line.append((step.asked, 1, step))
                self.line.append((step.at, 2, step))
            elif isinstance(step, Held) or step.acked:
                self.line.append((step.at, 2, step))
        self.line.sort(key=lambda each: each[:2])

    def run(self) -> None:
        for _, order, what in self.line:
            if isinstance(what, Loss):
                self.floors = [each for each in self.floors if not _is_lost(each, what)]
            elif order == 1 and isinstance(what, OffsetRead):
                self._check(what)
            else:
                self._raise(what)

    def _raise(self, step: Progress) -> None:
        floor = self.floors[-1] if self.floors else None
        if floor is not None and step.offset < floor.offset:
            if isinstance(step, OffsetRead | Held):
                return  # _check has reported it, or it was asked before the floor was answered
            if isinstance(step, Committed):
                self.findings.counts["lower commits"] += 1
            if step.asked < floor.at:  # both were under way: only the lower one is certain
                self.floors[-1] = step
                return
        elif floor is not None and step.asked < floor.at and isinstance(floor, Reset):
            return  # either may have been the last one, so only the lower one is certain
        if isinstance(step, Held):
            is_certain = not self._was_moved_during(step)
        else:
            is_certain = isinstance(step, Reset) or not self._open(step)
        if is_certain:
            self.floors.append(step)

    def _was_moved_during(self, held: Held) -> bool:
        """Whether the group was sent back while one broker after the other was asked."""
        return any(
            isinstance(each, Committed | Reset) and each.offset < held.offset
            and each.asked <= held.at and held.asked <= each.at
            for each in self.steps
        )  # fmt: skip

    def _open(self, step: Committed | OffsetRead) -> list[Loss]:
        """The losses that were not over for the step: for its client, if the master changes."""
        return [
            each for each in self.losses
            if each.fault <= step.at
            and ((step.since if each.changes_master else 0) or step.asked) < each.end
        ]  # fmt: skip

    def _check(self, read: OffsetRead) -> None:
        if read.offset != ELSEWHERE and self.known.get(read.offset, NEVER) > read.at:
            text = f"{self.place}: nobody put it at {read.offset}"
            self.findings.violation("offset-unknown", text, read)
        open_losses = self._open(read)
        shown: list[Progress] = []
        hides_reset = False
        for each in self.floors:
            if not self._is_hidden(each, read, open_losses):
                shown.append(each)
            elif isinstance(each, Reset):
                hides_reset = True
        self.findings.counts["reads that need not show a reset"] += hides_reset
        floor = shown[-1] if shown else None
        if floor is None:
            return
        if any(each.changes_master and floor.at < each.fault <= read.at for each in self.losses):
            self.findings.counts["offsets kept over a fault"] += 1
        if read.offset >= floor.offset:
            self._check_followed(read, shown)
        elif not any(self._lowers(each, floor, read) for each in self.steps):
            text = f"{self.place}: {floor.offset} was committed, {read.offset} is read"
            self.findings.violation("offset-fell", text, floor, read)

    def _check_followed(self, read: OffsetRead, shown: list[Progress]) -> None:
        """Checks that an offset above the last reset was not there before it only."""
        reset = next((each for each in reversed(shown) if isinstance(each, Reset)), None)
        if reset is None or read.offset <= reset.offset:
            return
        if any(
            isinstance(each, Committed | Reset) and each.offset == read.offset
            and each.asked <= read.at and (each.at >= reset.asked or not each.acked)
            for each in self.steps
        ):  # fmt: skip
            return
        text = f"{self.place}: it was reset to {reset.offset}, and {read.offset} is read"
        self.findings.violation("reset-lost", text, reset, read)

    def _is_hidden(self, step: Progress, read: OffsetRead, losses: list[Loss]) -> bool:
        """Whether this answer need not show the step: its broker may not know of it (yet)."""
        if isinstance(step, Reset):
            return any(each.hidden <= step.at for each in losses)
        if isinstance(step, Held):
            since = read.since or read.asked
            if any(each.begin <= read.at and since < each.end for each in self.restarts):
                return True
        return any(_is_lost(step, each) for each in losses)

    def _lowers(self, step: Progress, floor: Progress, read: OffsetRead) -> bool:
        """Whether the step may have set the offset to the one that was read."""
        if isinstance(step, OffsetRead | Held) or step.offset != read.offset:
            return False
        if step.asked > read.at:
            return False
        if step.at > floor.at or not step.acked:
            return True
        return isinstance(step, Reset) and self._is_pending(step, floor)

    def _is_pending(self, reset: Reset, floor: Progress) -> bool:
        """Whether the reset may still count: it does until a pull takes it. Commits before that
        pull say nothing, as they go on from where the reader was (docs/promises.md)."""
        commits = [each for each in self.steps if isinstance(each, Committed) and each.acked]
        before = [each.offset for each in commits if each.at <= reset.asked][-1:]
        since = [each.offset for each in commits if reset.asked < each.at <= floor.at]
        return bool(before) and reset.offset < before[0] <= min(since, default=before[0])


def _is_lost(step: Progress, loss: Loss) -> bool:
    if isinstance(step, Reset):
        return False
    return loss.begin <= step.at <= loss.end and (loss.loses_copies or not isinstance(step, Held))
