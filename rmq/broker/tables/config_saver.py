"""Config saver: writes a table's changes to its file, many changes per write, beside the loop.

A table calls changed() after each change. A task then takes a snapshot on the loop and writes it in
a worker thread; changes made meanwhile are written together by the next write. Code that must not
answer before its change is on the disk awaits saved().

    generation    5    6    7    8        changed() counts
    on disk       5 ...... 7              one write carried 6 and 7

A write that fails (disk full) is logged and reported to callers that wait. The table stays ahead of
the file; the next changed(), saved() or retry() tries again. A table that must act on its changes
only once they are on the disk gives `on_written`, which is called on the loop after each write,
before waiting callers go on.

Example: 1,000 topics created in one burst cost about as many writes as fit in the time of the burst
(each some milliseconds of fsync), not 1,000.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from rmq.base.json_file import JsonFile
from rmq.errors import StoreError

log = logging.getLogger("rmq.broker.config_saver")


class ConfigSaver:
    """Owned by the control thread's loop; only the file write itself runs elsewhere."""

    def __init__(
        self,
        file: JsonFile,
        snapshot: Callable[[], Any],
        on_written: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._snapshot = snapshot  # makes a copy: the table may change while it is written
        self._on_written = on_written  # called when the last snapshot is on the disk
        self._changed = 0  # generation of the table
        self._written = 0  # generation on disk
        self._error: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()  # set and replaced after each write, also a failed one

    @property
    def behind(self) -> bool:
        return self._written < self._changed

    def changed(self) -> None:
        self._changed += 1
        self._start()

    def retry(self) -> None:
        """Writes what an earlier failure left behind; to be called at intervals."""
        if self.behind:
            self._start()

    async def saved(self) -> None:
        """Returns when all changes made so far are on disk; StoreError when they cannot be."""
        goal = self._changed
        while self._written < goal:
            self._start()
            await self._progress.wait()
            if self._error is not None and self._written < goal:
                raise StoreError(f"{self._file.path} cannot be written: {self._error}")

    async def stop(self) -> None:
        """Like saved(), but also waits until both copies of the file hold the table."""
        await self.saved()
        await asyncio.to_thread(self._file.settle)

    def save_now(self) -> None:
        """Writes on the calling thread: at start, before the loop serves anyone."""
        self._file.save(self._snapshot())
        self._written = self._changed

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self.behind:
                goal = self._changed
                await asyncio.to_thread(self._file.save, self._snapshot())
                self._error = None
                self._written = goal
                self._on_written()
                self._progressed()
        except Exception as error:
            self._error = error
            log.error("%s cannot be written: %s", self._file.path, error)
            self._progressed()

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
