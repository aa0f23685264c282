"""Waiting for something to become true, in tests on an asyncio loop and in others.

Where a test drives the clock (support/driven_clock.py), time passes while it waits: what is due in
an hour comes. How long it waits at most is by the machine's clock in any case.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from support import driven_clock

# After which something hangs: how long it takes where other work has the machine is no fault.
HANG_S = 600.0
# Between two looks: of what comes at once, and of what has not come for a second. A look may be a
# request to a broker, which has to answer it.
LOOK_S, LATE_LOOK_S = 0.005, 0.025
# A thread that a test has left behind would drive the clocks of those after it.
OVER = "the test that waited is over"


async def until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False
) -> None:
    """still: a driven clock stands meanwhile."""
    began, turn = time.monotonic(), driven_clock.turn()
    while not condition():
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, "waited in vain"
        _look_on(turn, still)
        await machine_sleep(_pause_s(waited_s))
    _has_come(turn, still)


def _pause_s(waited_s: float) -> float:
    """Where a test drives the clock, time passes by looks."""
    is_late = waited_s > 1 and not driven_clock.is_driven()
    return LATE_LOOK_S if is_late else LOOK_S


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
    began, turn = time.monotonic(), driven_clock.turn()
    while not condition():
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, "waited in vain"
        _look_on(turn, still)
        time.sleep(_pause_s(waited_s))
    _has_come(turn, still)


def _look_on(turn: object, still: bool) -> None:
    if still:
        assert driven_clock.turn() is turn, OVER
    else:
        assert driven_clock.pass_some_time(of=turn), OVER


def _has_come(turn: object, still: bool) -> None:
    """Whoever waits next has not waited yet: a clock that stands still begins to count anew."""
    if still:
        driven_clock.pass_some_time(0, of=turn)


async def first_of(futures: Collection[asyncio.Future[Any]], timeout_s: float = HANG_S) -> None:
    """Until one of them is done, for so long by the machine's clock at most: the loop's may be a
    driven one, of which HANG_S is 30 s while somebody waits."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        done, _ = await asyncio.wait(futures, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return


async def pass_seconds(core: Any, seconds: float, step_s: float = driven_clock.STEP_S) -> None:
    """Lets time pass in a test that drives the clock; the reactor has seen each step of it and done
    what came due, so that what has not happened then does not happen. Where nothing that is looked
    for takes less than a second, longer steps are enough."""
    while seconds > 0:
        step = min(seconds, step_s)
        seconds -= step
        driven_clock.pass_some_time(step)
        turns = core.stats()["turns"]
        while core.stats()["turns"] < turns + 3:
            await machine_sleep(0.001)
