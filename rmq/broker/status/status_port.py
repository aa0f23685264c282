"""Status port: the port of /metrics, /healthz and /readyz, when metricsExporterType=PROM.

    port = StatusPort(settings, answers)
    await port.start(); await port.stop()

It is off by default, as in RocketMQ; a second broker on the machine would find the port taken. It
listens at metricsPromExporterHost (empty: this machine only) and metricsPromExporterPort (5557, 0
any free one), by TLS with rmqMetricsTls. With rmqMetricsCredentials the numbers need a user and a
password; anybody may ask for health and readiness.
"""

import logging
import ssl
from collections.abc import Callable
from typing import Protocol

from rmq.auth.options import metrics_credentials
from rmq.config import Settings
from rmq.observe.http import Answer, HttpServer
from rmq.serving.certificate_watch import CertificateWatch
from rmq.serving.tls import TlsFiles

log = logging.getLogger("rmq.broker.status_port")


class Answers(Protocol):
    """The object that answers."""

    async def metrics(self) -> Answer:
        """The metrics of all shards of the machine."""

    async def own_metrics(self) -> Answer: ...

    async def health(self) -> Answer: ...

    async def ready(self) -> Answer: ...


def context_of(settings: Settings) -> Callable[[], ssl.SSLContext] | None:
    """A function that makes the context of a connection, from the certificate as it is then. None:
    no TLS. ConfigError: there is no certificate."""
    if not settings.rmqMetricsTls:
        return None
    files = TlsFiles.needed(settings, "rmqMetricsTls=true")
    context = files.context()

    def renew(files: TlsFiles) -> None:
        nonlocal context
        context = files.context()

    watch = CertificateWatch(files, renew)

    def current() -> ssl.SSLContext:
        watch.look()
        return context

    return current


def _credentials_of(settings: Settings) -> tuple[str, str] | None:
    found = metrics_credentials(settings)
    return (found.access_key, found.secret_key) if found is not None else None


class StatusPort:
    """Owned by the control thread."""

    def __init__(self, settings: Settings, answers: Answers) -> None:
        self._settings = settings
        self._server = HttpServer(
            settings.metricsPromExporterHost or "127.0.0.1",
            settings.metricsPromExporterPort,
            {
                "/metrics": answers.metrics,
                "/metrics/own": answers.own_metrics,
                "/healthz": answers.health,
                "/readyz": answers.ready,
            },
            context=context_of(settings),
            credentials=_credentials_of(settings),
            guarded=("/metrics", "/metrics/own"),
        )
        self._is_open = False

    async def start(self) -> None:
        """Listens. A taken address is only logged: serving messages is more important."""
        host = self._settings.metricsPromExporterHost or "127.0.0.1"
        try:
            await self._server.start()
        except OSError as error:
            port = self._settings.metricsPromExporterPort
            log.error(
                "no metrics: cannot listen on %s:%d: %s; set metricsPromExporterPort",
                host, port, error.strerror or error,
            )  # fmt: skip
            return
        self._is_open = True
        scheme = "https" if self._settings.rmqMetricsTls else "http"
        log.info("metrics at %s://%s:%d/metrics", scheme, host, self._server.port)

    async def stop(self) -> None:
        if self._is_open:
            await self._server.stop()
            self._is_open = False


def verdict(reason: str | None) -> Answer:
    """The answer to a probe; reason None: all is well."""
    return Answer(200, b"ok\n") if reason is None else Answer(503, f"{reason}\n".encode())
