"""Waiting for something to become true, in tests on an asyncio loop and in others.

Where a test drives the clock (support/driven_clock.py), time passes while it waits: what is due in
an hour comes. How long it waits at most is by the machine's clock in any case.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from support import driven_clock

# After which something hangs: how long it takes where other work has the machine is no fault.
HANG_S = 600.0
# A thread that a test has left behind would drive the clocks of those after it.
OVER = "the test that waited is over"
TOLD_S = 50.0  # for what comes by being told: shards of tests say all they know each 60 s


async def until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False
) -> None:
    """still: a driven clock stands meanwhile."""
    end = time.monotonic() + timeout_s
    clock = driven_clock.current()
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        assert driven_clock.current() is clock, OVER
        if not still:
            driven_clock.pass_some_time()
        await machine_sleep(0.005)


async def machine_sleep(seconds: float) -> None:
    """By the machine's clock, where the loop's stands still."""
    if driven_clock.is_still():
        await asyncio.to_thread(time.sleep, seconds)
    else:
        await asyncio.sleep(seconds)


def wait_until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False
) -> None:
    """The same without a loop."""
    end = time.monotonic() + timeout_s
    clock = driven_clock.current()
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        assert driven_clock.current() is clock, OVER
        if not still:
            driven_clock.pass_some_time()
        time.sleep(0.005)


async def pass_seconds(core: Any, seconds: float) -> None:
    """Lets time pass in a test that drives the clock; the reactor has seen each step of it and done
    what came due, so that what has not happened then does not happen."""
    while seconds > 0:
        step = min(seconds, driven_clock.STEP_S)
        seconds -= step
        driven_clock.pass_some_time(step)
        turns = core.stats()["turns"]
        while core.stats()["turns"] < turns + 3:
            await machine_sleep(0.001)
