"""Controller process: runs a controller until SIGTERM or SIGINT.

    rmq 0.1.0 is ready in 0.21 s: controller 127.0.0.1:9878, state in etcd at http://127.0.0.1:2379

A controller that stops gives up leadership, so that the next one need not wait for its lease to
run out.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from rmq import logs
from rmq.base import clock
from rmq.config import Settings
from rmq.controller.server import ControllerServer
from rmq.node import service_manager
from rmq.node.process import stop_event
from rmq.node.ready_line import print_line, seconds_since_start
from rmq.node.start_line import controller_start_text
from rmq.node.store_lock import StoreLock
from rmq.serving import identity
from rmq.system import descriptors

log = logging.getLogger("rmq.node")


def run_controller(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; RmqError when it cannot start."""
    logs.set_up(settings, {})
    log.info("%s", controller_start_text(settings))
    if ignored := settings.without_effect():
        log.warning("settings without effect in rmq: %s", ", ".join(ignored))
    descriptors.raise_limit()
    clock.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    stop = stop_event()
    async with contextlib.AsyncExitStack() as stack:
        if not settings.rmqEtcd:
            directory = Path(settings.controllerStorePath).expanduser()
            stack.callback(StoreLock(directory).release)
        server = ControllerServer(settings)
        identity.take(server.guard.credentials, settings)
        stack.push_async_callback(server.stop)
        await server.start()
        print_line(
            f"is ready in {seconds_since_start():.2f} s: controller {server.address}, "
            + _where(settings)
        )
        if (watching := service_manager.watched()) is not None:
            stack.callback(watching.cancel)
        await stop.wait()
        service_manager.tell(service_manager.STOPPING)
        log.info("stopping")


def _where(settings: Settings) -> str:
    if settings.rmqEtcd:
        return f"state in etcd at {settings.rmqEtcd}"
    return (
        f"state in {settings.controllerStorePath}: this controller is the only one, and while it "
        "is down no master is replaced; --etcd is for several"
    )
