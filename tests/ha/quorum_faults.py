"""Quorum faults: what a nemesis does to controllers and members of etcd.

    with etcd_quorum_lost(cluster, "", Random(7), history):
        ...                     # no master has a lease any more
                                # and there are three members again

If no controller can grant a lease, or a master reaches no controller, the fault lasts longer than a
lease. The history then says from when on nothing may be acknowledged (Fault.fences_ms), or nothing
by that master (Fault.fenced).
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from random import Random

from support.waiting import wait_until

from tests.ha.cluster import Cluster, Node
from tests.ha.history import Writer
from tests.ha.nemesis import jumping, kill, network_of, noted, partition, start_all, taken_over
from tests.ha.trios import CONTROLLER, Controller, leading_controller, leading_etcd

BEYOND_S = 1.0  # how long the fault lasts beyond the end of the last lease


@contextlib.contextmanager
def controller_killed(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """The leading controller is killed; the other one goes on."""
    node = leading_controller(cluster)
    with _gone([node], history, "controller", cluster):
        yield


@contextlib.contextmanager
def controllers_killed(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    with _gone(cluster.controllers, history, "controllers", cluster), _unled(cluster, history):
        yield


@contextlib.contextmanager
def controller_and_master_killed(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """The leading controller and the target are killed, one right after the other."""
    node = leading_controller(cluster)
    with _gone([node, cluster.nodes[target]], history, "controller-too", cluster):
        yield


@contextlib.contextmanager
def controller_clock_jump(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """The leading controller's wall clock jumps. Leases do not depend on it."""
    node = leading_controller(cluster)
    assert isinstance(node, Controller)
    with jumping(node.clock, node.name, maker, history):
        yield


@contextlib.contextmanager
def etcd_leader_killed(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    with _gone([leading_etcd(cluster)], history, "etcd-leader", cluster):
        yield


@contextlib.contextmanager
def etcd_quorum_lost(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """Two of etcd's three members are killed, or stand still."""
    nodes = maker.sample(cluster.etcd, 2)
    gone = maker.choice((_gone, _paused))
    with gone(nodes, history, "etcd-quorum", cluster), _unled(cluster, history):
        yield


@contextlib.contextmanager
def controller_paused(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """The leading controller stands still, another one leads, and then the first one goes on."""
    with _paused([leading_controller(cluster)], history, "controller", cluster):
        yield


@contextlib.contextmanager
def controllers_paused(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    with _paused(cluster.controllers, history, "controllers", cluster), _unled(cluster, history):
        yield


@contextlib.contextmanager
def etcd_leader_paused(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    with _paused([leading_etcd(cluster)], history, "etcd-leader", cluster):
        yield


@contextlib.contextmanager
def etcd_quorum_paused(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """Two of etcd's three members stand still, among them perhaps the leader."""
    nodes = maker.sample(cluster.etcd, 2)
    with _paused(nodes, history, "etcd-quorum", cluster), _unled(cluster, history):
        yield


@contextlib.contextmanager
def unled(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The node and the controller do not reach each other; clients and other nodes reach both."""
    ways = [(target, CONTROLLER), (CONTROLLER, target)]
    with _unseen(cluster, target, ways, "unled", history):
        yield


@contextlib.contextmanager
def unled_one_way(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """Between node and controller, what is sent in one of the two directions does not arrive."""
    sender, receiver = maker.sample([target, CONTROLLER], 2)
    name = f"unled, {sender} to {receiver}"
    with _unseen(cluster, target, [(sender, receiver)], name, history):
        yield


@contextlib.contextmanager
def unled_all(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The controller and all nodes do not reach each other."""
    with partition(cluster, history, "unled-all", ""):
        for name in cluster.nodes:
            network_of(cluster).separate(name, CONTROLLER)
        with _unled(cluster, history):
            yield


@contextlib.contextmanager
def _unseen(
    cluster: Cluster, target: str, ways: list[tuple[str, str]], name: str, history: Writer
) -> Iterator[None]:
    """Cuts these ways, and begins the block when the target's lease is over and another node is
    master."""
    others = [node for node in cluster.nodes.values() if node.name != target]
    with partition(cluster, history, name, target):
        for sender, receiver in ways:
            network_of(cluster).drop(sender, receiver)
        with _unled(cluster, history, cluster.nodes[target].address):
            with cluster.inside():
                wait_until(lambda: any(node.is_master() for node in others))
            yield


@contextlib.contextmanager
def _gone(nodes: list[Node], history: Writer, name: str, cluster: Cluster) -> Iterator[None]:
    target = " ".join(each.name for each in nodes)
    with noted(history, f"{name} killed", target, taken_over(cluster)):
        for node in nodes:
            kill(node, history)
        try:
            yield
        finally:
            start_all(nodes)


@contextlib.contextmanager
def _paused(nodes: list[Node], history: Writer, name: str, cluster: Cluster) -> Iterator[None]:
    target = " ".join(each.name for each in nodes)
    with noted(history, f"{name} paused", target, taken_over(cluster)):
        try:
            for node in nodes:
                node.pause()
            yield
        finally:
            for node in nodes:
                node.signal(signal.SIGCONT)


@contextlib.contextmanager
def _unled(cluster: Cluster, history: Writer, fenced: str = "") -> Iterator[None]:
    """Waits until the last lease is over, because no controller grants leases now (or none to the
    broker `fenced`)."""
    with noted(history, "no lease", fenced, fences_ms=cluster.lease_ms, fenced=fenced):
        time.sleep(cluster.lease_ms / 1000 + BEYOND_S)
        yield
