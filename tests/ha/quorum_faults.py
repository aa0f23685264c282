"""Quorum faults: what a nemesis does to those who decide: controllers, and members of etcd.

    with etcd_quorum_lost(cluster, "", Random(7), history):
        ...                     # no master has a lease any more
                                # and there are three again

Where nobody is left to grant a lease, the fault lasts longer than one, and the history says from
when on nothing may be acknowledged (Fault.fences_ms).
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from random import Random

from tests.ha.cluster import Cluster, Node
from tests.ha.history import Writer
from tests.ha.nemesis import jumping, kill, noted, start_all, taken_over
from tests.ha.trios import Controller, leading_controller, leading_etcd

BEYOND_S = 1.0  # so long after the end of the last lease nobody decides yet


@contextlib.contextmanager
def controller_killed(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """The one that leads; the other one goes on."""
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
    """The leading controller and the broker, at once."""
    node = leading_controller(cluster)
    with _gone([node, cluster.nodes[target]], history, "controller-too", cluster):
        yield


@contextlib.contextmanager
def controller_clock_jump(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """Of the one that leads. Leases go by no wall clock."""
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
    """Two of three are killed, or stand still."""
    nodes = maker.sample(cluster.etcd, 2)
    gone = maker.choice((_gone, _paused))
    with gone(nodes, history, "etcd-quorum", cluster), _unled(cluster, history):
        yield


@contextlib.contextmanager
def _gone(nodes: list[Node], history: Writer, name: str, cluster: Cluster) -> Iterator[None]:
    target = " ".join(each.name for each in nodes)
    with noted(history, f"{name} killed", target, *taken_over(cluster)):
        for node in nodes:
            kill(node, history)
        try:
            yield
        finally:
            start_all(nodes)


@contextlib.contextmanager
def _paused(nodes: list[Node], history: Writer, name: str, cluster: Cluster) -> Iterator[None]:
    target = " ".join(each.name for each in nodes)
    with noted(history, f"{name} paused", target, *taken_over(cluster)):
        for node in nodes:
            node.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for node in nodes:
                node.signal(signal.SIGCONT)


@contextlib.contextmanager
def _unled(cluster: Cluster, history: Writer) -> Iterator[None]:
    """Nobody grants a lease any more, so the last one ends."""
    with noted(history, "no lease", "", fences_ms=cluster.lease_ms):
        time.sleep(cluster.lease_ms / 1000 + BEYOND_S)
        yield
