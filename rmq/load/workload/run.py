"""Run: a workload from its topics to its result.

A run creates topics and groups of its own, loads them, and deletes them again. The measured time
begins after the warm-up; with a backlog it lasts until the backlog is drained, plus the file's
time. When the measured time is interrupted (Ctrl-C), or ended by a broker that goes away, the
result has what was measured until then; another interrupt ends the wait for open requests.

    run = WorkloadRun(settings, "127.0.0.1:9876", Plan(duration_s=60.0))
    measured = run.measure(show, tell=print, steps=progress_bar, keep=write)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rmq.client.blocking import encryption
from rmq.client.blocking.cluster import Cluster
from rmq.errors import ConfigError
from rmq.load.cpu import CpuMeter
from rmq.load.workload.figures import Figures, Period
from rmq.load.workload.measurements import Measured
from rmq.load.workload.rig import Rig
from rmq.load.workload.settings import Settings
from rmq.load.workload.sizes import Sizes
from rmq.load.workload.sustainable_rate import SustainableRate
from rmq.load.workload.topics import Topics
from rmq.progress import Progress
from rmq.system.held_signals import Noted, noted_signals

TICK_S = 0.1
PACE_S = 3.0  # how long each pace is tried while a sustainable one is looked for
FIRST_RATE = 10_000.0
DRAINED = 1000  # consumers that are only so many messages behind have drained the backlog
REST = 0.1  # share of a period that the rest at the end must have to get a row
GIB = 1 << 30


@dataclass(frozen=True)
class Plan:
    """Options that the workload file does not have, or that replace its own."""

    duration_s: float | None = None
    warmup_s: float | None = None
    period_s: float = 10.0
    window: int = 1024  # open requests of each producer
    driver: str = "rmq"
    pids: tuple[int, ...] = ()
    files_max: int = 1 << 20  # open ones


Show = Callable[[Period], None]
Tell = Callable[[str], None]
Keep = Callable[[Measured], None]
Steps = Callable[[str], contextlib.AbstractContextManager[Progress]]


class WorkloadRun:
    def __init__(self, settings: Settings, namesrv: str, plan: Plan) -> None:
        """ConfigError: a process whose CPU will be counted does not exist."""
        self.settings, self.namesrv, self.plan = settings, namesrv, plan
        self.duration_s = _chosen(plan.duration_s, settings.test_duration_minutes)
        self.warmup_s = _chosen(plan.warmup_s, settings.warmup_duration_minutes)
        self.sustainable = None if settings.producer_rate else SustainableRate(FIRST_RATE)
        try:
            self._meter = CpuMeter(list(plan.pids))
        except ProcessLookupError as error:
            raise ConfigError(str(error)) from None
        self.first_rate = float(settings.producer_rate or FIRST_RATE)
        self._paced_s, self._due = 0.0, 0.0  # last look at the pace; messages due until then

    def measure(self, show: Show, tell: Tell, steps: Steps, keep: Keep) -> Measured:
        """`show` gets each period; `tell` gets what is done in between; `steps` makes progress bars
        of long work; `keep` gets what was measured, before topics are deleted.

        RmqError, OSError: a broker is not there, refuses, or goes away before anything was
        measured."""
        masters, sizes = self._look(tell)
        topics = Topics(self.namesrv, self.settings, masters)
        try:
            tell(f"creating topics: {len(topics.names):,}")
            with steps("create") as progress:
                targets = topics.create(progress)
            with Rig(self.settings, targets, topics.group, sizes, self.first_rate) as rig:
                self._warm_up(rig, tell)
                with noted_signals() as noted:  # so that no signal loses what was measured
                    measured = self._measured(rig, show, tell, noted)
                    keep(measured)
                    measured.is_interrupted |= noted.came
        finally:
            if topics.are_made:
                self._delete(topics, tell, steps)
        return measured

    def _look(self, tell: Tell) -> tuple[list[str], Sizes]:
        """The masters' addresses, and sizes. ConfigError: the workload needs more than there is
        room for."""
        plan, settings = self.plan, self.settings
        with Cluster(self.namesrv) as cluster:
            masters = [each.master for each in cluster.masters() if each.master is not None]
        settings.check_templates(len(masters))
        sizes = Sizes.of(settings, len(masters), self.first_rate, plan.window)
        by_tls = encryption.client_tls() is not None
        sizes.check_open_files(settings, len(masters), by_tls, plan.files_max)
        for sentence in sizes.less(settings, plan.window):
            tell(sentence)
        return masters, sizes

    def _delete(self, topics: Topics, tell: Tell, steps: Steps) -> None:
        """Deletes the topics, even when `tell` fails (its output may be closed)."""
        try:
            with contextlib.suppress(OSError):
                tell(f"deleting topics: {len(topics.names):,}")
            with steps("delete") as progress:
                left = topics.delete(progress)
        except KeyboardInterrupt:
            tell(topics.left("interrupted"))
            raise
        for sentence in left:
            tell(sentence)

    def _warm_up(self, rig: Rig, tell: Tell) -> None:
        rig.start()
        self._paced_s = time.monotonic()
        if self.warmup_s:
            tell(f"warm-up of {self.warmup_s:g} s")
            for _ in self._ticks(rig, self.warmup_s):
                pass

    # ---- the measured time

    def _measured(self, rig: Rig, show: Show, tell: Tell, noted: Noted) -> Measured:
        """Measures rows, then waits for open requests. A noted signal ends the rows, or that
        wait."""
        measured = Measured(rig.figures())
        self._meter.start()
        try:
            self._measure_rows(rig, measured, show, tell, noted)
        except Exception as error:
            measured.error = error
        measured.at_end = rig.figures()
        measured.cpu_seconds = self._meter.known_seconds()
        self._row(measured, show, measured.at_end)
        with noted_signals() as hurried:
            tell("the end: what is open is waited for")
            rig.stop(lambda: hurried.came)
        rig.end()
        measured.settled = rig.figures()
        measured.unanswered, measured.overdue = rig.unanswered, rig.overdue
        measured.behind = self._behind(measured.settled)
        measured.is_interrupted = hurried.came  # measure() adds `noted`
        return measured

    def _measure_rows(
        self, rig: Rig, measured: Measured, show: Show, tell: Tell, noted: Noted
    ) -> None:
        """Makes a row each period, without the last one, which may be shorter."""
        backlog = self._backlog(rig, tell)
        is_draining = next(backlog)
        began_s = measured.first.seconds
        end_s = began_s + (self.duration_s or float("inf"))
        for now in self._ticks(rig, float("inf")):
            if noted.came:
                return
            was_draining, is_draining = is_draining, next(backlog)
            if was_draining and not is_draining:
                end_s = now + (self.duration_s or float("inf"))
            if not is_draining and now >= end_s:
                return
            if now - measured.last.seconds >= self.plan.period_s:
                self._row(measured, show, rig.figures())

    def _row(self, measured: Measured, show: Show, end: Figures) -> None:
        """Makes a row of the time since the last row, unless that is very short and there are other
        rows."""
        part = end - measured.last
        if part.seconds < self.plan.period_s * REST and measured.periods:
            return
        elapsed_s = end.seconds - measured.first.seconds
        period = Period(elapsed_s, part, self._behind(end), end)
        measured.periods.append(period)  # before it is shown, which may fail
        show(period)

    def _behind(self, figures: Figures) -> int:
        return max(0, self.settings.subscriptions_per_topic * figures.sent - figures.received)

    def _ticks(self, rig: Rig, seconds: float) -> Iterator[float]:
        """Yields times of the monotonic clock, until `seconds` have passed. Changes the pace
        meanwhile if a sustainable one is looked for."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            time.sleep(min(TICK_S, until - now))
            now = time.monotonic()
            rig.check()
            if self.sustainable is not None and now - self._paced_s >= PACE_S:
                sent, received = rig.messages()
                copies = self.settings.subscriptions_per_topic
                each = received // copies if copies else sent
                due = rig.due(now)
                seconds, expected = now - self._paced_s, due - self._due
                rig.pace(self.sustainable.after(seconds, expected, sent, each))
                self._paced_s, self._due = now, due
            yield now

    def _backlog(self, rig: Rig, tell: Tell) -> Iterator[bool]:
        """Builds and drains the backlog. Yields, at each look, whether that is still going on."""
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
