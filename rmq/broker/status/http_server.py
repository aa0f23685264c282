"""StatusServer: /metrics, /healthz and /readyz, when metricsExporterType=PROM.

    /metrics    metrics for Prometheus (rmq/observe/metrics.py), of all shards of the machine that
                answer within a second, so it is enough to ask one of them. /metrics/own is of this
                shard alone. With rmqMetricsNames also, or only, by the names of rocketmq-exporter
    /healthz    200 while this process is worth keeping: the reactor is not stuck and the log is
                sound. 503 means: restart it
    /readyz     200 while clients should be sent here: healthy, quick, takes writes, registered at a
                name server (when it has any). 503 means: wait, or look at the reason in the answer

status_port.py has the port. While the reactor takes no turns, the event loop soon stands still as
well (reactor_watch.py), and there are no answers. Probes take that for a failure, too, even while
the reactor waits for a disk, which /healthz itself would not report. While the log is opened anew,
another server answers at the port (rmq/broker/status/store_reopening.py).
"""

import asyncio
import logging
from typing import Protocol

from rmq.broker.reactor_watch import ReactorWatch
from rmq.broker.registration.registration import Registration
from rmq.broker.siblings import Siblings
from rmq.broker.status import runtime_info
from rmq.broker.status.status_port import StatusPort, verdict
from rmq.codes import RequestCode
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.observe.http import Answer
from rmq.observe.minute import Minute
from rmq.observe.sample import Sample, decode

log = logging.getLogger("rmq.broker.http_server")

Shown = tuple[Sample, dict[str, str]]  # a shard's sample; its runtime table where that is shown


class StatusContext(runtime_info.Context, Protocol):
    """What is used here of the broker."""

    reactor_watch: ReactorWatch
    registration: Registration
    siblings: Siblings


class StatusServer:
    """Owned by the control thread."""

    def __init__(self, context: StatusContext) -> None:
        self._context = context
        self._port = StatusPort(context.settings, self)
        self._minute = Minute()

    async def start(self) -> None:
        await self._port.start()

    async def stop(self) -> None:
        await self._port.stop()

    # ---- the answers

    async def metrics(self) -> Answer:
        own, others = await asyncio.gather(self._own(), self._others())
        return self._answer(sorted([own, *others], key=lambda each: each[0].shard))

    async def own_metrics(self) -> Answer:
        return self._answer([await self._own()])

    def _answer(self, shards: list[Shown]) -> Answer:
        from rmq.observe.exposition import CONTENT_TYPE
        from rmq.observe.metrics import render

        names, text = self._context.settings.rmqMetricsNames, b""
        if names != "exporter":
            text += render([sample for sample, _ in shards])
        if names == "rmq":
            self._minute.forget()
        else:
            text += self._by_the_exporters_names(shards)
        return Answer(200, text, CONTENT_TYPE)

    def _by_the_exporters_names(self, shards: list[Shown]) -> bytes:
        from rmq.observe.exporter_metrics import Looked, render_exporter

        return render_exporter(
            [Looked(sample, self._minute.rates(sample), table) for sample, table in shards]
        )

    async def _own(self) -> Shown:
        sample = await self._context.sampler.take_all()
        # The table asks the reactor, so it would not come while the reactor stands still.
        is_asked = self._context.settings.rmqMetricsNames != "rmq" and sample.state != "standing"
        return sample, runtime_info.runtime_table(self._context) if is_asked else {}

    async def _others(self) -> list[Shown]:
        """Samples and tables of the other shards of this machine that answer in time."""
        question = Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, fields={"rmqDetail": "true"})
        found = []
        for reply in await self._context.siblings.ask(question):
            try:
                table = fastjson.loads_object(reply.body).get("table") or {}
                sample = decode(str(table.pop("rmqSample")))
            except (ProtocolError, KeyError, ValueError) as error:
                log.warning("a shard's numbers cannot be read: %r", error)
            else:
                found.append((sample, {str(key): str(value) for key, value in table.items()}))
        return found

    async def health(self) -> Answer:
        return verdict(self.unhealthy_reason())

    async def ready(self) -> Answer:
        return verdict(self.unhealthy_reason() or self.unready_reason())

    def unhealthy_reason(self) -> str | None:
        """Why this process should be restarted (/healthz); None: it need not be."""
        if self._context.core.stats().get("poisoned"):
            return "the log is poisoned by a failed write or sync"
        return self._standing() if self._context.reactor_watch.is_stuck else None

    def _standing(self) -> str:
        return f"the reactor has taken no turn for {self._context.reactor_watch.standing_s} s"

    def unready_reason(self) -> str | None:
        """Why clients should not be sent here now (/readyz); None when they may."""
        if self._context.reactor_watch.is_slow:
            return self._standing()
        counters = self._context.core.stats()
        if not counters.get("writable", 1) and not counters.get("slave"):
            return "the disk is too full for writes"
        registration = self._context.registration
        if registration.wanted() and not registration.registered():
            return "not registered at any name server"
        return None
