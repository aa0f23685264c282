"""What the twins of rmq.aio have in common: their blocking half runs in threads of the executor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


async def threaded(function: Callable[..., R], *arguments: Any, **named: Any) -> R:
    """The function's result, from a thread."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: function(*arguments, **named))
