"""Store reopening: while a log is cut, or begins elsewhere, nobody serves; what is known of it
meanwhile.

    reopening = StoreReopening(settings, "cut at 8700", sample)
    await broker.stop()
    async with reopening:
        reopening.step("reading")       by the thread that does it, before each step

The reactor's watch ends with the broker. What opens the log anew waits for the same disk, so the
same kind of watch looks at its thread (rmq/broker/reactor_watch.py), with its steps for turns: one
that lasts is in the log, with what the kernel says of the thread. Nobody ends it here, as the next
start would do the same again; a supervisor does after ten minutes (shards/supervisor.py).

The port of metrics answers on, so that who asks for health does not restart a process that is at
work: /healthz says yes, /readyz no, with the step and how long it has lasted, and /metrics what
there was before, with the seconds since the last turn as rmq_reactor_standing_seconds.

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
    native_id: int  # of the thread that does it
    began: float  # clock.monotonic()


class StoreReopening:
    """Of one change of the log. Owned by the event loop; step() is for whoever does the work."""

    def __init__(self, settings: Settings, what: str, before: Sample | None) -> None:
        """`what` is done with the log; `before`: the numbers until now, where there is a port of
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
        self._before = before  # nothing may be asked of the core
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
        """The port is free after it."""
        if error is None:
            self.step("serving")  # so that the last one is over
        self.watch.stop()
        if self._port is not None:
            await self._port.stop()

    @property
    def age_s(self) -> int:
        return int(clock.monotonic() - self._began)

    def step(self, name: str) -> None:
        """The calling thread begins with it."""
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
        """Of this shard alone, as the others are not asked without a broker."""
        from rmq.observe.exposition import CONTENT_TYPE
        from rmq.observe.metrics import render

        assert self._before is not None
        sample = msgspec.structs.replace(
            self._before, state="reopening", reactor_standing_s=self.age_s
        )
        return Answer(200, render([sample]), CONTENT_TYPE)

    own_metrics = metrics
