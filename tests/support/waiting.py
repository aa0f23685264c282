"""Waiting: waits until something becomes true, in tests on an asyncio loop and in others.

    wait_until(lambda: faults.hits(0) > 0)
    reply = wait_until_is(lambda: client.ask(frame), lambda reply: reply.code == 0)
    await until(...)            # the same two on a loop; what is called may be a coroutine
    reply = await until_is(lambda: client.send("t"), lambda reply: reply.code == 0)

If the test drives the clock (support/driven_clock.py), driven time passes while it waits, so that
something due in an hour happens. The time limit of a wait is always of the machine's clock.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from support import driven_clock

# What takes longer hangs. It is long because a machine may be busy with other work, which is no
# fault of the test.
HANG_S = 600.0
# The pause between two looks, and the pause after the first second. A look may be a request that
# loads a broker, or a command with several: the longer a look takes, the longer is the pause after
# it, up to LONG_PAUSE_S, so that the looks do not slow down what is waited for.
POLL_S, LATE_LOOK_S, LONG_PAUSE_S = 0.005, 0.025, 0.05
LOOK_TIMES = 2
# A thread that a test has left behind would drive the clocks of later tests.
OVER = "the test that waited is over"
SAID_CHARACTERS = 5000  # of a failure: at most so many of what was found, and of a log

T = TypeVar("T")


async def until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False,
    log: Callable[[], str] = str,
) -> None:  # fmt: skip
    """Waits until the condition is true; it may be a coroutine. still: a driven clock does not move
    meanwhile. log: its end is shown if the wait fails."""
    await until_is(condition, bool, timeout_s, still=still, log=log)


async def until_is(
    look: Callable[[], Any], wanted: Callable[[Any], object], timeout_s: float = HANG_S, *,
    still: bool = False, log: Callable[[], str] = str,
) -> Any:  # fmt: skip
    """Looks until the result is as wanted, and returns it. The look may be a coroutine."""
    began, turn = time.monotonic(), driven_clock.turn()
    looked = began
    while not wanted(found := await _looked(look)):
        now = time.monotonic()
        assert now - began < timeout_s, _in_vain(found, log)
        _look_on(turn, still)
        await machine_sleep(_pause_s(now - began, now - looked))
        looked = time.monotonic()
    _has_come(turn, still)
    return found


async def _looked(look: Callable[[], Any]) -> Any:
    found = look()
    return await found if inspect.iscoroutine(found) else found


def _in_vain(found: object, log: Callable[[], str]) -> str:
    return f"waited in vain: {str(found)[:SAID_CHARACTERS]}\n{log()[-SAID_CHARACTERS:]}"


def _pause_s(waited_s: float, look_s: float) -> float:
    """look_s: how long the last look took. Always POLL_S if a test drives the clock, because driven
    time passes with each look."""
    if driven_clock.is_driven():
        return POLL_S
    usual_s = LATE_LOOK_S if waited_s > 1 else POLL_S
    return max(usual_s, min(LOOK_TIMES * look_s, LONG_PAUSE_S))


async def machine_sleep(seconds: float) -> None:
    """Sleeps by the machine's clock, even if the loop's clock stands still."""
    if driven_clock.is_still():
        await asyncio.to_thread(time.sleep, seconds)
    else:
        await asyncio.sleep(seconds)


def wait_until(
    condition: Callable[[], object], timeout_s: float = HANG_S, *, still: bool = False,
    log: Callable[[], str] = str,
) -> None:  # fmt: skip
    """until() without an event loop."""
    wait_until_is(condition, bool, timeout_s, still=still, log=log)


def wait_until_is(
    look: Callable[[], T], wanted: Callable[[T], object], timeout_s: float = HANG_S, *,
    still: bool = False, log: Callable[[], str] = str,
) -> T:  # fmt: skip
    """until_is() without an event loop."""
    began, turn = time.monotonic(), driven_clock.turn()
    looked = began
    while not wanted(found := look()):
        now = time.monotonic()
        assert now - began < timeout_s, _in_vain(found, log)
        _look_on(turn, still)
        time.sleep(_pause_s(now - began, now - looked))
        looked = time.monotonic()
    _has_come(turn, still)
    return found


def _look_on(turn: object, still: bool) -> None:
    if still:
        assert driven_clock.turn() is turn, OVER
    else:
        assert driven_clock.pass_some_time(of=turn), OVER


def _has_come(turn: object, still: bool) -> None:
    """A clock that stands still counts its quiet looks anew for the next wait."""
    if still:
        driven_clock.pass_some_time(0, of=turn)


def next_ms() -> int:
    """Waits until the wall clock shows another millisecond, and returns it: messages sent before
    and after this call have different times."""
    before = time.time_ns() // 1_000_000
    return wait_until_is(lambda: time.time_ns() // 1_000_000, lambda now: now > before)


async def first_of(futures: Collection[asyncio.Future[Any]], timeout_s: float = HANG_S) -> None:
    """Waits until one of the futures is done, but no longer than timeout_s by the machine's clock.
    The loop's clock may be a driven one, on which HANG_S is over in 30 s while a test waits."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        done, _ = await asyncio.wait(futures, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return


async def pass_seconds(core: Any, seconds: float, step_s: float = driven_clock.STEP_S) -> None:
    """Lets time pass in a test that drives the clock. The reactor sees each step and does what has
    become due, so that what has not happened by the end does not happen at all. Longer steps are
    enough if nothing that the test expects takes less than a second."""
    while seconds > 0:
        step = min(seconds, step_s)
        seconds -= step
        driven_clock.pass_some_time(step)
        turns = core.stats()["turns"]
        while core.stats()["turns"] < turns + 3:
            await machine_sleep(0.001)
