"""Epochs: which mastership wrote which part of a log.

Each entry is an epoch (the controller's number of a mastership) and the offset at which it began.
An epoch ends where the next one begins, and the last one at the log's end. An epoch had one master,
so the parts that two logs hold of it are equal as far as both reach. From that a slave finds how
much of its log its master has as well (consistent_point), and cuts the rest.

    own     [(1, 0), (2, 800)]             up to 900
    theirs  [(1, 0), (2, 800), (4, 850)]   up to 2000
    both have 2 from 800; theirs ends at 850, so the logs are equal up to 850, and
    own.truncated(850).taught(theirs, 850) is [(1, 0), (2, 800), (4, 850)]

An epoch in which nothing was written begins where the next one does. Both are kept. (RocketMQ
refuses the second, so its file lags behind.) Values are never changed: each operation returns a new
one.

The bytes below the first entry (written without a controller, or in epochs that are forgotten)
count for the first epoch as well, see covering(): its master had them when the epoch began, and
every replica that has the epoch has them from that master. Without that rule no slave could have
those bytes, because nothing would say whose they are.
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
        """The last epoch; NO_EPOCH when there is none."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    @property
    def last_start(self) -> int:
        return self.entries[-1].start if self.entries else 0

    def end_of(self, epoch: int, log_end: int) -> int | None:
        """Where the epoch ends in a log that ends at `log_end`; None: the log does not have it."""
        for number, each in enumerate(self.entries):
            if each.epoch == epoch:
                following = self.entries[number + 1 : number + 2]
                return following[0].start if following else log_end
        return None

    def within(self, log_end: int) -> Epochs:
        """Without epochs that begin beyond the log's end, which was lost or has not come yet."""
        return Epochs(tuple(each for each in self.entries if each.start <= log_end))

    def truncated(self, point: int) -> Epochs:
        """What is left when the log is cut at `point`, also where nothing needs to be cut.

        Entries that begin at the point are dropped, too, even those at 0: this log has nothing of
        them, and what will be written from there on may be of an older epoch, and would count as
        theirs."""
        return Epochs(tuple(each for each in self.entries if each.start < point))

    def taught(self, theirs: Epochs, own_end: int) -> Epochs:
        """With the master's newer epochs that begin within this log. The log was cut to what the
        master has, so these epochs hold for it, too."""
        newer = (
            each
            for each in theirs.entries
            if each.epoch > self.last_epoch and self.last_start <= each.start <= own_end
        )
        return Epochs((*self.entries, *newer)).bounded()

    def begun(self, epoch: int, start: int) -> Epochs:
        """With this epoch from `start`, the end of the log, on. StoreError: it is not a new
        epoch."""
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
        """With every byte of the log in an epoch: the first epoch begins at 0, not at the log's
        start. Two copies of one log lose their oldest segments at different times, and an epoch
        must begin at the same offset in both."""
        if not self.entries or self.entries[0].start <= log_start:
            return self
        first, *others = self.entries
        return Epochs((Epoch(first.epoch, 0), *others))

    def bounded(self) -> Epochs:
        """The newest epochs, as many as a core and a handshake have room for."""
        many = len(self.entries) > ENTRIES_MAX
        return Epochs(self.entries[-ENTRIES_MAX:]) if many else self


def consistent_point(
    own: Epochs, own_range: tuple[int, int], theirs: Epochs, their_end: int
) -> int | None:
    """Up to where a slave's log is surely equal to its master's; None: nothing shows that any of it
    is.

    It is the end of the common part of the slave's newest epoch that the master has from the same
    offset on. An empty log is equal to any log where it begins. A log without epochs, which was
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
