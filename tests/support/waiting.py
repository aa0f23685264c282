"""Waiting for something to become true, in tests on an asyncio loop and in others.

    wait_until(lambda: faults.hits(0) > 0)
    reply = wait_until_is(lambda: client.ask(frame), lambda reply: reply.code == 0)
    await until(...)            # the same two on a loop; what is called may be a coroutine
    reply = await until_is(lambda: client.send("t"), lambda reply: reply.code == 0)

Where a test drives the clock (support/driven_clock.py), time passes while it waits: what is due in
an hour comes. How long it waits at most is by the machine's clock in any case.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from support import driven_clock

# After which something hangs: how long it takes where other work has the machine is no fault.
HANG_S = 600.0
# Between two looks: of what comes at once, and of what has not come for a second. A look may be a
# request to a broker, which has to answer it.
POLL_S, LATE_LOOK_S = 0.005, 0.025
# A thread that a test has left behind would drive the clocks of those after it.
OVER = "the test that waited is over"
SAID_CHARACTERS = 5000  # at most, of what was there instead, and of a log

T = TypeVar("T")


async def until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False,
    log: Callable[[], str] = str,
) -> None:  # fmt: skip
    """The condition may be a coroutine. still: a driven clock stands meanwhile. log: the end of it
    is told of a wait in vain."""
    await until_is(condition, bool, timeout_s, still=still, log=log)


async def until_is(
    look: Callable[[], Any], wanted: Callable[[Any], object], timeout_s: float = HANG_S, *,
    still: bool = False, log: Callable[[], str] = str,
) -> Any:  # fmt: skip
    """What a look finds, once it is what is wanted. The look may be a coroutine."""
    began, turn = time.monotonic(), driven_clock.turn()
    while not wanted(found := await _looked(look)):
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, _in_vain(found, log)
        _look_on(turn, still)
        await machine_sleep(_pause_s(waited_s))
    _has_come(turn, still)
    return found


async def _looked(look: Callable[[], Any]) -> Any:
    found = look()
    return await found if inspect.iscoroutine(found) else found


def _in_vain(found: object, log: Callable[[], str]) -> str:
    return f"waited in vain: {str(found)[:SAID_CHARACTERS]}\n{log()[-SAID_CHARACTERS:]}"


def _pause_s(waited_s: float) -> float:
    """Where a test drives the clock, time passes by looks."""
    is_late = waited_s > 1 and not driven_clock.is_driven()
    return LATE_LOOK_S if is_late else POLL_S


async def machine_sleep(seconds: float) -> None:
    """By the machine's clock, where the loop's stands still."""
    if driven_clock.is_still():
        await asyncio.to_thread(time.sleep, seconds)
    else:
        await asyncio.sleep(seconds)


def wait_until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False,
    log: Callable[[], str] = str,
) -> None:  # fmt: skip
    """until() without a loop."""
    wait_until_is(condition, bool, timeout_s, still=still, log=log)


def wait_until_is(
    look: Callable[[], T], wanted: Callable[[T], object], timeout_s: float = HANG_S, *,
    still: bool = False, log: Callable[[], str] = str,
) -> T:  # fmt: skip
    """until_is() without a loop."""
    began, turn = time.monotonic(), driven_clock.turn()
    while not wanted(found := look()):
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, _in_vain(found, log)
        _look_on(turn, still)
        time.sleep(_pause_s(waited_s))
    _has_come(turn, still)
    return found


def _look_on(turn: object, still: bool) -> None:
    if still:
        assert driven_clock.turn() is turn, OVER
    else:
        assert driven_clock.pass_some_time(of=turn), OVER


def _has_come(turn: object, still: bool) -> None:
    """Whoever waits next has not waited yet: a clock that stands still begins to count anew."""
    if still:
        driven_clock.pass_some_time(0, of=turn)


def next_ms() -> int:
    """Waits until the wall clock shows another millisecond than now: what is sent before this call
    and what is sent after it have not the same time."""
    before = time.time_ns() // 1_000_000
    return wait_until_is(lambda: time.time_ns() // 1_000_000, lambda now: now > before)


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
