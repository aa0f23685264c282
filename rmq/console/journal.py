"""Journal: what users do with the console, in its log: logins, changes, refusals.

    did(request, "Topic t was created.")            alice from 10.0.0.1: Topic t was created.
    failed(request, "/topic/delete", error)         alice from 10.0.0.1: /topic/delete failed: ..
    refused(request, text)                          nobody from 10.0.0.9: refused /topic/delete: ..

The audit log of brokers has the console's address for all users; the journal has the browser's
address (behind a proxy that of the proxy). When a user is refused again and again, for example by a
page that draws itself anew, there is one line in ten seconds for each change, and one for all other
paths together. Line breaks in names are replaced, so that an entry is always one line.
"""

from __future__ import annotations

import logging

from starlette.requests import Request

from rmq.base.rate_limited_log import RateLimitedLog
from rmq.console.sessions import Session
from rmq.operations.texts import printable

log = logging.getLogger("rmq.console")
quiet = RateLimitedLog(log)
TEXT_MAX = 1000  # characters
NAME_MAX = 100


def did(request: Request, text: str) -> None:
    log.info("%s: %s", _asker(request), _line(text))


def failed(request: Request, what: str, reason: object) -> None:
    log.warning("%s: %s failed: %s", _asker(request), _line(what, NAME_MAX), _line(str(reason)))


def refused(request: Request, reason: str) -> None:
    """Logs a request that was refused."""
    who, path = _asker(request), request.scope["path"]
    # Other paths share one key: strangers choose them, and could fill the log with many paths.
    key = f"{who} {path if path in request.state.console.changes else ''}"
    path = _line(path, NAME_MAX)
    quiet.warning(key, "%s: refused %s: %s", who, path, _line(reason))


def origin(request: Request) -> str:
    """The address that the request comes from."""
    return request.client.host if request.client is not None else ""


def _asker(request: Request) -> str:
    session: Session | None = request.state.session
    name = "nobody" if session is None else session.name or "who has the console's password"
    return f"{_line(name, NAME_MAX)} from {origin(request)}"


def _line(text: str, length: int = TEXT_MAX) -> str:
    return printable(text[:length])
