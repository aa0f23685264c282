"""Store reopening: watches and reports while a log is cut or begins elsewhere and no broker serves.

    reopening = StoreReopening(settings, "cut at 8700", sample)
    await broker.stop()
    async with reopening:
        reopening.step("reading")       called by the working thread before each step

The reactor's watch ends with the broker. The thread that opens the log anew may have to wait for
the same disk, so the same kind of watch looks at it (rmq/broker/reactor_watch.py), its steps
counting as turns: a step that lasts is logged, with the kernel's state of the thread. The process
is not ended here, because its next start would do the same again; a supervisor ends it after ten
minutes (shards/supervisor.py).

The port of metrics keeps answering, so that a health probe does not restart a process that is at
work: /healthz says yes; /readyz says no, with the step and how long it has lasted; /metrics shows
the numbers from before, with the seconds since the last turn as rmq_reactor_standing_seconds.

Example: a disk takes 12 s to shorten a file. After 5 s the log has: the log is cut at 8700, and
step cutting has taken 5 s: its thread waits for a disk (jbd2_log_wait_commit)
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import NamedTuple

import msgspec

from rmq.base import clock
from rmq.broker.reactor_watch import ReactorWatch, Words
from rmq.broker.status.status_port import StatusPort, verdict
from rmq.config import Settings
from rmq.observe.http import Answer
from rmq.observe.sample import Sample
from rmq.system.threads import Thread, numbered_thread


class Step(NamedTuple):
    number: int
    name: str
    native_id: int  # of the working thread
    began: float  # clock.monotonic()


class StoreReopening:
    """Used for one change of the log. Owned by the event loop; the working thread calls step()."""

    def __init__(self, settings: Settings, what: str, before: Sample | None) -> None:
        """`what` is done with the log; `before`: the last sample, where there is a port of
        metrics."""
        self._what = what
        self._began = clock.monotonic()
        self._step = self._new_step(0, "stopping")
        words = Words(
            f"the log is {what}, and step {{step}} has taken {{seconds}} s: its thread {{thread}}",
            f"the log is {what}: it goes on, after a step of {{seconds}} s",
        )
        limit_s = settings.rmqStuckReactorSeconds
        self.watch = ReactorWatch(self._turn, limit_s, self._thread, words)
        self._before = before  # shown because the core must not be asked now
        self._port = StatusPort(settings, self) if before is not None else None

    async def __aenter__(self) -> None:
        self.watch.start()
        if self._port is not None:
            await self._port.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Frees the port."""
        if error is None:
            self.step("serving")  # ends the last step
        self.watch.stop()
        if self._port is not None:
            await self._port.stop()

    @property
    def age_s(self) -> int:
        return int(clock.monotonic() - self._began)

    def step(self, name: str) -> None:
        """Notes that the calling thread begins this step."""
        self._step = self._new_step(self._step.number + 1, name)

    def _new_step(self, number: int, name: str) -> Step:
        return Step(number, name, threading.get_native_id(), clock.monotonic())

    def _turn(self) -> tuple[int, bytes]:
        step = self._step
        return step.number, step.name.encode()

    def _thread(self) -> Thread | None:
        return numbered_thread(os.getpid(), self._step.native_id)

    # ---- the answers

    async def health(self) -> Answer:
        return verdict(None)

    async def ready(self) -> Answer:
        step = self._step
        lasts_s = int(clock.monotonic() - step.began)
        return verdict(
            f"reopening for {self.age_s} s: the log is {self._what}, step {step.name} for "
            f"{lasts_s} s"
        )

    async def metrics(self) -> Answer:
        """The metrics of this shard alone, because without a broker the others cannot be asked."""
        from rmq.observe.exposition import CONTENT_TYPE
        from rmq.observe.metrics import render

        assert self._before is not None
        sample = msgspec.structs.replace(
            self._before, state="reopening", reactor_standing_s=self.age_s
        )
        return Answer(200, render([sample]), CONTENT_TYPE)

    own_metrics = metrics
