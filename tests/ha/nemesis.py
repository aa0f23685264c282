"""Nemesis: the form of a fault, and how it is written into the history.

    @contextlib.contextmanager
    def killed(cluster, target, maker, history):
        with noted(history, "kill", target, LOSES_MS):
            ...
            yield

Random choices (how long, how far) are made by the given `maker`. A fault is undone at the block's
end, also after an exception.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from random import Random

from support.driven_clock import DrivenClock

from tests.ha.cluster import LOSES_MS, Cluster, Node
from tests.ha.history import Fault, Writer
from tests.ha.network import Network

Nemesis = Callable[[Cluster, str, Random, Writer], contextlib.AbstractContextManager[None]]
HOUR_S = 3600
AHEAD_S = 10
RETURN_MS = 35_000  # until clients have gone back to the master, which they try after 30 s


@contextlib.contextmanager
def noted(
    history: Writer, name: str, target: str, loses_ms: int = 0, after_ms: int = 0,
    hides_resets: bool = False, fences_ms: int = 0, fenced: str = "",
) -> Iterator[None]:  # fmt: skip
    history.add(Fault(name=name, target=target, loses_ms=loses_ms, after_ms=after_ms,
                      hides_resets=hides_resets, fences_ms=fences_ms, fenced=fenced))  # fmt: skip
    try:
        yield
    finally:
        history.add(Fault(name=name, target=target, ends=True))


def taken_over(cluster: Cluster) -> tuple[int, int, bool]:
    """Which commits may be lost (loses_ms, after_ms), and whether resets may be hidden, if other
    brokers answer while a master is gone. The next master has commits as of a moment before, and
    those that a slave takes are overruled when the master is back. A slave that asks for tables
    only now and then may not know of a reset meanwhile."""
    if not cluster.has_replicas:
        return 0, 0, False
    return LOSES_MS + cluster.copies_ms, RETURN_MS, not cluster.is_told_of_changes


def network_of(cluster: Cluster) -> Network:
    assert cluster.network is not None, f"{cluster.kind} has no network to cut"
    return cluster.network


@contextlib.contextmanager
def partition(cluster: Cluster, history: Writer, name: str, target: str) -> Iterator[None]:
    """Links that are cut in the block are mended at its end."""
    with noted(history, name, target, *taken_over(cluster)):
        try:
            yield
        finally:
            network_of(cluster).heal()


def kill(node: Node, history: Writer) -> None:
    with noted(history, "kill", node.name, LOSES_MS):
        node.kill()


def kill_all(nodes: Sequence[Node], history: Writer) -> None:
    """Kills all at once, so that none is elected, or acknowledges, while another one is killed."""
    for node in nodes:
        node.signal(signal.SIGKILL)
    for node in nodes:
        kill(node, history)


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
