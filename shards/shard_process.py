"""Shard process: python -m shards.shard_process STORE INDEX NAME (NAME for `ps` alone).

The supervisor writes STORE/bus/shard-INDEX.json (start_file.py), from which the process reads its
settings, the secret of the bus, and where it runs (placement.py).

Start: memory policy, store lock, recovery, threads, all of it on the shard's own core (rmq/system);
then the bus; then, with the items of the other shards, the name servers. A start that fails writes
its reason to STORE/bus/shard-INDEX.why and ends with REFUSED or FAILED; the supervisor shows the
reason. A shard whose reactor is stuck does the same.

When the supervisor dies the shard serves on, because it holds everything it needs. It stops at
SIGTERM. It leads a session of its own, so that Ctrl-C in the supervisor's terminal reaches only the
supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import msgspec

from rmq import collector, logs  # noqa: F401
from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.broker.core_options import make_core
from rmq.config import Settings, load_properties
from rmq.errors import ConfigError, RmqError, StoreLockedError
from rmq.node.broker_guard import open_guard
from rmq.node.process import log_opened
from rmq.node.served_broker import ServedBroker
from rmq.node.slave_start import bootstrapped, follow
from rmq.node.store_lock import StoreLock
from rmq.node.truncation import finish_truncation, truncate_damage
from rmq.system import affinity, descriptors
from rmq.system.threads import REACTOR
from shards.bus_files import BusDirectory
from shards.bus_siblings import BusSiblings
from shards.start_file import FAILED, REFUSED, StartFile

log = logging.getLogger("rmq.shard")


def main(arguments: list[str]) -> int:
    directory = BusDirectory(Path(arguments[0]))
    index = int(arguments[1])
    try:
        text = directory.read(f"shard-{index}.json")
        if text is None:
            raise ConfigError(f"{directory.path}/shard-{index}.json is missing")
        start = msgspec.json.decode(text.encode(), type=StartFile)
        settings = load_properties(None, start.values)
        logs.set_up(settings, {"broker": settings.brokerName})
        descriptors.share(None, settings)
        clock.run(_serve(directory, index, start, settings))
    except RmqError as error:
        directory.write(f"shard-{index}.why", str(error))
        log.error("%s", error)
        return REFUSED if isinstance(error, ConfigError | StoreLockedError) else FAILED
    return 0


async def _serve(directory: BusDirectory, index: int, start: StartFile, settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, _on_signal, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warn(affinity.prefer_node(start.node))
    lock = StoreLock(Path(settings.storePathRootDir))
    guard = open_guard(settings)
    if not await bootstrapped(settings, stop):
        lock.release()
        return
    core = make_core(settings, start.node)
    try:
        report = core.open()
    except OSError as error:
        raise ConfigError(error.strerror or str(error)) from None
    log_opened(settings.storePathRootDir, report)
    try:
        finish_truncation(core, settings)
        follow(core, settings)
        truncate_damage(core, settings)
        core.start()
        await _pin(start.cpus)
        made: list[BusSiblings] = []

        def prepare(broker: Broker) -> None:
            made[:] = [BusSiblings(broker, directory, index, start.token, start.digest)]
            broker.join(made[0])

        broker = ServedBroker(
            Broker(settings, core, guard),
            stop,
            prepare,
            lambda: made[0].serving(),
            lambda why: directory.write(f"shard-{index}.why", why),
        )
        await broker.start()
        _warn(affinity.spread(start.node_cpus, REACTOR))
        await stop.wait()
        log.info("stopping")
        await broker.stop()
    finally:
        await guard.stop()
        core.stop()
        lock.release()


async def _pin(cpus: list[int]) -> None:
    """Pins the reactor's thread, which has its name only once it runs: that may take a moment."""
    for _ in range(50):
        failure = affinity.pin_thread(REACTOR, cpus)
        if not failure:
            return
        await asyncio.sleep(0.01)
    _warn(failure)


def _warn(failure: str) -> None:
    if failure:
        log.warning("not in its place: %s", failure)


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(128 + signal.SIGTERM)
    stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
