"""Run: a workload from its topics to its result.

Topics of its own are created, loaded and deleted again. The measured time begins after the warm-up;
with a backlog it lasts until that is drained, and the file's time after that. A run that is
interrupted (Ctrl-C) in its measured time has the result of what there was.

    run = WorkloadRun(settings, "127.0.0.1:9876", Plan(duration_s=60.0))
    result = run.measure(show=print)
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rmq.client.blocking.admin import delete_topic
from rmq.client.blocking.cluster import Cluster
from rmq.errors import RemoteError, RmqError
from rmq.load import control
from rmq.load.cpu import CpuMeter
from rmq.load.workload.result import RunResult
from rmq.load.workload.rig import Figures, Rig
from rmq.load.workload.settings import Settings
from rmq.load.workload.sustainable_rate import SustainableRate

TICK_S = 0.1
BEAT_S = 20.0
PACE_S = 3.0  # a pace that is looked for is tried so long
FIRST_RATE = 10_000.0
DRAINED = 1000  # so many messages behind, consumers are on par with producers
GIB = 1 << 30


@dataclass(frozen=True)
class Plan:
    """What the file does not say, or what is to be other than it says."""

    duration_s: float | None = None
    warmup_s: float | None = None
    period_s: float = 10.0
    window: int = 1024  # open requests of each producer
    driver: str = "rmq"
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Period:
    """One row of what is shown."""

    elapsed_s: float
    seconds: float
    figures: Figures
    backlog: int
    rate: float  # that was wanted


@dataclass(frozen=True)
class Measured:
    result: RunResult
    whole: Figures
    seconds: float
    failures: dict[int, int]  # by code
    unanswered: int
    cpu_seconds: float | None


Tell = Callable[[str], None]


class WorkloadRun:
    def __init__(self, settings: Settings, namesrv: str, plan: Plan) -> None:
        self.settings, self.namesrv, self.plan = settings, namesrv, plan
        self.duration_s = _chosen(plan.duration_s, settings.test_duration_minutes)
        self.warmup_s = _chosen(plan.warmup_s, settings.warmup_duration_minutes)
        self.sustainable = None if settings.producer_rate else SustainableRate(FIRST_RATE)
        self._beaten_s = self._paced_s = 0.0  # when, monotonic

    def measure(self, show: Callable[[Period], None], tell: Tell) -> Measured:
        """show: each period; tell: what is done in between.

        RmqError, OSError: of a broker that is not there, refuses, or goes away."""
        with self._topics(tell) as targets, Rig(self.settings, targets, self.plan.window) as rig:
            rig.start(float(self.settings.producer_rate or FIRST_RATE))
            self._beaten_s = self._paced_s = time.monotonic()
            if self.warmup_s:
                tell(f"warm-up of {self.warmup_s:g} s")
                for _ in self._ticks(rig, self.warmup_s):
                    pass
            measured = self._measured(rig, show, tell)
        return measured

    # ---- topics

    @contextlib.contextmanager
    def _topics(self, tell: Tell) -> Iterator[list[control.Target]]:
        token = secrets.token_hex(4)
        names = [f"omb-{token}-{number:06d}" for number in range(self.settings.topics)]
        with Cluster(self.namesrv) as cluster:
            queues = max(1, self.settings.partitions_per_topic // len(cluster.masters()))
        tell(f"creating topics: {len(names):,}")
        try:
            yield control.find_queues(self.namesrv, names, queues)
        finally:
            tell(f"deleting topics: {len(names):,}")
            try:
                with Cluster(self.namesrv) as cluster:
                    for name in names:
                        with contextlib.suppress(RemoteError):  # it was not created
                            delete_topic(cluster, name)
            except RmqError as error:
                tell(f"topics omb-{token}-.. are left behind: {error}")

    # ---- the measured time

    def _measured(self, rig: Rig, show: Callable[[Period], None], tell: Tell) -> Measured:
        result = RunResult(self.settings, self.plan.driver)
        meter = CpuMeter(list(self.plan.pids))
        before = last = rig.figures()
        began = then = time.monotonic()
        end_s = self.duration_s or float("inf")
        backlog = self._backlog(rig, tell)
        is_draining = next(backlog)
        with contextlib.suppress(KeyboardInterrupt):
            for now in self._ticks(rig, float("inf")):
                was_draining, is_draining = is_draining, next(backlog)
                if was_draining and not is_draining:
                    end_s = now - began + self.duration_s
                is_last = not is_draining and now - began >= end_s
                if now - then >= self.plan.period_s or is_last:
                    figures = rig.figures()
                    behind = self._behind(figures.sent, figures.received)
                    period = Period(now - began, now - then, figures - last, behind, rig.rate)
                    result.add(period.figures, period.seconds, period.backlog)
                    show(period)
                    last, then = figures, now
                if is_last:
                    break
        seconds, whole = time.monotonic() - began, rig.figures() - before
        cpu = meter.seconds() if self.plan.pids else None
        rig.stop()
        result.end(whole)
        return Measured(result, whole, seconds, rig.failures(), rig.unanswered, cpu)

    def _ticks(self, rig: Rig, seconds: float) -> Iterator[float]:
        """Moments, until so many seconds have gone; brokers are told of subscriptions, and a pace
        that is looked for changes."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            time.sleep(min(TICK_S, until - now))
            now = time.monotonic()
            rig.check()
            if now - self._beaten_s >= BEAT_S:
                self._beaten_s = now
                rig.beat()
            if self.sustainable is not None and now - self._paced_s >= PACE_S:
                sent, received = rig.messages()
                copies = self.settings.subscriptions_per_topic
                each = received // copies if copies else sent
                rig.pace(self.sustainable.after(now - self._paced_s, sent, each))
                self._paced_s = now
            yield now

    def _behind(self, sent: int, received: int) -> int:
        return max(0, self.settings.subscriptions_per_topic * sent - received)

    def _backlog(self, rig: Rig, tell: Tell) -> Iterator[bool]:
        """At each look, whether a backlog is still built or drained."""
        wanted = int(self.settings.consumer_backlog_size_gb * GIB)
        if wanted:
            size = max(1, self.settings.message_size)
            tell(f"consumers stop until {wanted:,} bytes are behind")
            rig.pause()
            while self._behind(*rig.messages()) * size < wanted:
                yield True
            tell("consumers drain what is behind")
            rig.resume()
            left = max(DRAINED, int((1 - self.settings.backlog_drain_ratio) * wanted / size))
            while self._behind(*rig.messages()) > left:
                yield True
            tell("drained")
        while True:
            yield False


def _chosen(given_s: float | None, minutes: float) -> float:
    return minutes * 60 if given_s is None else given_s
