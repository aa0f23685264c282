"""Waiting for something to become true, in tests on an asyncio loop and in others."""

import asyncio
import time
from collections.abc import Callable

TOLD_S = 15.0  # for what comes by being told: clients would find it out by themselves after 20 s


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.005)


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """The same without a loop."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
