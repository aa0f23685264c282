"""The clocks of Python's side: the compiled core's, which tests can drive.

    began = clock.monotonic()
    clock.run(serve(settings))          # asyncio.run, with a loop that goes by this clock

A process whose environment has RMQ_TEST_CLOCK=FILE adds the two numbers in FILE (ClockShift in
cext/base/clock.pxd) to all its clocks, its event loop's too: so a test has an hour pass in a broker
process. It does so only with RMQ_TESTING=1 beside it, and says it in the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from mmap import mmap
from pathlib import Path
from typing import Any, TypeVar

from cext.base import clock
from rmq.errors import ConfigError

T = TypeVar("T")
DRIVEN_SLEEP_S = 0.002
SHIFT_BYTES = 16

log = logging.getLogger("rmq.clock")
wall = clock.wall_seconds
monotonic = clock.monotonic_seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run; ConfigError when the environment names a clock and this is no test."""
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
        clock.drive(mmap(file.fileno(), SHIFT_BYTES))
    log.warning("the clock of this process is driven by a test: %s", path)

    async def driven() -> T:
        follow(asyncio.get_running_loop())
        return await main

    return asyncio.run(driven())


def follow(loop: asyncio.AbstractEventLoop) -> None:
    """Has the running loop go by this clock: what a move makes due is done within 2 ms."""
    loop.time = monotonic  # type: ignore[method-assign]

    def look() -> None:  # so that the loop never sleeps for longer
        loop.call_later(DRIVEN_SLEEP_S, look)

    look()
