"""Server: the console on a port, until it is told to stop.

serve(settings)     prints the ready line, and returns after SIGTERM or SIGINT

systemd is told that it is ready, that its loop goes round, and that it stops.

The port is opened before anything is printed, so that a port in use is an error with a remedy.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys

import click
import uvicorn

from rmq import __version__
from rmq.console.app import make_app
from rmq.console.settings import ConsoleSettings
from rmq.errors import ConfigError
from rmq.node import service_manager

CONNECTIONS_MAX = 512  # at a time; others get 503
STOP_S = 5  # how long answers that are under way at the stop may take


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self._line = line
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            click.echo(self._line)
            sys.stdout.flush()
            service_manager.tell(service_manager.READY)
            self._watching = service_manager.watched()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._watching is not None:
            self._watching.cancel()
        service_manager.tell(service_manager.STOPPING)
        await super().shutdown(sockets)


def serve(settings: ConsoleSettings) -> None:
    """Serves until a signal. ConfigError: it cannot listen there, or the certificate cannot be
    read."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("rmq.console").setLevel(logging.INFO)
    listening = listen(settings)
    scheme = "https" if settings.certificate is not None else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    where = f"{scheme}://{host}:{listening.getsockname()[1]}"
    mode = ", read-only" if settings.read_only else ""
    line = f"rmq {__version__} console is ready: {where}, name servers {settings.namesrv}{mode}"
    config = server_config(settings)
    try:
        config.load()
    except OSError as error:  # SSLError is a subclass
        raise ConfigError(f"--https-cert {settings.certificate}: {error}") from None
    # When uvicorn has stopped, it sends the process once more the signal that stopped it; these
    # handlers ignore that, so that the process does not end by it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with listening:
        _Server(config, line).run([listening])


def server_config(settings: ConsoleSettings) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(settings), log_config=None, access_log=False, server_header=False,
        proxy_headers=False, limit_concurrency=CONNECTIONS_MAX, timeout_graceful_shutdown=STOP_S,
        ssl_certfile=settings.certificate, ssl_keyfile=settings.key,
    )  # fmt: skip


def listen(settings: ConsoleSettings) -> socket.socket:
    """The listening socket. Its connections inherit TCP_NODELAY: an answer is two writes, and
    without it the second would wait up to 40 ms until the browser's kernel acknowledges the
    first."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        made = socket.create_server((settings.host, settings.port), family=family, backlog=128)
    except OSError as error:
        raise ConfigError(
            f"--listen {settings.host}:{settings.port}: {error.strerror}; name another port"
        ) from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
