"""Store faults: what a nemesis does to stores while their brokers are down.

    with torn(cluster, "b", Random(7), history):
        ...                     # b was killed, and the end of its log is torn
                                # and b is started with that log

A torn tail is what a power cut leaves of a log that was not synced: some of the newest pages were
written, others were not. A broker believes files that it wrote since the machine started. So a
power cut also makes its files seem to be of an earlier start (other_boot). A wiped store is a new
disk, with the old identity or without it.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from support.other_boot import other_boot

from rmq.format.store_files import numbered_files
from tests.ha.cluster import Broker, Cluster
from tests.ha.history import Writer
from tests.ha.nemesis import kill, kill_all, noted, restarted_with, start_all
from tests.ha.stores import read_log

PAGE_BYTES = 4096
UNSYNCED_S = 1.5
IDENTITY = "brokerIdentity"


@contextlib.contextmanager
def torn(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The target's disk syncs nothing of the log for a while, so what comes then may be torn."""
    with _cut_off(cluster, [cluster.nodes[target]], "torn tail", target, maker, history):
        yield


@contextlib.contextmanager
def power_cut(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """All brokers lose power at once. Messages that were answered before they were synced may be
    lost."""
    with _cut_off(cluster, [*cluster.nodes.values()], "power cut of all", "", maker, history):
        yield


@contextlib.contextmanager
def _cut_off(
    cluster: Cluster, nodes: list[Broker], name: str, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    with noted(history, name, target, restarted_with(cluster)):
        begins = {node.name: hold_syncs(node) for node in nodes}
        time.sleep(maker.uniform(0.2, UNSYNCED_S))
        kill_all(nodes, history)
        for node in nodes:
            node.disk.clear()
            tear(node.store, begins[node.name], maker)
        try:
            yield
        finally:
            start_all(nodes)


def hold_syncs(node: Broker) -> int:
    """From now on no sync of the log ends. Returns the log's end after that, up to which it may be
    synced."""
    for operation in ("fdatasync", "fsync"):
        node.disk.hold(operation, path="commitlog/")
    return read_log(node.store).end


def tear(store: Path, begin: int, maker: Random) -> None:
    """Loses one page at a random place from `begin` on, and half of the pages behind it."""
    other_boot(store)
    end = read_log(store).end
    at = maker.randint(begin, end)
    files = {int(path.name): path for path in numbered_files(store / "commitlog")[0]}
    is_first = True
    while at < end:
        start = max(each for each in files if each <= at)
        page_end = min((at // PAGE_BYTES + 1) * PAGE_BYTES, end)
        if is_first or maker.random() < 0.5:
            with files[start].open("r+b") as file:
                file.seek(at - start)
                file.write(bytes(page_end - at))
        at, is_first = page_end, False


def cut_log(store: Path, at: int) -> None:
    """Cuts the log there: zeros follow, as in files that were made ahead."""
    other_boot(store)
    for path in numbered_files(store / "commitlog")[0]:
        begin, size = max(at - int(path.name), 0), path.stat().st_size
        if begin < size:
            with path.open("r+b") as file:
                file.seek(begin)
                file.write(bytes(size - begin))


@contextlib.contextmanager
def wiped(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    node, keeps_name = cluster.nodes[target], maker.random() < 0.5
    name = "wiped, of the old name" if keeps_name else "wiped"
    with noted(history, name, target, restarted_with(cluster)):
        kill(node, history)
        identity = (node.store / IDENTITY).read_bytes()
        shutil.rmtree(node.store)
        if keeps_name:
            node.store.mkdir()
            (node.store / IDENTITY).write_bytes(identity)
        try:
            yield
        finally:
            node.start()


@contextlib.contextmanager
def all_killed(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """All brokers, controllers and members of etcd are killed. At the end etcd is started first,
    then the controllers, then the brokers in any order."""
    brokers = list(cluster.nodes.values())
    deciders = [*cluster.controllers, *cluster.etcd]
    with noted(history, "all killed", "", restarted_with(cluster)):
        kill_all([*brokers, *deciders], history)
        try:
            yield
        finally:
            for row in (cluster.etcd, cluster.controllers, maker.sample(brokers, len(brokers))):
                start_all(row)
