"""Faults: what a nemesis does to a node of a cluster, for the time of a block.

    with FAULTS["pause"](cluster, "a", Random(7), history):
        ...                     # node a stands still
                                # and is well again

What is random (how long, how far) is taken from the maker that is given. Each fault stands in the
history of the nemesis. All is undone at the block's end, also when that comes by an exception; what
a fault leaves in processes and names of the network ends with the test that made it.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import time
from collections.abc import Iterator
from random import Random

from support.waiting import wait_until

from tests.ha.cluster import LOSES_MS, Broker, Cluster
from tests.ha.history import Writer
from tests.ha.nemesis import (
    Nemesis,
    jumping,
    kill,
    kill_all,
    network_of,
    noted,
    partition,
    start_all,
    taken_over,
)
from tests.ha.quorum_faults import (
    controller_and_master_killed,
    controller_clock_jump,
    controller_killed,
    controllers_killed,
    etcd_leader_killed,
    etcd_quorum_lost,
    unled,
    unled_all,
    unled_one_way,
)
from tests.ha.store_faults import all_killed, power_cut, torn, wiped

LONG_PAUSE_S = 20
BEHIND_S = 2.0  # below what makes a controller take a broker for dead


@contextlib.contextmanager
def killed(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """kill -9; started again at the end."""
    node = cluster.nodes[target]
    with noted(history, "kill, until it is back", node.name, *taken_over(cluster)):
        kill(node, history)
        try:
            yield
        finally:
            node.start()


@contextlib.contextmanager
def behind(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The others stand still while the node goes on, and then all are killed. Those who stood still
    are back first, without what was on its way to them."""
    node = cluster.nodes[target]
    others = [each for each in cluster.nodes.values() if each is not node]
    with noted(history, "behind", node.name, *taken_over(cluster)):
        for each in others:
            each.pause()
        time.sleep(maker.uniform(0.5, BEHIND_S))
        kill_all([node, *others], history)
        start_all(others)
        try:
            with cluster.inside():
                wait_until(lambda: any(each.is_master() for each in others))
            yield
        finally:
            node.start()


@contextlib.contextmanager
def restarted(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Stopped by SIGTERM, which loses nothing of its own; started again at the end."""
    node = cluster.nodes[target]
    with noted(history, "restart", target, *taken_over(cluster)):
        code = node.stop()
        assert code == 0, f"{target} ended with {code}\n{node.log()[-3000:]}"
        try:
            yield
        finally:
            node.start()


@contextlib.contextmanager
def paused(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """SIGSTOP until the end."""
    node = cluster.nodes[target]
    with noted(history, "pause", target, *taken_over(cluster)):
        node.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            node.signal(signal.SIGCONT)


@contextlib.contextmanager
def paused_long(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Longer than leases, heartbeats, and what connections wait for."""
    with paused(cluster, target, maker, history):
        time.sleep(LONG_PAUSE_S)
        yield


@contextlib.contextmanager
def disk_full(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """No write and no new file of the log succeeds. A log that this has poisoned is opened again by
    a kill and a start; since it was, offsets reach no file."""
    node = cluster.nodes[target]
    after_ms = taken_over(cluster)[1]
    with noted(history, "disk-full", target, LOSES_MS, after_ms), _failing_disk(node, history):
        for operation in ("pwrite", "fallocate"):
            node.disk.fail(operation, errno.ENOSPC, path="commitlog/")
        yield


@contextlib.contextmanager
def disk_error(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """One write or sync of the log fails with EIO."""
    node = cluster.nodes[target]
    operation = maker.choice(("pwrite", "fdatasync"))
    name = f"disk-error {operation}"
    after_ms = taken_over(cluster)[1]
    with noted(history, name, target, LOSES_MS, after_ms), _failing_disk(node, history):
        node.disk.fail(operation, errno.EIO, path="commitlog/", count=1)
        yield


@contextlib.contextmanager
def _failing_disk(node: Broker, history: Writer) -> Iterator[None]:
    try:
        yield
        assert node.disk.hits(0), f"no write of {node.name} came to the disk that was to fail"
    finally:
        node.disk.clear()
        kill(node, history)
        node.start()


@contextlib.contextmanager
def clock_jump(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Somebody sets the node's wall clock back by up to an hour, or ahead by some seconds, and
    right at the end. Ahead no further: the reactor's clock never goes back, so it stands until that
    time has come, and with it what goes by the wall clock (check backs, revivals, pops)."""
    node = cluster.nodes[target]
    with jumping(node.clock, target, maker, history):
        yield


@contextlib.contextmanager
def isolated(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Nobody reaches the node, and it reaches nobody."""
    others = [name for name in network_of(cluster).hosts if name != target]
    with partition(cluster, history, "isolate", target):
        network_of(cluster).cut([[target], others])
        yield


@contextlib.contextmanager
def parted(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node and the other nodes do not see each other; all others see them all."""
    with partition(cluster, history, "part", target):
        for other in _others(cluster, target):
            network_of(cluster).separate(target, other)
        yield


@contextlib.contextmanager
def bridged(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node and one other do not see each other; the third, and the clients, see both."""
    other = maker.choice(_others(cluster, target))
    with partition(cluster, history, f"bridge, not to {other}", target):
        network_of(cluster).separate(target, other)
        yield


@contextlib.contextmanager
def one_way(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """What the node sends to another node does not come, or what it is sent."""
    other = maker.choice(_others(cluster, target))
    sender, receiver = maker.sample([target, other], 2)
    with partition(cluster, history, f"one-way {sender} to {receiver}", target):
        network_of(cluster).drop(sender, receiver)
        yield


@contextlib.contextmanager
def slow(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Everything that the node sends comes late."""
    network, milliseconds = network_of(cluster), maker.choice((5, 50, 300))
    with noted(history, f"delay {milliseconds} ms", target, *taken_over(cluster)):
        network.delay(target, milliseconds)
        try:
            yield
        finally:
            network.delay(target, 0)


def _others(cluster: Cluster, target: str) -> list[str]:
    return [name for name in cluster.nodes if name != target]


@contextlib.contextmanager
def nothing(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """So that a round without a fault is a round, too."""
    yield


FAULTS: dict[str, Nemesis] = {
    "none": nothing, "kill": killed, "restart": restarted, "pause": paused,
    "disk-full": disk_full, "disk-error": disk_error, "clock-jump": clock_jump,
    "isolate": isolated, "part": parted, "one-way": one_way, "bridge": bridged, "delay": slow,
    "pause-long": paused_long, "torn": torn, "behind": behind, "wiped": wiped, "all": all_killed,
    "controller": controller_killed, "controllers": controllers_killed,
    "controller-too": controller_and_master_killed, "etcd-leader": etcd_leader_killed,
    "etcd-quorum": etcd_quorum_lost, "controller-clock": controller_clock_jump,
    "unled": unled, "unled-one-way": unled_one_way, "unled-all": unled_all, "power-cut": power_cut,
}  # fmt: skip


def inflict(
    name: str, cluster: Cluster, target: str, maker: Random, history: Writer, seconds: float
) -> None:
    """One fault, for so long."""
    if target:
        with cluster.inside():
            target = cluster.nodes[target].name  # who is the master now
    with FAULTS[name](cluster, target, maker, history):
        time.sleep(seconds)
