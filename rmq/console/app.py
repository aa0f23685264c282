"""App: the console as an ASGI application: its pages behind the gate.

app = make_app(ConsoleSettings("127.0.0.1:9876"))
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rmq.console.console import Console
from rmq.console.errors import on_http_error, on_rmq_error
from rmq.console.gate import Gate
from rmq.console.login import Login
from rmq.console.page import HERE
from rmq.console.routes import CHANGES, ROUTES
from rmq.console.settings import ConsoleSettings
from rmq.errors import RmqError


def make_app(settings: ConsoleSettings) -> Starlette:
    console = Console(settings)
    console.changes = frozenset(change.path for change in CHANGES)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(console.watch())
        try:
            yield
        finally:
            watch.cancel()
            console.close()

    routes: list[Route | Mount] = [
        *(Route(path, endpoint, methods=["GET"]) for path, endpoint in ROUTES.items()),
        *(change.route() for change in CHANGES),
        *Login().routes(),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gate, console=console)],
        exception_handlers={RmqError: on_rmq_error, HTTPException: on_http_error},
        lifespan=lifespan,
    )
