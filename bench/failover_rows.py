"""Failover rows: how long a producer waits when its master is killed, or changed as planned.

Three brokers are under two controllers with etcd (or one controller without it), as in
`rmq demo cluster`. The producer sends numbers one after the other and looks at the routes each
second. A wait is the time between two acknowledgements.

    outcomes = kill(Bench(root=Path("/tmp/x"), rounds=5))       5 kills

java_kill measures the official Java client, with its defaults, with which it looks at the routes
each 30 s, and with a second between two looks.
"""

import contextlib
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rounds import Outcome, middle
from rows import Bench

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.replicas import Replicas, ReplicaSet
from rmq.demo.cluster import NAME, DemoCluster
from rmq.demo.traffic import GAP_S, TOPIC, Traffic
from rmq.errors import RmqError
from rmq.format import fastjson
from tools.peers.java_client import history_client

REPLICAS = 3
ROUTES_MS = 1000
CALM_S = 60.0
JAVA_TOPIC = "demo-java"
JAVA_S = 90.0  # at most, for its client to start, and to find a new master
FLOW_S = 1.0  # of sends before and after a failover
POLL_S = 0.01


class Flow:
    """Traffic that goes on, and how long its sends had to wait."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic

    def flows(self) -> None:
        """Returns when sends have been acknowledged for a while."""
        began = self.traffic.sent
        until = time.monotonic() + CALM_S
        while self.traffic.sent < began + 50:
            if time.monotonic() > until:
                raise RuntimeError(f"no send is acknowledged: {self.traffic.last_error}")
            time.sleep(POLL_S)
        time.sleep(FLOW_S)

    def longest_s(self, since_s: float) -> float:
        """The longest wait that ended after since_s; GAP_S when no wait was longer than that."""
        return max((gap for at, gap in self.traffic.gaps if at > since_s), default=GAP_S)

    def end(self) -> None:
        """Stops the traffic. RuntimeError when an acknowledged message is not received."""
        self.traffic.stop_sending()
        until = time.monotonic() + CALM_S
        while self.traffic.on_the_way() and time.monotonic() < until:
            time.sleep(POLL_S)
        if lost := self.traffic.on_the_way():
            raise RuntimeError(f"{lost} acknowledged messages did not come")


class Scene(Flow):
    """The cluster with its traffic."""

    def __init__(self, cluster: DemoCluster) -> None:
        super().__init__(Traffic(cluster.namesrv, ROUTES_MS))
        self.cluster = cluster
        self.view = Cluster(cluster.namesrv)
        self.replicas = Replicas(self.view, cluster.controllers)

    def calm(self) -> ReplicaSet:
        """Waits until there is a master and all replicas are in sync; returns the replicas."""
        until = time.monotonic() + CALM_S
        while time.monotonic() < until:
            with contextlib.suppress(RmqError):
                found = self.replicas.sets([NAME], details=False)[0]
                in_sync = [each for each in found.replicas if each.alive and each.in_sync]
                if found.master is not None and len(in_sync) == REPLICAS:
                    return found
            time.sleep(POLL_S)
        raise RuntimeError(f"not all are in sync after {CALM_S:.0f} s")


@contextlib.contextmanager
def scene(bench: Bench) -> Iterator[Scene]:
    cluster = DemoCluster(bench.root / "cluster", REPLICAS)
    try:
        cluster.start(lambda _: None)
        scene = Scene(cluster)
        scene.calm()
        admin.create_topic(scene.view, TOPIC, 4)
        scene.traffic.start()
        try:
            scene.flows()
            yield scene
            scene.end()
        finally:
            scene.traffic.close()
            scene.view.close()
    finally:
        cluster.stop()


def kill(bench: Bench) -> list[Outcome]:
    half = Outcome("kill", "kill -9 of the master: until the next ack, p50", 1.5, unit=" s")
    longest = Outcome("kill", "kill -9 of the master: until the next ack, max", 5.0, unit=" s")
    waits = []
    with scene(bench) as now:
        for _ in range(bench.rounds):
            found = now.calm()
            now.flows()
            assert found.master_id is not None
            child, killed_s = now.cluster.brokers[found.master_id], time.monotonic()
            child.kill()
            now.flows()
            waits.append(now.longest_s(killed_s))
            child.died()
            child.start()
        twice, sent = now.traffic.twice, now.traffic.sent
    half.values, longest.values = waits, [max(waits)]
    half.notes.append(f"{len(waits)} kills: {' '.join(f'{each:.2f}' for each in sorted(waits))}")
    longest.notes.append(f"{sent} sent, none lost, {twice} came twice")
    return [half, longest]


def java_kill(bench: Bench) -> list[Outcome]:
    name = "kill -9 of the master: until the Java client's next ack"
    slow = Outcome("java_kill", f"{name}, defaults", 35.0, unit=" s")
    quick = Outcome("java_kill", f"{name}, pollNameServerInterval=1000", 2.5, unit=" s")
    for outcome, poll_ms in ((slow, 0), (quick, ROUTES_MS)):
        with (
            scene(bench) as now,
            java_producer(now, bench.root / f"java-{poll_ms}", poll_ms) as acks,
        ):
            for _ in range(bench.rounds):
                found = now.calm()
                now.flows()
                assert found.master_id is not None
                acks.until_after(time.monotonic())
                child, killed_s = now.cluster.brokers[found.master_id], time.monotonic()
                child.kill()
                now.flows()
                outcome.values.append(acks.longest_s(killed_s))
                child.died()
                child.start()
        shown = " ".join(f"{each:.2f}" for each in sorted(outcome.values))
        outcome.notes.append(f"{len(outcome.values)} kills: {shown}")
    return [slow, quick]


class JavaAcks:
    """The times at which sends were answered SEND_OK, from the history that the client writes."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self._read_bytes = 0
        self._times_s: list[float] = []

    def times_s(self) -> list[float]:
        if self._history.exists():
            with self._history.open("rb") as file:
                file.seek(self._read_bytes)
                lines = file.read().split(b"\n")[:-1]
            self._read_bytes += sum(len(line) + 1 for line in lines)
            events = [fastjson.loads_object(line) for line in lines if b'"stored"' in line]
            self._times_s += [each["at"] / 1e9 for each in events]
        return self._times_s

    def until_after(self, since_s: float) -> None:
        until = time.monotonic() + JAVA_S
        while not (times := self.times_s()) or times[-1] <= since_s:
            if time.monotonic() > until:
                raise RuntimeError(f"no send of Java's is acknowledged: see {self._history}")
            time.sleep(POLL_S)

    def longest_s(self, since_s: float) -> float:
        """The longest wait that ended after since_s; first waits until sends reach FLOW_S beyond
        that time."""
        self.until_after(since_s + FLOW_S)
        times = self.times_s()
        return max(at - before for before, at in itertools.pairwise(times) if at > since_s)


@contextlib.contextmanager
def java_producer(now: Scene, folder: Path, poll_ms: int) -> Iterator[JavaAcks]:
    folder.mkdir()
    admin.create_topic(now.view, JAVA_TOPIC, 4)
    namesrv = now.cluster.namesrv
    command = history_client(folder, namesrv, folder, "java", JAVA_TOPIC, poll_ms=poll_ms)
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield JavaAcks(folder / "java-send.jsonl")
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def switch(bench: Bench) -> list[Outcome]:
    wait = Outcome("switch", "planned switch: the longest wait for an ack", 300.0, unit=" ms")
    failed = Outcome("switch", "planned switch: sends that fail", 0.0, unit="")
    with scene(bench) as now:
        for _ in range(bench.rounds):
            found = now.calm()
            now.flows()
            other = next(each.id for each in found.replicas if each.id != found.master_id)
            refused, began_s = now.traffic.refused, time.monotonic()
            command = [sys.executable, "-m", "rmq", "replica", "promote", NAME, str(other)]
            subprocess.run([*command, "-n", now.cluster.namesrv], check=True, capture_output=True)
            now.flows()
            wait.values.append(now.longest_s(began_s) * 1000)
            failed.values.append(now.traffic.refused - refused)
    wait.notes.append(f"waits below {GAP_S * 1000:.0f} ms are not looked at; middle "
                      f"{middle(wait.values):.0f} ms")  # fmt: skip
    return [wait, failed]
