"""Placement: each shard's name, port, store directory, core and node.

    shard   name         port            store          core
    0       broker-a     10911           DIR            of node 0
    1       broker-a-1   10911 + 10      DIR/shard-1    of node 1
    2       broker-a-2   10911 + 20      DIR/shard-2    of node 0 ..

Shard 0 keeps its files where a broker of one shard does, so an existing store grows by adding
shards, and nothing is moved or renamed. Cores are dealt out from the nodes in turn, so that the
shards share memory controllers evenly. A shard's reactor gets a core to itself (all its hardware
threads), and the shard's other threads get that core's node. With more shards than cores a shard
gets only a node, and on a machine of one node nothing. A broker of one shard gets a node as well
where there are several (home_node): otherwise half of its memory would be far from its reactor,
wherever the reactor runs. It gets no core, because it shares the machine with other programs.

`--shards auto` is one shard for each physical core this process may use (affinity, cpuset, quota of
processor time). From LARGE_CORES cores on, one core is left to the rest of the system: the first
one, where most machines take their interrupts.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from rmq.auth.account_file import NAME
from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.system.topology import Core, Topology

LARGE_CORES = 5  # with so many cores one is left to the system
PORT_STEP = 10
SHARDS_MAX = 256
_PORTS = ("haListenPort", "metricsPromExporterPort")  # when given, each shard gets its own
_FILES = ("storePathEpochFile", "storePathBrokerIdentity")  # likewise
_MASTERS = ("rmqMasterAddress", "haMasterAddress")  # each shard of a slave follows its twin


class Place(msgspec.Struct, frozen=True):
    """Where one shard runs."""

    index: int
    name: str
    port: int  # 0: any free one
    store: Path
    cpus: tuple[int, ...]  # of the reactor; empty: anywhere
    node_cpus: tuple[int, ...]  # of its other threads; empty: anywhere
    node: int  # preferred memory; -1: none


def shard_name(name: str, index: int) -> str:
    return name if index == 0 else f"{name}-{index}"


def shard_store(store: Path, index: int) -> Path:
    return store if index == 0 else store / f"shard-{index}"


def auto_count(topology: Topology) -> int:
    """What `--shards auto` means here."""
    count = len(topology.cores)
    if topology.quota_cores is not None:
        count = min(count, max(1, math.floor(topology.quota_cores)))
    if count >= LARGE_CORES:
        count -= 1
    return min(count, SHARDS_MAX)


def parse_shards(text: str, topology: Topology) -> int:
    """The number of shards that a text means: "auto" or, say, "4"."""
    if text.strip().lower() == "auto":
        return auto_count(topology)
    if not text.strip().isdecimal() or not 1 <= int(text) <= SHARDS_MAX:
        raise ConfigError(f"--shards {text}: auto, or a whole number from 1 to {SHARDS_MAX}")
    return int(text)


def place(settings: Settings, count: int, topology: Topology, *, bind: bool = True) -> list[Place]:
    """The places of shards 0 to count - 1. `bind`: whether shards are bound to cores and nodes."""
    if not 1 <= count <= SHARDS_MAX:
        raise ConfigError(f"{count} shards: from 1 to {SHARDS_MAX}")
    last = settings.listenPort + PORT_STEP * (count - 1)
    if settings.listenPort and last > 65535:
        raise ConfigError(
            f"listenPort={settings.listenPort}: shard {count - 1} would listen on {last}, beyond "
            f"65535; at most {65535 - PORT_STEP * (count - 1)} with {count} shards"
        )
    cores = _deal(topology, count) if bind else []
    nodes = _deal_nodes(topology, count) if bind else []
    store = Path(settings.storePathRootDir)
    places = []
    for index in range(count):
        core = cores[index] if index < len(cores) else None
        node = core.node if core is not None else nodes[index] if nodes else -1
        places.append(
            Place(
                index=index,
                name=shard_name(settings.brokerName, index),
                port=settings.listenPort + PORT_STEP * index if settings.listenPort else 0,
                store=shard_store(store, index),
                cpus=core.cpus if core is not None else (),
                node_cpus=topology.cpus_of_node(node) if node >= 0 else (),
                node=node,
            )
        )
    return places


def _deal(topology: Topology, count: int) -> list[Core]:
    """Cores for the shards, taken from the nodes in turn; none when there are not enough."""
    cores = list(topology.cores)
    if count > len(cores):
        return []
    if len(cores) >= LARGE_CORES and count < len(cores):
        cores = cores[1:]
    by_node: dict[int, list[Core]] = {}
    for core in cores:
        by_node.setdefault(core.node, []).append(core)
    dealt: list[Core] = []
    while len(dealt) < count:
        for node in sorted(by_node):
            if by_node[node] and len(dealt) < count:
                dealt.append(by_node[node].pop(0))
    return dealt


def _deal_nodes(topology: Topology, count: int) -> list[int]:
    """Nodes for more shards than there are cores; none on a machine of one node."""
    nodes = topology.nodes()
    return [nodes[index % len(nodes)] for index in range(count)] if len(nodes) > 1 else []


def shard_values(settings: Settings, where: Place) -> dict[str, str]:
    """The settings of one shard as texts: those that are given, and those of its own place."""
    values = {key: text for key, text in settings.items() if settings.given(key)}
    values |= {
        "brokerName": where.name,
        "listenPort": str(where.port),
        "storePathRootDir": str(where.store),
    }
    if settings.authenticates and not settings.rmqAccountsPath:
        accounts = Path(settings.storePathRootDir) / "config" / NAME
        values["rmqAccountsPath"] = str(accounts)  # all shards have one file
    if where.index:
        if settings.storePathCommitLog:
            values["storePathCommitLog"] = str(
                Path(settings.storePathCommitLog) / f"shard-{where.index}"
            )
        for key in _FILES:
            if path := getattr(settings, key):
                values[key] = f"{path}-shard-{where.index}"
        for key in _PORTS:
            port = getattr(settings, key) if key in settings else 0
            if port:
                values[key] = str(port + PORT_STEP * where.index)
        for key in _MASTERS:
            if address := getattr(settings, key):
                values[key] = stepped(key, address, where.index)
    return values


def stepped(key: str, address: str, index: int) -> str:
    """The address of shard `index` on a machine whose shard 0 has the address given."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"{key}={address}: an address of the form host:port")
    return f"{host}:{int(port) + PORT_STEP * index}"
