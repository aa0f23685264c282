"""Log epochs: which mastership wrote what of this broker's log, on the disk and in the core.

The file is written first: an epoch is on the disk before a byte of it is in the log, so a log never
has bytes of an epoch that its file does not know. Nor does the file keep an epoch that begins
beyond the log's end once something is to be written there: the next bytes would bear its name.

Example: begin(5, (0, 4096)), when this broker is made master of epoch 5: the file ends with 5-4096,
and what is appended from now on goes to slaves with that label. A power cut takes the log back to
4000: value ends with epoch 4 then, and newest is 5 until another one begins. Of a log of which no
epoch was known, as it was written without a controller, the file says 5-0.
"""

from __future__ import annotations

import asyncio

from rmq.broker.core_seam import HACalls
from rmq.broker.replication.epoch_file import EpochFile
from rmq.broker.replication.epochs import NO_EPOCH, Epochs


class LogEpochs:
    """Owned by the control thread; one change after the other."""

    def __init__(self, file: EpochFile, core: HACalls) -> None:
        self._file = file
        self._core = core
        self.value = Epochs()
        self.newest = NO_EPOCH  # of those that the file has or may have, in the log or not
        self._stored: Epochs | None = None  # what is on the disk for sure
        self._one_by_one = asyncio.Lock()

    def load(self, own_range: tuple[int, int]) -> None:
        """What begins beyond the log's end was lost with it; a file of RocketMQ's may hold more
        than is used. StoreCorruptError: no file is good."""
        start, end = own_range
        found = self._file.read()
        self.value, self.newest = found.within(end).bounded().covering(start), found.last_epoch
        self._give()

    async def begin(self, epoch: int, own_range: tuple[int, int]) -> None:
        """At the log's end. StoreError: a newer one is known already."""
        start, end = own_range
        await self._change(self.value.begun(epoch, end).covering(start))

    async def learn(self, theirs: Epochs, own_range: tuple[int, int]) -> None:
        """Those of a master whose log this one is the beginning of, and none that begin where this
        one ends and that the master does not have. Of a log without a byte none is known: where its
        first byte will be, there may be epochs that it never had."""
        start, end = own_range
        known = self.value.truncated(end) if start < end else Epochs()
        await self._change(known.taught(theirs, end).covering(start))

    async def forget(self) -> None:
        """The log has no byte, and begins elsewhere."""
        await self._change(Epochs())

    async def _change(self, value: Epochs) -> None:
        # Who waits may be cancelled, the thread that writes is not: the next one comes after it.
        await asyncio.shield(self._store(value))
        self.value = value
        self._give()

    async def _store(self, value: Epochs) -> None:
        async with self._one_by_one:
            if value == self._stored:
                return
            # A write that fails may have changed the file all the same.
            self._stored, self.newest = None, max(self.newest, value.last_epoch)
            await asyncio.to_thread(self._file.write, value)
            self._stored, self.newest = value, value.last_epoch

    def _give(self) -> None:
        self._core.set_epochs([(each.epoch, each.start) for each in self.value.entries])
