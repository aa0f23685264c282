"""Sequences: faults that meet a cluster which has not got over the last one.

    with down_then_master(cluster, "", Random(7), history):
        ...                     # a slave was killed, then the master, and the slave is back
                                # and so is the master

Who may lead then depends on who was in sync at each step, and on what each log has beyond that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from random import Random

from support.waiting import wait_until

from tests.ha.cluster import Broker, Cluster
from tests.ha.history import Writer
from tests.ha.nemesis import diverge, kill, noted, start_all, taken_over

WRITING_S = 2.0  # so long clients write what a replica that is down will lack


@contextlib.contextmanager
def next_master_killed(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """The target is killed, and the next master as well, when the target is on its way back. The
    third replica has joined the next master by then, or has not: then nobody but the next master
    itself may lead on."""
    first = cluster.nodes[target]
    others = _others(cluster, first)
    with noted(history, "next-master", first.name, taken_over(cluster)):
        kill(first, history)
        second = _until_master(cluster, others)
        if maker.random() < 0.5:
            _until_in_sync(cluster, second)
        first.launch()  # not ready before there is a master
        kill(second, history, loses_copies=True)
        try:
            yield
        finally:
            second.launch()
            for node in (first, second):
                node.until_ready()


@contextlib.contextmanager
def down_then_master(
    cluster: Cluster, target: str, maker: Random, history: Writer
) -> Iterator[None]:
    """A slave is killed, clients write on, and the master is killed: the replica that is left must
    lead. The slave comes back without what was written meanwhile, and the master after it."""
    with cluster.inside():
        master = cluster.nodes["master"]
    down, left = maker.sample(_others(cluster, master), 2)
    with noted(history, "down-then-master", f"{down.name} {master.name}", taken_over(cluster)):
        kill(down, history)
        _until_in_sync(cluster, master)
        time.sleep(maker.uniform(0.5, WRITING_S))
        kill(master, history, loses_copies=True)
        try:
            _until_master(cluster, [left])
            down.start()
            yield
        finally:
            master.start()


@contextlib.contextmanager
def diverged_twice(cluster: Cluster, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The target writes what nobody else has, and then its successor does. The target is back
    first, with the third replica, which must lead; so each of the two has an end of its own to
    cut, of different epochs."""
    first = cluster.nodes[target]
    others = _others(cluster, first)
    with noted(history, "diverged-twice", first.name, taken_over(cluster)):
        diverge(first, others, maker, history)
        start_all(others)
        second = _until_master(cluster, others)
        (third,) = (each for each in others if each is not second)
        _until_in_sync(cluster, second)
        diverge(second, [third], maker, history)
        start_all([third, first])
        try:
            _until_master(cluster, [third])
            yield
        finally:
            second.start()


def _others(cluster: Cluster, node: Broker) -> list[Broker]:
    return [each for each in cluster.nodes.values() if each is not node]


def _until_master(cluster: Cluster, nodes: Sequence[Broker]) -> Broker:
    """The one of them that is master, once there is one."""
    found: list[Broker] = []

    def look() -> bool:
        found[:] = [node for node in nodes if node.is_master()]
        return bool(found)

    with cluster.inside():
        wait_until(look)
    return found[0]


def _until_in_sync(cluster: Cluster, master: Broker) -> None:
    """Returns when the master has one slave in sync."""
    with cluster.inside():
        wait_until(lambda: master.in_sync() == 1)
