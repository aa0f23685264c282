"""Group offsets: whether brokers remember how far groups are.

check_group_offsets(messages, findings)      # offset-fell, offset-unknown

A commit is in memory when it is answered, and in a file some seconds later (docs/promises.md). A
fault says how old a commit may be to be lost by it (`Fault.loses_ms`); older commits must stay. A
reset is safe when it is answered. A commit below the one before is what its sender wanted, and is
only counted.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.ha.findings import Findings
from tests.ha.history import ELSEWHERE, Committed, Fault, OffsetRead, Reset
from tests.ha.messages import GroupQueue, Messages, ends_at

MS = 1_000_000
Step = Committed | OffsetRead | Reset


class Loss(NamedTuple):
    """Commits from `begin` to `end` may be gone at any time from `fault` on: a commit that an old
    master or a slave still took is overruled when the new master is heard."""

    begin: int
    fault: int
    end: int
    hides_resets: bool


def check_group_offsets(messages: Messages, findings: Findings) -> None:
    losses = losses_of(messages.faults)
    for place, steps in messages.offsets.items():
        reads = [each for each in steps if isinstance(each, OffsetRead)]
        findings.counts["offsets read"] += len(reads)
        if reads:
            _Sweep(place, steps, losses, findings).run()


def losses_of(faults: list[Fault]) -> list[Loss]:
    found = []
    for fault in faults:
        if fault.loses_ms and not fault.ends:
            end = ends_at(faults, fault) + fault.after_ms * MS
            begin = fault.at - fault.loses_ms * MS
            found.append(Loss(begin, fault.at, end, fault.hides_resets))
    return found


class _Sweep:
    """Goes by time through the events of one group in one queue. `floors` are the offsets that are
    certain; the last one counts."""

    def __init__(
        self, place: GroupQueue, steps: list[Step], losses: list[Loss], findings: Findings
    ) -> None:
        self.place, self.steps, self.findings = place, steps, findings
        self.floors: list[Step] = []
        self.open: set[Loss] = set()
        self.known: dict[int, int] = {}  # offset -> when it was first asked for
        for step in steps:
            if not isinstance(step, OffsetRead):
                before = self.known.get(step.offset, step.asked)
                self.known[step.offset] = min(before, step.asked)
        # Of events at the same time losses come first, then questions, then answers.
        self.line: list[tuple[int, int, Step | Loss]] = []
        for loss in losses:
            self.line += [(loss.fault, 0, loss), (loss.end, 0, loss)]
        for step in steps:
            if isinstance(step, OffsetRead):
                self.line.append((step.asked, 1, step))
                self.line.append((step.at, 2, step))
            elif step.acked:
                self.line.append((step.at, 2, step))
        self.line.sort(key=lambda each: each[:2])

    def run(self) -> None:
        for at, order, what in self.line:
            if isinstance(what, Loss):
                self._lose(what, at)
            elif order == 1 and isinstance(what, OffsetRead):
                self._check(what)
            else:
                self._raise(what)

    def _lose(self, loss: Loss, at: int) -> None:
        self.open ^= {loss}  # its fault opens it, its end closes it
        self.floors = [
            each for each in self.floors
            if isinstance(each, Reset) or not loss.begin <= each.at <= at
        ]  # fmt: skip

    def _raise(self, step: Step) -> None:
        floor = self.floors[-1] if self.floors else None
        if floor is not None and step.offset < floor.offset:
            if isinstance(step, OffsetRead):
                return  # _check has reported it, or it was asked before the floor was answered
            if isinstance(step, Committed):
                self.findings.counts["lower commits"] += 1
            if step.asked < floor.at:  # both were under way: only the lower one is certain
                self.floors[-1] = step
                return
        elif floor is not None and step.asked < floor.at and isinstance(floor, Reset):
            return  # either may have been the last one, so only the lower one is certain
        if isinstance(step, Reset) or not self.open:
            self.floors.append(step)

    def _check(self, read: OffsetRead) -> None:
        if read.offset != ELSEWHERE and self.known.get(read.offset, 1 << 62) > read.at:
            text = f"{self.place}: nobody put it at {read.offset}"
            self.findings.violation("offset-unknown", text, read)
        shown = [each for each in self.floors if not self._is_hidden(each)]
        if len(shown) < len(self.floors):
            self.findings.counts["reads that need not show a reset"] += 1
        floor = shown[-1] if shown else None
        if floor is None or read.offset >= floor.offset:
            return
        if any(self._lowers(each, floor, read) for each in self.steps):
            return
        text = f"{self.place}: {floor.offset} was committed, {read.offset} is read"
        self.findings.violation("offset-fell", text, floor, read)

    def _is_hidden(self, step: Step) -> bool:
        return isinstance(step, Reset) and any(
            each.hides_resets and each.begin <= step.at for each in self.open
        )

    def _lowers(self, step: Step, floor: Step, read: OffsetRead) -> bool:
        """Whether the step may have set the offset to the one that was read."""
        if isinstance(step, OffsetRead) or step.offset != read.offset or step.asked > read.at:
            return False
        if step.at > floor.at or not step.acked:
            return True
        return isinstance(step, Reset) and self._is_pending(step, floor)

    def _is_pending(self, reset: Reset, floor: Step) -> bool:
        """Whether the reset may still count: it does until a pull takes it. Commits before that
        pull say nothing, as they go on from where the reader was (docs/promises.md)."""
        commits = [each for each in self.steps if isinstance(each, Committed) and each.acked]
        before = [each.offset for each in commits if each.at <= reset.asked][-1:]
        since = [each.offset for each in commits if reset.asked < each.at <= floor.at]
        return bool(before) and reset.offset < before[0] <= min(since, default=before[0])
