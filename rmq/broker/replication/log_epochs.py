"""Log epochs: which mastership wrote which part of this broker's log, on the disk and in the core.

The file is written first: an epoch is on the disk before a byte of it is in the log, so a log never
has bytes of an epoch that its file does not know. And before anything is written at the log's end,
epochs that begin beyond that end are removed from the file: the next bytes would count as theirs.

Example: begin(5, (0, 4096)), when this broker is made master of epoch 5: the file ends with 5-4096,
and what is appended from now on goes to slaves with that epoch. If a power cut takes the log back
to 4000, `value` ends with epoch 4, and `newest` is 5 until another epoch begins. For a log without
known epochs, because it was written without a controller, the file says 5-0.
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
        self.newest = NO_EPOCH  # the newest that the file has or may have, in the log or not
        self._stored: Epochs | None = None  # what is surely on the disk
        self._one_by_one = asyncio.Lock()

    def load(self, own_range: tuple[int, int]) -> None:
        """Reads the file. Epochs that begin beyond the log's end were lost with it; a file of
        RocketMQ may hold more epochs than are used. StoreCorruptError: no file is good."""
        start, end = own_range
        found = self._file.read()
        self.value, self.newest = found.within(end).bounded().covering(start), found.last_epoch
        self._give()

    async def begin(self, epoch: int, own_range: tuple[int, int]) -> None:
        """Begins an epoch at the log's end. StoreError: a newer one is known already."""
        start, end = own_range
        await self._change(self.value.begun(epoch, end).covering(start))

    async def learn(self, theirs: Epochs, own_range: tuple[int, int]) -> None:
        """Takes the epochs of a master whose log begins with this one, and drops those that begin
        at this log's end and that the master does not have. An empty log gets no epochs: at the
        place of its first byte there may be epochs that it never had."""
        start, end = own_range
        known = self.value.truncated(end) if start < end else Epochs()
        await self._change(known.taught(theirs, end).covering(start))

    async def forget(self) -> None:
        """Forgets all epochs, because the log is empty and will begin elsewhere."""
        await self._change(Epochs())

    async def _change(self, value: Epochs) -> None:
        # The caller may be cancelled, but the writing thread goes on: the next change waits for it.
        await asyncio.shield(self._store(value))
        self.value = value
        self._give()

    async def _store(self, value: Epochs) -> None:
        async with self._one_by_one:
            if value == self._stored:
                return
            # A write that fails may nevertheless have changed the file.
            self._stored, self.newest = None, max(self.newest, value.last_epoch)
            await asyncio.to_thread(self._file.write, value)
            self._stored, self.newest = value, value.last_epoch

    def _give(self) -> None:
        self._core.set_epochs([(each.epoch, each.start) for each in self.value.entries])
