"""Nemesis: the form of a fault, and how it is written into the history.

    @contextlib.contextmanager
    def killed(cluster, target, maker, history):
        with noted(history, "kill", target, KILLED):
            ...
            yield

Random choices (how long, how far) are made by the given `maker`. A fault is undone at the block's
end, also after an exception.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from support.driven_clock import DrivenClock

from tests.ha.cluster import LOSES_MS, Broker, Cluster, Node
from tests.ha.history import Fault, Writer
from tests.ha.network import Network

Nemesis = Callable[[Cluster, str, Random, Writer], contextlib.AbstractContextManager[None]]
HOUR_S = 3600
AHEAD_S = 10
BEHIND_S = 2.0  # less than the time after which a controller takes a broker for dead


class Risk(NamedTuple):
    """What a fault may do to offsets; the members are those of Fault."""

    loses_ms: int = 0
    until_settled: bool = False
    loses_copies: bool = False
    loses_locks: bool = False
    hides_ms: int = -1


SAFE = Risk()
KILLED = Risk(LOSES_MS)


@contextlib.contextmanager
def noted(
    history: Writer, name: str, target: str, risk: Risk = SAFE, fences_ms: int = 0, fenced: str = ""
) -> Iterator[None]:
    history.add(Fault(name=name, target=target, fences_ms=fences_ms, fenced=fenced,
                      **risk._asdict()))  # fmt: skip
    try:
        yield
    finally:
        history.add(Fault(name=name, target=target, ends=True))


def taken_over(cluster: Cluster) -> Risk:
    """The risk if other brokers answer while a master is gone. The next master has commits as of a
    moment before, and those that a slave takes are overruled when the master is back. A slave that
    asks for tables only now and then may not know of a reset of that time; an old master that a
    client still reaches does not know of resets that are done at its successor."""
    if not cluster.has_replicas:
        return SAFE
    loses_ms = LOSES_MS + cluster.copies_ms
    hides_ms = loses_ms if not cluster.is_told_of_changes else 0 if cluster.is_controlled else -1
    return Risk(loses_ms, until_settled=True, loses_locks=cluster.is_controlled, hides_ms=hides_ms)


def restarted_with(cluster: Cluster) -> Risk:
    """The same for a broker that will go on with offsets as of its files, also if it is alone."""
    return taken_over(cluster)._replace(loses_ms=LOSES_MS)


def network_of(cluster: Cluster) -> Network:
    assert cluster.network is not None, f"{cluster.kind} has no network to cut"
    return cluster.network


@contextlib.contextmanager
def partition(cluster: Cluster, history: Writer, name: str, target: str) -> Iterator[None]:
    """Links that are cut in the block are mended at its end."""
    with noted(history, name, target, taken_over(cluster)):
        try:
            yield
        finally:
            network_of(cluster).heal()


def kill(node: Node, history: Writer, loses_copies: bool = False) -> None:
    """loses_copies: others were killed, too, so no broker that is left need have the offsets that
    all of them had."""
    with noted(history, "kill", node.name, KILLED._replace(loses_copies=loses_copies)):
        node.kill()


def kill_all(nodes: Sequence[Node], history: Writer) -> None:
    """Kills all at once, so that none is elected, or acknowledges, while another one is killed."""
    for node in nodes:
        node.signal(signal.SIGKILL)
    for node in nodes:
        kill(node, history, loses_copies=len(nodes) > 1)


def diverge(node: Broker, others: Sequence[Broker], maker: Random, history: Writer) -> None:
    """The others stand still while this one goes on, and then all are killed: the end of its log is
    in no other log."""
    for each in others:
        each.pause()
    time.sleep(maker.uniform(0.5, BEHIND_S))
    kill_all([node, *others], history)


def start_all(nodes: Sequence[Node]) -> None:
    """Starts all together, because members of etcd are ready only when they are a quorum."""
    for node in nodes:
        node.launch()
    for node in nodes:
        node.until_ready()


@contextlib.contextmanager
def jumping(clock: DrivenClock, target: str, maker: Random, history: Writer) -> Iterator[None]:
    """The target's wall clock is set back by up to an hour, or ahead by some seconds."""
    seconds = maker.choice((-maker.uniform(1, HOUR_S), maker.uniform(1, AHEAD_S)))
    with noted(history, f"clock-jump {seconds:+.0f} s", target):
        clock.set_wall(seconds)
        try:
            yield
        finally:
            clock.set_wall(-seconds)
