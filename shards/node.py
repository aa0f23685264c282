"""`rmq broker --shards N` and `rmq standalone --shards N`: the supervisor's process.

    run_shards(names, settings, "4")     until SIGTERM or SIGINT; names: with a name server
    run_shards(names, settings, None)    as many shards as the store has

Start: the supervisor's lock -> name server -> shards, all at once -> the ready line when all serve.
Stop, in less than two seconds: shards (each takes itself off the name servers, drains, flushes),
then the name server. With one shard there is neither supervisor nor bus: rmq.cli.node runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from pathlib import Path

from rmq import logs
from rmq.cli.node import announce, host_of, on_signal, run_node
from rmq.config import Settings
from rmq.namesrv.server import NameServer
from shards.machine_file import MachineFile
from shards.placement import Place, parse_shards, place
from shards.supervisor import Supervisor
from shards.topology import read_machine

log = logging.getLogger("rmq.node")


def run_shards(namesrv: Settings | None, broker: Settings, shards: str | None) -> None:
    machine = read_machine()
    asked = None if shards is None else parse_shards(shards, machine)
    count = MachineFile(Path(broker.storePathRootDir)).count(asked)
    if count == 1:
        run_node(namesrv, broker)
        return
    fields = {"broker": broker.brokerName}
    logs.set_up(broker.rmqLogFormat, broker.rmqLogLinesPerSecond, fields)
    places = place(broker, count, machine, bind=broker.rmqPinShards)
    asyncio.run(_serve(namesrv, broker, places))


async def _serve(namesrv: Settings | None, broker: Settings, places: list[Place]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, stop, number)
    async with contextlib.AsyncExitStack() as stack:
        server: NameServer | None = None
        if namesrv is not None:
            server = NameServer(namesrv)
            await server.start()
            stack.push_async_callback(server.stop)
            own = f"{host_of(namesrv.bindAddress)}:{server.port}"
            others = f";{broker.namesrvAddr}" if broker.namesrvAddr else ""
            broker.set("namesrvAddr", own + others)
        supervisor = Supervisor(broker, places)
        stack.push_async_callback(supervisor.stop)
        starting = loop.create_task(supervisor.start())
        stopped = loop.create_task(stop.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()  # a shard that refuses to start ends us all
            shards = [shard for _, shard in sorted(supervisor.shards.items()) if shard.address]
            announce(namesrv, server, broker, [(s.place.name, s.address) for s in shards])
            await stopped
        starting.cancel()
        log.info("stopping")
        began = time.monotonic()
    log.info("stopped in %.2f s", time.monotonic() - began)
