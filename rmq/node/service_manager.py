"""Service manager: systemd hears when a server is ready, that it lives, and that it stops.

    tell("READY=1")                       to $NOTIFY_SOCKET (sd_notify(3)); without one to nobody
    task = watched(lambda: core.stats()["turns"])

With WatchdogSec= in its unit a service that says nothing for so long is killed and started again.
It is told twice in that time, by the event loop, and as long as the number that is given changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"

log = logging.getLogger("rmq.node.service_manager")


def tell(what: str) -> None:
    """Whoever is told or not: nothing here fails for it."""
    path = os.environ.get(SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
            peer.setblocking(False)
            peer.sendto(what.encode(), address)
    except OSError as error:
        log.warning("the service manager at %s was not told %s: %s", path, what, error)


def watchdog_s() -> float:
    """How often it wants to hear that this process lives; 0: not at all. What is no number is no
    wish."""
    if os.environ.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = os.environ.get(WATCHDOG_US, "")
    return int(text) / 2e6 if text.isascii() and text.isdigit() and len(text) < 18 else 0.0


def watched(turns: Callable[[], object] = object) -> asyncio.Task[None] | None:
    """A task that tells it while `turns` gives something else each time; None: nobody asks."""
    interval_s = watchdog_s()
    if interval_s <= 0:
        return None
    return asyncio.get_running_loop().create_task(_watch(turns, interval_s))


async def _watch(turns: Callable[[], object], interval_s: float) -> None:
    before: object = None
    while True:
        now = turns()
        if now != before:
            before = now
            tell(ALIVE)
        await asyncio.sleep(interval_s)
