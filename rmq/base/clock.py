"""Clock: wall and monotonic time, the same as the compiled core's, and tests can drive both.

    began = clock.monotonic()
    clock.run(serve(settings))          # asyncio.run, with a loop that goes by this clock
    news.wait(clock.sleep_s(3.0))       # and looks again; rmq/base/waits.py has whole waits

All clocks of a process whose environment has RMQ_TEST_CLOCK=FILE go by the numbers in FILE
(ClockShift in cext/base/clock.pxd), its event loop's too: so a test has an hour pass in a broker
process. They do so only with RMQ_TESTING=1 beside it, and it is said in the log.

A name server has no compiled part: the core's clock is imported when a test drives it.
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
_look_s: Callable[[], float] | None = None  # the core's: when to look at it again


def wall() -> float:
    """As time.time()."""
    if _shift is None:
        return time.time()
    return (_shift[3] / 1e6 or time.time()) + _shift[0] / 1e6 + _shift[1] / 1e3


def now_ms() -> int:
    """Milliseconds since 1970, the unit of RocketMQ's files and frames."""
    return int(wall() * 1000)


def monotonic() -> float:
    """As time.monotonic()."""
    if _shift is None:
        return time.monotonic()
    return (_shift[2] / 1e6 or time.monotonic()) + _shift[0] / 1e6


def drive(memory: bytearray | mmap | None) -> None:
    """All clocks of this process go by the 40 bytes of `memory`, or by the machine alone (None).
    Only while no core runs."""
    global _shift, _look_s
    from cext.base import clock

    clock.drive(memory)
    _look_s = None if memory is None else clock.look_s
    _shift = None if memory is None else memoryview(memory)[:SHIFT_BYTES].cast("q")


def is_driven() -> bool:
    return _shift is not None


def sleep_s(timeout_s: float) -> float:
    """How long to sleep by the machine's clock for `timeout_s` by this one, for those who look
    again then: as long, and where tests drive it some ms at most, since it may have moved."""
    look_s = _look_s
    return timeout_s if look_s is None else min(timeout_s, look_s())


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run; ConfigError when the environment names a clock and this is no test."""
    import asyncio  # 20 ms of each command that has no loop

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
    """Makes the running loop follow this clock: what a move makes due runs within some ms."""
    selector = loop._selector  # type: ignore[attr-defined]
    select = selector.select

    def look(timeout: float | None = None) -> Any:
        return select(timeout if timeout is None else sleep_s(timeout))

    loop.time, selector.select = monotonic, look  # type: ignore[method-assign]
