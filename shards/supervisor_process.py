"""Supervisor process: `rmq broker --shards N` and `rmq standalone --shards N`.

    run_shards(names, settings, "4")     until SIGTERM or SIGINT; names: settings of a name server
    run_shards(names, settings, None)    as many shards as the store has

Start: the supervisor's lock -> name server -> shards, all at once -> the ready line when each shard
serves or is given up; the line says which. When all are given up, at the start or later, this
process ends with an error: a broker without shards is not ready.
Stop, in less than two seconds: shards (each leaves the name servers, drains, flushes), then the
name server. With one shard there is neither supervisor nor bus: rmq.node.process runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

from rmq import logs
from rmq.base import clock, unfinished_restore
from rmq.config import Settings
from rmq.namesrv.server import NameServer
from rmq.node import service_manager
from rmq.node.broker_guard import open_guard
from rmq.node.process import host_of, run_node, stop_event
from rmq.node.ready_line import print_ready
from rmq.node.start_line import start_text
from rmq.node.store_lock import make_store
from rmq.system import descriptors
from rmq.system.topology import read_topology
from shards.placement import Place, parse_shards, place
from shards.shard import GIVEN_UP
from shards.shards_file import ShardsFile
from shards.supervisor import Supervisor

log = logging.getLogger("rmq.node")


def run_shards(namesrv: Settings | None, broker: Settings, shards: str | None) -> None:
    topology = read_topology()
    asked = None if shards is None else parse_shards(shards, topology)
    count = ShardsFile(Path(broker.storePathRootDir)).count(asked)
    if count == 1:
        run_node(namesrv, broker)
        return
    fields = {"broker": broker.brokerName}
    logs.set_up(broker, fields)
    log.info("%s", start_text(namesrv, broker, count))
    descriptors.share(namesrv, None)  # each shard does the same for itself
    places = place(broker, count, topology, bind=broker.rmqPinShards)
    clock.run(_serve(namesrv, broker, places))


async def _serve(namesrv: Settings | None, broker: Settings, places: list[Place]) -> None:
    stop, loop = stop_event(), asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        own = ""
        make_store(Path(broker.storePathRootDir))
        unfinished_restore.check_none(Path(broker.storePathRootDir))
        guard = open_guard(broker)
        stack.push_async_callback(guard.stop)
        if namesrv is not None:
            server = NameServer(namesrv, guard)
            await server.start()
            stack.push_async_callback(server.stop)
            own = f"{host_of(namesrv.bindAddress)}:{server.port}"
            others = f";{broker.namesrvAddr}" if broker.namesrvAddr else ""
            broker.set("namesrvAddr", own + others)
        supervisor = Supervisor(broker, places)
        stack.push_async_callback(supervisor.stop)
        serving = loop.create_task(_run(supervisor, own, broker))
        if (watching := service_manager.watched()) is not None:
            stack.callback(watching.cancel)
        stopped = loop.create_task(stop.wait())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()  # it only ends with an error
        serving.cancel()
        service_manager.tell(service_manager.STOPPING)
        log.info("stopping")
        began = clock.monotonic()
    log.info("stopped in %.2f s", clock.monotonic() - began)


async def _run(supervisor: Supervisor, own: str, broker: Settings) -> None:
    """RmqError when a shard refuses to start, or when no shard is left. own: address of the name
    server in this process, or ""."""
    await supervisor.start()
    served, given_up = [], []
    for _, shard in sorted(supervisor.shards.items()):
        if shard.state == GIVEN_UP:
            given_up.append((shard.place.name, shard.reason))
        elif shard.address:
            served.append((shard.place.name, shard.address))
    following = await print_ready(own, broker, served, given_up)
    try:
        await supervisor.none_left()
    finally:
        if following is not None:
            following.cancel()
