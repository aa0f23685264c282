"""Service manager: systemd hears when a server is ready, that it lives, and that it stops.

    tell("READY=1")             to $NOTIFY_SOCKET (sd_notify(3)); without one to nobody
    task = watched(is_well)

With WatchdogSec= in its unit a service that says nothing for so long is killed and started again.
It is told four times in that time, by the event loop, unless `is_well` says no: a reactor that is
stuck serves nobody either. (Who ends for that by itself, rmq/node/served_broker.py, is quicker.)
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"
PATIENCE_S = 2.0  # with a manager whose socket is full

log = logging.getLogger("rmq.node.service_manager")


def tell(what: str, patience_s: float = PATIENCE_S) -> None:
    """Whoever is told or not: nothing here fails for it."""
    path = os.environ.get(SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
            peer.settimeout(patience_s)  # 0: what finds no room comes again
            peer.sendto(what.encode(), address)
    except OSError as error:
        log.warning("the service manager at %s was not told %s: %s", path, what, error)


def watchdog_s() -> float:
    """How often it wants to hear that this process lives; 0: not at all. What is no number is no
    wish."""
    if os.environ.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = os.environ.get(WATCHDOG_US, "")
    return int(text) / 4e6 if text.isascii() and text.isdigit() and len(text) < 18 else 0.0


def watched(is_well: Callable[[], bool] = lambda: True) -> asyncio.Task[None] | None:
    """A task that tells it; None: nobody asks."""
    interval_s = watchdog_s()
    if interval_s <= 0:
        return None
    return asyncio.get_running_loop().create_task(_watch(interval_s, is_well))


async def _watch(interval_s: float, is_well: Callable[[], bool]) -> None:
    while True:
        if is_well():
            tell(ALIVE, 0.0)
        await asyncio.sleep(interval_s)
