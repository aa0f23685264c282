"""Run: a workload from its topics to its result.

Topics and groups of its own are created, loaded and deleted again. The measured time begins after
the warm-up; with a backlog it lasts until that is drained, and the file's time after that. A run
whose measured time is interrupted (Ctrl-C), or ended by a broker that goes away, has the result of
what there was.

    run = WorkloadRun(settings, "127.0.0.1:9876", Plan(duration_s=60.0))
    measured = run.measure(show=print, tell=print)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rmq.errors import ConfigError, RmqError
from rmq.load.cpu import CpuMeter
from rmq.load.workload.figures import Figures
from rmq.load.workload.result import RunResult
from rmq.load.workload.rig import Rig
from rmq.load.workload.settings import Settings
from rmq.load.workload.sustainable_rate import SustainableRate
from rmq.load.workload.topics import Progress, Topics

TICK_S = 0.1
PACE_S = 3.0  # a pace that is looked for is tried so long
FIRST_RATE = 10_000.0
DRAINED = 1000  # so many messages behind, consumers are on par with producers
REST = 0.1  # of a period: what is left at the end has a row from this length on
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
    connections_max: int = 1 << 20


@dataclass(frozen=True)
class Period:
    """One row of what is shown."""

    elapsed_s: float
    figures: Figures
    backlog: int
    rate: float  # that was wanted


@dataclass
class Measured:
    """As it is filled."""

    result: RunResult
    first: Figures
    last: Figures = field(init=False)  # of the last row
    whole: Figures = field(init=False)
    rows: int = 0
    is_interrupted: bool = False
    error: RmqError | None = None  # that ended it
    cpu_seconds: float | None = None
    # Since the start, warm-up and end among it.
    sent: int = 0
    received: int = 0
    unanswered: int = 0
    overdue: int = 0

    def __post_init__(self) -> None:
        self.last = self.first


Show = Callable[[Period], None]
Tell = Callable[[str], None]
Steps = Callable[[str], contextlib.AbstractContextManager[Progress]]


class WorkloadRun:
    def __init__(self, settings: Settings, namesrv: str, plan: Plan) -> None:
        """ConfigError: a process whose time is to be counted is not there."""
        self.settings, self.namesrv, self.plan = settings, namesrv, plan
        self.duration_s = _chosen(plan.duration_s, settings.test_duration_minutes)
        self.warmup_s = _chosen(plan.warmup_s, settings.warmup_duration_minutes)
        self.sustainable = None if settings.producer_rate else SustainableRate(FIRST_RATE)
        try:
            self._meter = CpuMeter(list(plan.pids))
        except ProcessLookupError as error:
            raise ConfigError(str(error)) from None
        self._paced_s = 0.0  # when, monotonic

    def measure(self, show: Show, tell: Tell, steps: Steps) -> Measured:
        """show: each period; tell: what is done in between; steps: of long work.

        RmqError, OSError: of a broker that is not there, refuses, or goes away before anything is
        measured."""
        with self._rig(tell, steps) as rig:
            rig.start()
            self._paced_s = time.monotonic()
            if self.warmup_s:
                tell(f"warm-up of {self.warmup_s:g} s")
                for _ in self._ticks(rig, self.warmup_s):
                    pass
            measured = self._measured(rig, show, tell)
        return measured

    @contextlib.contextmanager
    def _rig(self, tell: Tell, steps: Steps) -> Iterator[Rig]:
        """At topics of its own."""
        plan, settings = self.plan, self.settings
        rate = float(settings.producer_rate or FIRST_RATE)
        topics = Topics(self.namesrv, settings)
        try:
            tell(f"creating topics: {len(topics.names):,}")
            with steps("create") as progress:
                targets = topics.create(progress)
            with Rig(settings, targets, topics.group, plan.window, rate, plan.connections_max,
                     tell) as rig:  # fmt: skip
                yield rig
        finally:
            tell(f"deleting topics: {len(topics.names):,}")
            try:
                with steps("delete") as progress:
                    left = topics.delete(progress)
            except KeyboardInterrupt:
                tell(topics.left("interrupted again"))
                raise
            for sentence in left:
                tell(sentence)

    # ---- the measured time

    def _measured(self, rig: Rig, show: Show, tell: Tell) -> Measured:
        measured = Measured(RunResult(self.settings, self.plan.driver), rig.figures())
        self._meter.start()
        try:
            self._measure_rows(rig, measured, show, tell)
        except KeyboardInterrupt:
            measured.is_interrupted = True
        except RmqError as error:
            measured.error = error
        at_end = rig.figures()
        if self.plan.pids:
            measured.cpu_seconds = self._meter.seconds()
        self._row(rig, measured, show, at_end)
        rig.stop()
        settled = rig.figures()
        measured.whole = (at_end - measured.first).settled(settled - measured.first)
        measured.result.end(measured.whole)
        measured.sent, measured.received = settled.sent, settled.received
        measured.unanswered, measured.overdue = rig.unanswered, rig.overdue
        return measured

    def _measure_rows(self, rig: Rig, measured: Measured, show: Show, tell: Tell) -> None:
        """A row each period; the last one, which may be shorter, is not among them."""
        backlog = self._backlog(rig, tell)
        is_draining = next(backlog)
        began_s = measured.first.seconds
        end_s = began_s + (self.duration_s or float("inf"))
        for now in self._ticks(rig, float("inf")):
            was_draining, is_draining = is_draining, next(backlog)
            if was_draining and not is_draining:
                end_s = now + (self.duration_s or float("inf"))
            if not is_draining and now >= end_s:
                return
            if now - measured.last.seconds >= self.plan.period_s:
                self._row(rig, measured, show, rig.figures())

    def _row(self, rig: Rig, measured: Measured, show: Show, figures: Figures) -> None:
        """Of the time since the last one, unless that is next to nothing and not all there is."""
        part = figures - measured.last
        if part.seconds < self.plan.period_s * REST and measured.rows:
            return
        behind = max(0, self.settings.subscriptions_per_topic * figures.sent - figures.received)
        measured.result.add(part, behind)
        show(Period(figures.seconds - measured.first.seconds, part, behind, rig.rate))
        measured.last = figures
        measured.rows += 1

    def _ticks(self, rig: Rig, seconds: float) -> Iterator[float]:
        """Moments, until so many seconds have gone; a pace that is looked for changes meanwhile."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            time.sleep(min(TICK_S, until - now))
            now = time.monotonic()
            rig.check()
            if self.sustainable is not None and now - self._paced_s >= PACE_S:
                sent, received = rig.messages()
                copies = self.settings.subscriptions_per_topic
                each = received // copies if copies else sent
                rig.pace(self.sustainable.after(now - self._paced_s, sent, each))
                self._paced_s = now
            yield now

    def _backlog(self, rig: Rig, tell: Tell) -> Iterator[bool]:
        """At each look, whether a backlog is still built or drained."""
        wanted = int(self.settings.consumer_backlog_size_gb * GIB)
        if wanted:
            size = max(1, self.settings.message_size)
            tell(f"consumers stop until {wanted:,} bytes are behind")
            rig.pause()
            while rig.behind() * size < wanted:
                yield True
            tell("consumers drain what is behind")
            rig.resume()
            left = max(DRAINED, int((1 - self.settings.backlog_drain_ratio) * wanted / size))
            while rig.behind() > left:
                yield True
            tell("drained")
        while True:
            yield False


def _chosen(given_s: float | None, minutes: float) -> float:
    return minutes * 60 if given_s is None else given_s
