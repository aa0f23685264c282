"""Clock: wall and monotonic time, the same as in the compiled core; tests can drive both.

    began = clock.monotonic()
    clock.run(serve(settings))          # asyncio.run, with a loop that uses this clock
    news.wait(clock.sleep_s(3.0))       # then look again; rmq/base/waits.py has whole waits

If the environment of a process has RMQ_TEST_CLOCK=FILE, all its clocks, that of its event loop
included, follow the numbers in FILE (ClockShift in cext/base/clock.pxd): so a test can let an hour
pass in a broker process. This works only together with RMQ_TESTING=1, and it is logged.

A name server has no compiled part: it imports the core's clock only when a test drives it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Coroutine
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rmq.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
SHIFT_BYTES = 40

log = logging.getLogger("rmq.base.clock")
_shift: memoryview | None = None  # passed_us, set_ms, still_us, still_wall_us, still_boot_us
_look_s: Callable[[], float] | None = None  # the core's function: when to look at it again


def wall() -> float:
    """Like time.time()."""
    if _shift is None:
        return time.time()
    return (_shift[3] / 1e6 or time.time()) + _shift[0] / 1e6 + _shift[1] / 1e3


def now_ms() -> int:
    """Milliseconds since 1970, the unit of RocketMQ's files and frames."""
    return int(wall() * 1000)


def monotonic() -> float:
    """Like time.monotonic()."""
    if _shift is None:
        return time.monotonic()
    return (_shift[2] / 1e6 or time.monotonic()) + _shift[0] / 1e6


def boot() -> float:
    """Seconds since the machine started, with the time that it was suspended, which monotonic()
    does not count. For what another machine counts as well."""
    if _shift is None:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return (_shift[4] / 1e6 or time.clock_gettime(time.CLOCK_BOOTTIME)) + _shift[0] / 1e6


def drive(memory: bytearray | mmap | None) -> None:
    """Lets all clocks of this process follow the 40 bytes of `memory`, or only the machine (None).
    May be called only while no core runs."""
    global _shift, _look_s
    from cext.base import clock

    clock.drive(memory)
    _look_s = None if memory is None else clock.look_s
    _shift = None if memory is None else memoryview(memory)[:SHIFT_BYTES].cast("q")


def is_driven() -> bool:
    return _shift is not None


def sleep_s(timeout_s: float) -> float:
    """How long to sleep by the machine's clock for `timeout_s` by this one, for callers that look
    again after it: the same time, or at most some ms if a test drives this clock, which may have
    moved."""
    look_s = _look_s
    return timeout_s if look_s is None else min(timeout_s, look_s())


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run(); ConfigError when the environment names a clock but this is no test."""
    import asyncio  # here, because it would cost commands without a loop 20 ms

    path = os.environ.get("RMQ_TEST_CLOCK")
    if path is None:
        return asyncio.run(main)
    if os.environ.get("RMQ_TESTING") != "1":
        main.close()
        raise ConfigError(
            "RMQ_TEST_CLOCK is for tests, which set RMQ_TESTING=1 too: unset it, and the clock is "
            "the machine's"
        )
    with Path(path).open("r+b") as file:
        drive(mmap(file.fileno(), SHIFT_BYTES))
    log.warning("the clock of this process is driven by a test: %s", path)

    async def driven() -> T:
        follow(asyncio.get_running_loop())
        return await main

    return asyncio.run(driven())


def follow(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the running loop follow this clock: when the clock moves, timers that become due run
    within some ms."""
    selector = loop._selector  # type: ignore[attr-defined]
    select = selector.select

    def look(timeout: float | None = None) -> Any:
        return select(timeout if timeout is None else sleep_s(timeout))

    loop.time, selector.select = monotonic, look  # type: ignore[method-assign]
