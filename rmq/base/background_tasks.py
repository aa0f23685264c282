"""Background tasks: tasks that a part starts in its event loop and does not wait for.

    tasks = BackgroundTasks()
    tasks.start(self._watch())
    await tasks.stop()          # cancels those that still run, and waits for their end

The loop itself holds tasks only weakly, so a task that nobody else holds may vanish before its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class BackgroundTasks:
    """Owned by one event loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        """Cancels all tasks; they end when the loop runs them next."""
        for task in list(self._running):
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
