"""Faults: what a nemesis does to a node of a cluster, for the time of a block.

    with FAULTS["pause"](cluster, "a", Random(7), history):
        ...                     # node a stands still
                                # and is well again

Random choices (how long, how far) are made by the given `maker`. Each fault is written into the
history of the nemesis. A fault is undone at the block's end, also after an exception. Processes and
names of the network that a fault leaves behind end with the test.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import time
from collections.abc import Iterator
from random import Random

from support.waiting import wait_until

from tests.ha.cluster import Broker, Cluster
from tests.ha.history import Writer
from tests.ha.nemesis import (
    Nemesis,
    diverge,
    jumping,
    kill,
    network_of,
    noted,
    partition,
    restarted_with,
    start_all,
    taken_over,
)
from tests.ha.quorum_faults import (
    controller_and_master_killed,
    controller_clock_jump,
    controller_killed,
    controller_paused,
    controllers_killed,
    controllers_paused,
    etcd_leader_killed,
    etcd_leader_paused,
    etcd_quorum_lost,
    etcd_quorum_paused,
    unled,
    unled_all,
    unled_one_way,
)
from tests.ha.sequences import diverged_twice, down_then_master, next_master_killed
from tests.ha.store_faults import all_killed, power_cut, torn, wiped
from tests.ha.trios import CONTROLLER

LONG_PAUSE_S = 20
LONG_CUT_S = 25  # more than haMaxTimeSlaveNotCatchup, and than a silence that ends a connection


@contextlib.contextmanager
def killed(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node is killed (kill -9), and started again at the end."""
    node = cluster.nodes[target]
    with noted(history, "kill, until it is back", node.name, taken_over(cluster)):
        kill(node, history)
        try:
            yield
        finally:
            node.start()


@contextlib.contextmanager
def behind(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The other nodes stand still while this one goes on, and then all are killed. The others are
    back first, without the messages that were on their way to them."""
    node = cluster.nodes[target]
    others = [each for each in cluster.nodes.values() if each is not node]
    with noted(history, "behind", node.name, taken_over(cluster)):
        diverge(node, others, maker, history)
        start_all(others)
        try:
            with cluster.inside():
                wait_until(lambda: any(each.is_master() for each in others))
            yield
        finally:
            node.start()


@contextlib.contextmanager
def restarted(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node is stopped by SIGTERM, by which it loses nothing, and started again at the end."""
    node = cluster.nodes[target]
    with noted(history, "restart", target, taken_over(cluster)):
        code = node.stop()
        assert code == 0, f"{target} ended with {code}\n{node.log()[-3000:]}"
        try:
            yield
        finally:
            node.start()


@contextlib.contextmanager
def paused(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node stands still (SIGSTOP) until the end."""
    node = cluster.nodes[target]
    with noted(history, "pause", target, taken_over(cluster)):
        node.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            node.signal(signal.SIGCONT)


def for_long(fault: Nemesis) -> Nemesis:
    """The same fault for longer than leases, heartbeats and timeouts of connections last."""

    @contextlib.contextmanager
    def lasting(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
        with fault(cluster, target, maker, history):
            time.sleep(LONG_PAUSE_S)
            yield

    return lasting


def long_cut(fault: Nemesis) -> Nemesis:
    """The same cut for longer than a slave may be behind. Nothing says to either side that the
    other one is away. Where a replica is left that the master reaches, the one that it does not
    reach has left the set of those in sync when the block begins."""

    @contextlib.contextmanager
    def lasting(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
        with cluster.inside():
            is_slave = not cluster.nodes[target].is_master()
        has_controller = CONTROLLER in network_of(cluster).hosts  # which the fault does not part
        with fault(cluster, target, maker, history):
            time.sleep(LONG_CUT_S)
            if cluster.is_controlled and (is_slave or (has_controller and fault is not parted)):
                with cluster.inside():
                    wait_until(lambda: has_shrunk(cluster))
            yield

    return lasting


def has_shrunk(cluster: Cluster) -> bool:
    """Whether a master says that one of its slaves is in sync, and no more."""
    return any(node.is_master() and node.in_sync() == 1 for node in cluster.nodes.values())


@contextlib.contextmanager
def disk_full(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """No write and no new file of the log succeeds. That poisons the log, and from then on offsets
    reach no file. A kill and a start open it again."""
    node = cluster.nodes[target]
    risk = restarted_with(cluster)
    with noted(history, "disk-full", target, risk), _failing_disk(node, history):
        for operation in ("pwrite", "fallocate"):
            node.disk.fail(operation, errno.ENOSPC, path="commitlog/")
        yield


@contextlib.contextmanager
def disk_error(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """One write or sync of the log fails with EIO."""
    node = cluster.nodes[target]
    operation = maker.choice(("pwrite", "fdatasync"))
    name = f"disk-error {operation}"
    with noted(history, name, target, restarted_with(cluster)), _failing_disk(node, history):
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
    """The node's wall clock is set back by up to an hour, or ahead by some seconds, and set right
    at the end. It is not set further ahead because the reactor's clock never goes back: when the
    wall clock is set right, the reactor's stands until that time has come, and so does all that
    goes by the wall clock (check backs, revivals, pops)."""
    node = cluster.nodes[target]
    with jumping(node.clock, target, maker, history):
        yield


@contextlib.contextmanager
def isolated(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """No other host reaches the node, and it reaches none."""
    others = [name for name in network_of(cluster).hosts if name != target]
    with partition(cluster, history, "isolate", target):
        network_of(cluster).cut([[target], others])
        yield


@contextlib.contextmanager
def parted(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node and the other nodes do not reach each other; all other hosts reach all of them."""
    with partition(cluster, history, "part", target):
        for other in _others(cluster, target):
            network_of(cluster).separate(target, other)
        yield


@contextlib.contextmanager
def bridged(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node and one other do not reach each other; the third, and the clients, reach both."""
    other = maker.choice(_others(cluster, target))
    with partition(cluster, history, f"bridge, not to {other}", target):
        network_of(cluster).separate(target, other)
        yield


@contextlib.contextmanager
def one_way(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Between the node and one other, what is sent in one of the two directions does not arrive."""
    other = maker.choice(_others(cluster, target))
    sender, receiver = maker.sample([target, other], 2)
    with partition(cluster, history, f"one-way {sender} to {receiver}", target):
        network_of(cluster).drop(sender, receiver)
        yield


@contextlib.contextmanager
def slow(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Everything that the node sends arrives late."""
    network, milliseconds = network_of(cluster), maker.choice((5, 50, 300))
    with noted(history, f"delay {milliseconds} ms", target, taken_over(cluster)):
        network.delay(target, milliseconds)
        try:
            yield
        finally:
            network.delay(target, 0)


def _others(cluster: Cluster, target: str) -> list[str]:
    return [name for name in cluster.nodes if name != target]


@contextlib.contextmanager
def nothing(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """No fault: a round without one is a round, too."""
    yield


FAULTS: dict[str, Nemesis] = {
    "none": nothing, "kill": killed, "restart": restarted, "pause": paused,
    "disk-full": disk_full, "disk-error": disk_error, "clock-jump": clock_jump,
    "isolate": isolated, "part": parted, "one-way": one_way, "bridge": bridged, "delay": slow,
    "isolate-long": long_cut(isolated), "part-long": long_cut(parted),
    "one-way-long": long_cut(one_way), "bridge-long": long_cut(bridged),
    "pause-long": for_long(paused),
    "torn": torn, "behind": behind, "wiped": wiped, "all": all_killed,
    "controller": controller_killed, "controllers": controllers_killed,
    "controller-too": controller_and_master_killed, "etcd-leader": etcd_leader_killed,
    "etcd-quorum": etcd_quorum_lost, "controller-clock": controller_clock_jump,
    "controller-paused": for_long(controller_paused),
    "controllers-paused": for_long(controllers_paused),
    "etcd-leader-paused": for_long(etcd_leader_paused),
    "etcd-quorum-paused": for_long(etcd_quorum_paused),
    "unled": unled, "unled-one-way": unled_one_way, "unled-all": unled_all, "power-cut": power_cut,
    "next-master": next_master_killed, "down-then-master": down_then_master,
    "diverged-twice": diverged_twice,
}  # fmt: skip


def inflict(
    name: str, cluster: Cluster, target: str, maker: Random, history: Writer, seconds: float
) -> None:
    """Does one fault to the target, for so many seconds."""
    if target:
        with cluster.inside():
            target = cluster.nodes[target].name  # "master" becomes the name of the master of now
    with FAULTS[name](cluster, target, maker, history):
        time.sleep(seconds)
