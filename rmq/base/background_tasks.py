"""Background tasks: what a part starts in its event loop and does not wait for.

    tasks = BackgroundTasks()
    tasks.start(self._watch())
    await tasks.stop()          # all that still run are cancelled, and have ended

The loop itself holds a task weakly, so one that nobody else holds may be gone before its end.
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
        """They end when the loop comes to them."""
        for task in list(self._running):
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
