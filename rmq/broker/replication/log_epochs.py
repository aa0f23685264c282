"""Log epochs: which mastership wrote what of this broker's log, on the disk and in the core.

The file is written first: an epoch is on the disk before a byte of it is in the log, so a log never
has bytes of an epoch that its file does not know.

Example: begin(5, 4096), when this broker is made master of epoch 5: the file ends with 5-4096, and
what is appended from now on goes to slaves with that label.
"""

from __future__ import annotations

import asyncio

from rmq.broker.core_seam import HACalls
from rmq.broker.replication.epoch_file import EpochFile
from rmq.broker.replication.epochs import Epochs


class LogEpochs:
    """Owned by the control thread; one change after the other."""

    def __init__(self, file: EpochFile, core: HACalls) -> None:
        self._file = file
        self._core = core
        self.value = Epochs()

    def load(self, log_end: int) -> None:
        """What begins beyond the log's end was lost with it. StoreCorruptError: no file is whole.
        """
        self.value = self._file.read().within(log_end)
        self._give()

    async def begin(self, epoch: int, start: int) -> None:
        """StoreError: a newer one is known already."""
        await self._change(self.value.begun(epoch, start))

    async def learn(self, theirs: Epochs, own_end: int) -> None:
        """Those of a master whose log this one is the beginning of, and none that begin where this
        one ends and that the master does not have."""
        await self._change(self.value.cut(own_end).taught(theirs, own_end))

    async def _change(self, value: Epochs) -> None:
        if value != self.value:
            await asyncio.to_thread(self._file.write, value)
            self.value = value
        self._give()

    def _give(self) -> None:
        self._core.set_epochs([(each.epoch, each.start) for each in self.value.entries])
