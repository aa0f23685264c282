"""Run: the demo from its start to its end.

    lost = run_demo(Options(directory, replicas=3, kill_every_s=10, seconds=60))

`lost` is the number of messages that were acknowledged and never received: if it is not 0, there is
a defect. Ctrl-C ends the traffic. A second Ctrl-C ends the wait for the last messages: the counts
so far are told, and KeyboardInterrupt is raised, because it is unknown whether any message is lost.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from rmq.client.blocking import admin, encryption
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.replicas import Replicas, ReplicaSet
from rmq.demo.cluster import NAME, DemoCluster
from rmq.demo.interrupts import Interrupts
from rmq.demo.screen import Screen
from rmq.demo.story import Story
from rmq.demo.traffic import TOPIC, Traffic
from rmq.errors import ProtocolError, RemoteError, RmqError, UnreachableError

POLL_S = 0.02
SHOW_S = 0.5
RESTART_S = 2.0  # between the death of a process and its restart
READY_S = 120.0
LAST_S = 120.0  # at most, until the last messages are received
QUEUES = 4


class Options(msgspec.Struct, frozen=True):
    directory: Path
    replicas: int = 3
    kill_every_s: float | None = None  # least time between two kills of the master, when calm
    seconds: float | None = None  # of traffic; None: until Ctrl-C
    every_s: float = 5.0  # between two plain lines of rates
    by_tls: bool = False


class _Rates(msgspec.Struct):
    at_s: float = msgspec.field(default_factory=time.monotonic)
    sent: int = 0
    received: int = 0


def run_demo(options: Options) -> int:
    """Runs the demo; returns how many messages were lost. RmqError: a process does not start.
    KeyboardInterrupt: the wait at the end was interrupted."""
    cluster = DemoCluster(options.directory, options.replicas, by_tls=options.by_tls)
    if cluster.authority is not None:
        encryption.use(RMQ_TLS="1", RMQ_TLS_CA=str(cluster.authority))
    try:
        with Screen(options.every_s) as screen, Interrupts() as interrupts:
            return _Demo(options, cluster, screen, interrupts).run()
    finally:
        cluster.stop()


class _Demo:
    def __init__(
        self, options: Options, cluster: DemoCluster, screen: Screen, interrupts: Interrupts
    ) -> None:
        self._options = options
        self._interrupts = interrupts
        self._cluster = cluster
        self._screen = screen
        self._traffic = Traffic(cluster.namesrv, authority=cluster.authority)
        self._story = Story(self._traffic, screen.tell)
        self._view = Cluster(cluster.namesrv)
        self._replicas = Replicas(self._view, cluster.controllers)
        self._rates = _Rates()
        self._rates_text = ""
        self._killed_s = time.monotonic()
        self._has_killed = False
        self._shown_s = 0.0

    def run(self) -> int:
        try:
            self._begin()
        except KeyboardInterrupt:
            return 0  # there was no traffic yet
        text = ""
        try:
            self._traffic.start()
            self._hints()
            self._screen.go_live()
            self._follow()
        except KeyboardInterrupt:
            text = "stopping"
        finally:
            lost = self._end(text)
        return lost

    def _begin(self) -> None:
        self._introduce()
        self._cluster.start(self._screen.tell)
        self._await_calm()
        admin.create_topic(self._view, TOPIC, QUEUES)

    def _introduce(self) -> None:
        how = ", by TLS" if self._cluster.authority is not None else ""
        self._screen.tell(f"a cluster in {self._cluster.directory}, on loopback{how}")
        if not self._cluster.has_etcd:
            self._screen.tell(
                "etcd is not installed: there is one controller, which keeps its state in a file, "
                "and while it is down no master is replaced. That is not fault-tolerant; install "
                "etcd for two"
            )

    def _hints(self) -> None:
        cluster, master = self._cluster, self._story.master_id
        if master is not None:
            self._screen.tell(f"to kill the master: kill -9 {cluster.brokers[master].pid}")
        self._screen.tell(f"to switch masters: rmq replica promote {NAME} 2 {cluster.option()}")
        self._screen.tell(f"to see the replicas: rmq replica status {cluster.option()}")
        self._screen.tell(f"killed processes are started again after {RESTART_S:.0f} s")

    def _await_calm(self) -> None:
        until = time.monotonic() + READY_S
        while not self._story.is_calm(found := self._found()):
            self._interrupts.check()
            self._story.look(found, time.monotonic())
            if time.monotonic() > until:
                raise RmqError(
                    f"not all brokers are in sync after {READY_S:.0f} s: see "
                    f"{self._cluster.directory}/logs"
                )
            time.sleep(POLL_S)
        self._story.look(found, time.monotonic())

    def _follow(self) -> None:
        until = time.monotonic() + (self._options.seconds or float("inf"))
        self._killed_s = time.monotonic()
        while time.monotonic() < until or self._is_to_kill(until):
            self._look()
            time.sleep(POLL_S)
        settled = time.monotonic() + LAST_S  # so that a failover under way is told to its end
        while not self._story.is_calm(self._look()) and time.monotonic() < settled:
            time.sleep(POLL_S)

    def _is_to_kill(self, until: float) -> bool:
        """Whether a master must still be killed. On a busy machine the time may have ended before
        the first kill; one master is killed in any case."""
        is_asked = self._options.kill_every_s is not None and not self._has_killed
        return is_asked and time.monotonic() < until + LAST_S

    def _look(self) -> ReplicaSet | None:
        self._interrupts.check()
        now_s = time.monotonic()
        is_shown = now_s - self._shown_s >= SHOW_S
        found = self._found(details=is_shown)
        # After _found(), so that the death of a master is known before its successor is told.
        self._look_at_children()
        self._story.look(found, time.monotonic())
        if is_shown:
            self._shown_s = now_s
            pids = {number: child.pid for number, child in self._cluster.brokers.items()}
            self._screen.show(found, pids, self._rates_line(now_s))
        self._kill(found, now_s)
        return found

    def _look_at_children(self) -> None:
        now_s = time.monotonic()
        for number, child in self._cluster.brokers.items():
            if child.died():
                self._story.broker_died(number, now_s)
            elif child.died_s is not None and now_s - child.died_s >= RESTART_S:
                child.start()
                self._story.broker_started(number, now_s)
        for child in self._cluster.others:
            if child.died():
                self._story.other_died(child.name)
            elif child.died_s is not None and now_s - child.died_s >= RESTART_S:
                child.start()
                self._screen.tell(f"{child.name} is started again")

    def _kill(self, found: ReplicaSet | None, now_s: float) -> None:
        every_s, left = self._options.kill_every_s, self._options.seconds
        if every_s is None or now_s - self._killed_s < every_s or not self._story.is_calm(found):
            return
        is_time = left is None or now_s < self._until(left) or not self._has_killed
        if self._story.master_id is not None and is_time:
            self._killed_s = now_s
            self._has_killed = True
            self._cluster.brokers[self._story.master_id].kill()

    def _until(self, seconds: float) -> float:
        return self._traffic.began_s + seconds

    def _found(self, *, details: bool = False) -> ReplicaSet | None:
        try:
            sets = self._replicas.sets([NAME], details=details)
        except (UnreachableError, RemoteError, ProtocolError):
            return None
        found = sets[0] if sets else None
        is_whole = found is not None and len(found.replicas) == self._options.replicas
        return found if is_whole else None

    def _rates_line(self, now_s: float) -> str:
        before, traffic = self._rates, self._traffic
        took_s = now_s - before.at_s
        if took_s >= 1.0:
            self._rates = _Rates(now_s, traffic.sent, traffic.received)
            self._rates_text = (
                f"{(traffic.sent - before.sent) / took_s:.0f}/s sent, "
                f"{(traffic.received - before.received) / took_s:.0f}/s received"
            )
        gap = f"last gap {traffic.gaps[-1][1]:.2f} s" if traffic.gaps else "no gap yet"
        return f"{self._rates_text or '-'}; {gap}; {self._story.balance()}"

    def _end(self, text: str) -> int:
        """Ends the traffic; returns how many messages were lost."""
        traffic = self._traffic
        try:
            if text:
                self._screen.tell(text)
            self._await_last()
        except KeyboardInterrupt:
            self._screen.tell(f"interrupted; {self._story.balance()}")
            raise
        lost = traffic.on_the_way()
        self._screen.tell(f"{self._story.failovers} failovers; {self._story.balance(is_end=True)}")
        traffic.close()
        self._view.close()
        return lost

    def _await_last(self) -> None:
        """Waits until all acknowledged messages are received, at most LAST_S."""
        self._traffic.stop_sending()
        until = time.monotonic() + LAST_S
        while self._traffic.on_the_way() and time.monotonic() < until:
            self._look_at_children()
            time.sleep(POLL_S)
