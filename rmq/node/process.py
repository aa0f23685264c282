"""Process: runs a name server, a broker, or both until SIGTERM or SIGINT.

At a start: take the store's lock -> recover the store -> the name server listens -> the native
threads serve -> the control side registers -> print one line on standard output:

    rmq 0.1.0 is ready in 0.21 s: name server 127.0.0.1:9876, broker broker-a at 127.0.0.1:10911 ...

A stop does the opposite, in less than two seconds: the broker unregisters and saves its tables, the
native threads drain and flush, the name server closes, the lock is released. A second signal ends
the process at once; the store then recovers as after a kill.

One event loop in the main thread runs the control side of both. The data path has threads of its
own, which do not use the interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmq import logs
from rmq.base import clock, unfinished_restore
from rmq.config import Settings
from rmq.errors import ConfigError, NotBuiltError
from rmq.node import service_manager
from rmq.node.broker_guard import open_guard
from rmq.node.start_line import opened_text, start_text
from rmq.node.store_lock import StoreLock
from rmq.serving import identity
from rmq.system import descriptors

if TYPE_CHECKING:
    from rmq.broker.broker import Broker
    from rmq.namesrv.server import NameServer
    from rmq.node.served_broker import ServedBroker

log = logging.getLogger("rmq.node")


def run_node(namesrv: Settings | None, broker: Settings | None) -> None:
    """Serves until SIGTERM or SIGINT; RmqError when it cannot start."""
    first = broker or namesrv
    assert first is not None
    fields = {"broker": broker.brokerName} if broker is not None else {}
    logs.set_up(first, fields)
    log.info("%s", start_text(namesrv, broker))
    for settings in (namesrv, broker):
        if settings is not None and (ignored := settings.without_effect()):
            log.warning("settings without effect in rmq: %s", ", ".join(ignored))
    descriptors.share(namesrv, broker)
    clock.run(_serve(namesrv, broker))


async def _serve(namesrv: Settings | None, broker: Settings | None) -> None:
    stop = stop_event()
    async with contextlib.AsyncExitStack() as stack:
        lock = None
        if broker is not None:
            lock = StoreLock(Path(broker.storePathRootDir))
            stack.callback(lock.release)
            unfinished_restore.check_none(Path(broker.storePathRootDir))
        guard = None
        if broker is not None:
            guard = open_guard(broker)
            stack.push_async_callback(guard.stop)
        core = None
        if broker is not None:
            from rmq.node.slave_start import bootstrapped, follow

            if not await bootstrapped(broker, stop):
                return
            core = _new_core(broker)
            report = _open(core)
            stack.callback(core.stop)
            log_opened(broker.storePathRootDir, report)
        served: ServedBroker[Broker] | None = None
        server: NameServer | None = None
        if namesrv is not None:
            from rmq.namesrv.server import NameServer

            server = NameServer(namesrv, guard)
            if guard is None:
                identity.take(server.guard.credentials, namesrv)
            await server.start()
            stack.push_async_callback(server.stop)
        own = f"{host_of(namesrv.bindAddress)}:{server.port}" if namesrv and server else ""
        if broker is not None:
            from rmq.broker.broker import Broker
            from rmq.node.served_broker import ServedBroker
            from rmq.node.truncation import finish_truncation, truncate_damage

            if own:
                others = f";{broker.namesrvAddr}" if broker.namesrvAddr else ""
                broker.set("namesrvAddr", own + others)
            assert core is not None
            finish_truncation(core, broker)
            follow(core, broker)
            truncate_damage(core, broker)
            core.start()
            served = ServedBroker(Broker(broker, core, guard), stop)
            await served.start()
            stack.push_async_callback(served.stop)
        shards: list[tuple[str, str]] = []
        if broker is not None and core is not None:
            shards = [(broker.brokerName, f"{broker.brokerIP1}:{core.port}")]
        from rmq.node.ready_line import print_ready

        printing = asyncio.ensure_future(print_ready(own, broker, shards, []))
        stopping = asyncio.ensure_future(stop.wait())  # even while waiting for a role
        await asyncio.wait({printing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not printing.done():
            printing.cancel()
        elif (following := printing.result()) is not None:
            stack.callback(following.cancel)
        watching = service_manager.watched(lambda: served is None or served.is_well)
        if watching is not None:
            stack.callback(watching.cancel)
        await stopping
        service_manager.tell(service_manager.STOPPING)
        log.info("stopping")
        began = clock.monotonic()
    log.info("stopped in %.2f s", clock.monotonic() - began)


def _new_core(settings: Settings) -> Any:
    # The compiled ShardCore. By the layer rules only rmq.broker.core_options may import it.
    try:
        from rmq.broker.core_options import make_core
    except ImportError as error:
        raise NotBuiltError(f"{error}. In a checkout run `make build`") from None
    return make_core(settings, _settle(settings))


def _settle(settings: Settings) -> int:
    """Keeps the process to one NUMA node, if the machine has several and rmqPinShards is set. It is
    done before memory is taken and threads start. Returns the node's number, or -1."""
    nodes = sum(1 for _ in Path("/sys/devices/system/node").glob("node[0-9]*"))
    if not settings.rmqPinShards or nodes < 2:
        return -1
    from rmq.system import affinity
    from rmq.system.topology import home_node, read_topology

    topology = read_topology()
    node = home_node(topology)
    if node >= 0:
        for failure in (
            affinity.prefer_node(node),
            affinity.allow(topology.cpus_of_node(node)),
        ):
            if failure:
                log.warning("not in its place: %s", failure)
    return node


def _open(core: Any) -> dict[str, Any]:
    """Recovers the store and takes the port. Returns the report of the recovery."""
    try:
        report: dict[str, Any] = core.open()
    except OSError as error:
        raise ConfigError(error.strerror or str(error)) from None
    return report


def stop_event() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, stop, number)
    return stop


def on_signal(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        os._exit(128 + number)
    stop.set()


def host_of(bind: str) -> str:
    """The address to reach a server bound to `bind` from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)
    return f"[{host}]" if ":" in host else host


def log_opened(store: str, report: dict[str, Any]) -> None:
    """Logs what the start found in the store."""
    from rmq.broker.store.damage_report import log_damage

    log.info("%s", opened_text(store, report))
    log.debug("recovery: %s", ", ".join(f"{name} {value}" for name, value in report.items()))
    log_damage(report)
