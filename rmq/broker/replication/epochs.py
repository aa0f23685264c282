"""Epochs: which mastership wrote which part of a log.

Each entry is an epoch, the controller's number of a mastership, and the offset at which it began;
it ends where the next one begins, the last one at the log's end. An epoch had one master, so what
two logs hold of it is equal as far as both go. From that a slave finds how much of its log its
master has as well (consistent_point), and cuts the rest.

    own     [(1, 0), (2, 800)]             up to 900
    theirs  [(1, 0), (2, 800), (4, 850)]   up to 2000
    both have 2 from 800; theirs ends at 850, so the logs are equal up to 850, and
    own.truncated(850).taught(theirs, 850) is [(1, 0), (2, 800), (4, 850)]

An epoch in which nothing was written begins where the next one does. Both are kept. (RocketMQ
refuses the second, and its file then lags behind.) Values are never changed: each operation gives
a new one.

What is below the first entry (written without a controller, or in epochs that are forgotten) is
the first one's as well, covering(): its master had it when it began, and whoever has the epoch has
it from there. Without that no slave could have those bytes: nothing would say whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rmq.errors import StoreError

ENTRIES_MAX = 1000  # as many as RocketMQ's buffer for a handshake holds; older ones are forgotten
EPOCH_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
NO_EPOCH = -1


class Epoch(NamedTuple):
    epoch: int
    start: int  # offset in the log


class Epochs(msgspec.Struct, frozen=True):
    """Ascending epochs with starts that never fall; ValueError for anything else."""

    entries: tuple[Epoch, ...] = ()

    def __post_init__(self) -> None:
        for epoch, start in self.entries:
            if not 0 <= epoch <= EPOCH_MAX or not 0 <= start <= OFFSET_MAX:
                raise ValueError(f"epoch {epoch} from {start}: out of range")
        for before, after in pairwise(self.entries):
            if before.epoch >= after.epoch or before.start > after.start:
                raise ValueError(
                    f"epoch {after.epoch} from {after.start} cannot come after epoch "
                    f"{before.epoch} from {before.start}"
                )

    @staticmethod
    def of(pairs: Iterable[tuple[int, int]]) -> Epochs:
        return Epochs(tuple(Epoch(*each) for each in pairs))

    @property
    def last_epoch(self) -> int:
        """NO_EPOCH when there is none."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    @property
    def last_start(self) -> int:
        return self.entries[-1].start if self.entries else 0

    def end_of(self, epoch: int, log_end: int) -> int | None:
        """Where it ends in a log that ends there; None: it is not in it."""
        for number, each in enumerate(self.entries):
            if each.epoch == epoch:
                following = self.entries[number + 1 : number + 2]
                return following[0].start if following else log_end
        return None

    def within(self, log_end: int) -> Epochs:
        """Without what begins beyond the log's end: the end was lost, or never came."""
        return Epochs(tuple(each for each in self.entries if each.start <= log_end))

    def truncated(self, point: int) -> Epochs:
        """What is left when the log is cut at `point`, and where nothing needs to be cut as well.

        Entries that begin at the point go, too, even those at 0. Nothing of theirs is in this log;
        what will be written from there on may be of an older epoch, and would bear their name."""
        return Epochs(tuple(each for each in self.entries if each.start < point))

    def taught(self, theirs: Epochs, own_end: int) -> Epochs:
        """With the master's newer epochs that begin within this log, which was cut to what the
        master has; so they are true of it."""
        newer = (
            each
            for each in theirs.entries
            if each.epoch > self.last_epoch and self.last_start <= each.start <= own_end
        )
        return Epochs((*self.entries, *newer)).bounded()

    def begun(self, epoch: int, start: int) -> Epochs:
        """From `start`, the end of the log, on it is this epoch's. StoreError: it is an old one."""
        kept = self.within(start)
        if kept.last_epoch == epoch:
            return kept
        if kept.last_epoch > epoch:
            raise StoreError(
                f"epoch {epoch} of the controller is older than epoch {kept.last_epoch} of this "
                "log: the controller has lost its state, or is another one. Give it its state "
                "back; or stop all brokers of this brokerName, keep the store with the newest "
                "epoch, remove its epochFileCheckpoint, and empty the stores of the others"
            )
        return Epochs((*kept.entries, Epoch(epoch, start))).bounded()

    def covering(self, log_start: int) -> Epochs:
        """With all that the log has from there on in an epoch. From 0, and not from its start: of
        two copies of one log the oldest segments go at different times, and the epoch has to begin
        at the same offset in both."""
        if not self.entries or self.entries[0].start <= log_start:
            return self
        first, *others = self.entries
        return Epochs((Epoch(first.epoch, 0), *others))

    def bounded(self) -> Epochs:
        """The newest of them, as many as a core and a handshake have room for."""
        many = len(self.entries) > ENTRIES_MAX
        return Epochs(self.entries[-ENTRIES_MAX:]) if many else self


def consistent_point(
    own: Epochs, own_range: tuple[int, int], theirs: Epochs, their_end: int
) -> int | None:
    """How far a slave's log is surely equal to its master's; None: nothing says that it is at all.

    The newest epoch of the slave's that the master has from the same offset on, as far as both have
    it. A log without a byte is equal to any, where it begins. A log without epochs, which was
    written without a controller, is equal to none: nobody knows whose it is."""
    own_start, own_end = own_range
    if own_start == own_end:
        return own_end
    own, theirs = own.within(own_end), theirs.within(their_end)
    common = set(own.entries) & set(theirs.entries)
    if not common:
        return None
    epoch = max(common).epoch
    ends = own.end_of(epoch, own_end), theirs.end_of(epoch, their_end)
    return min(end for end in ends if end is not None)
