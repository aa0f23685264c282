"""Service manager: tells systemd when a server is ready, that it is alive, and when it stops.

    tell("READY=1")             to $NOTIFY_SOCKET (sd_notify(3)); nothing is sent without one
    task = watched(is_well)

With WatchdogSec= in its unit, systemd kills and restarts a service that stays silent for that long.
The event loop reports four times in that period, unless `is_well` returns false: with a stuck
reactor a server serves nobody. (A broker usually ends by itself sooner: rmq/node/served_broker.py.)
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"
PATIENCE_S = 2.0  # how long to wait while the manager's socket is full

log = logging.getLogger("rmq.node.service_manager")


def tell(what: str, patience_s: float = PATIENCE_S) -> None:
    """Never raises: a manager that cannot be told is only a warning in the log."""
    path = os.environ.get(SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
            peer.settimeout(patience_s)  # 0: don't wait, it is sent again later
            peer.sendto(what.encode(), address)
    except OSError as error:
        log.warning("the service manager at %s was not told %s: %s", path, what, error)


def watchdog_s() -> float:
    """The time between two reports that this process is alive; 0 if systemd wants none, or its
    setting is not a number."""
    if os.environ.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = os.environ.get(WATCHDOG_US, "")
    return int(text) / 4e6 if text.isascii() and text.isdigit() and len(text) < 18 else 0.0


def watched(is_well: Callable[[], bool] = lambda: True) -> asyncio.Task[None] | None:
    """A task that reports it; None if systemd wants no reports."""
    interval_s = watchdog_s()
    if interval_s <= 0:
        return None
    return asyncio.get_running_loop().create_task(_watch(interval_s, is_well))


async def _watch(interval_s: float, is_well: Callable[[], bool]) -> None:
    while True:
        if is_well():
            tell(ALIVE, 0.0)
        await asyncio.sleep(interval_s)
