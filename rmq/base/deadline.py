"""Deadline: waiting with a time limit in a task that may be cancelled.

asyncio.wait_for() of Python 3.10 and 3.11 loses a cancellation that arrives in the same step as the
result: it returns the result, the task goes on, and code that has cancelled the task and waits for
its end waits for ever. within() never loses one.

Example: `await within(event.wait(), 5.0)` returns True, or raises asyncio.TimeoutError after 5 s.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(awaitable: Awaitable[T], timeout_s: float) -> T:
    """The awaitable's result; it is cancelled when the time is over or the caller is cancelled."""
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,), timeout=timeout_s)
    except asyncio.CancelledError:
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()  # marks it as seen, so that asyncio does not complain
        raise
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
        # A cancelled gather() counts as failed with a CancelledError.
        if task.cancelled() or isinstance(task.exception(), asyncio.CancelledError):
            raise asyncio.TimeoutError
    return task.result()
