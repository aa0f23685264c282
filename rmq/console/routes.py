"""Routes: every page and every change of the console, by path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from rmq.console.change import Change
from rmq.console.pages import (
    accounts,
    audit,
    brokers,
    dead_letters,
    group,
    groups,
    message,
    messages,
    overview,
    server_settings,
    topic,
    topics,
    waiting_messages,
)

Endpoint = Callable[[Request], Awaitable[Response]]
_PAGES = (accounts, audit, brokers, dead_letters, group, groups, message, messages, overview,
          server_settings, topic, topics, waiting_messages)  # fmt: skip

ROUTES: dict[str, Endpoint] = {path: each for page in _PAGES for path, each in page.ROUTES.items()}
CHANGES: tuple[Change, ...] = tuple(change for page in _PAGES for change in page.CHANGES)
