"""Pending changes: changes that were described and wait for a confirmation.

    number = pending.put(cookie, "/topic/delete", values)
    values = pending.take(cookie, "/topic/delete", number)      once; None: it is not there any more

The values stay in the console, and the browser gets only a number: so exactly what the page has
described is done. The values belong to that browser, and are forgotten after WAIT_S.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.base import clock

WAIT_S = 600.0
PENDING_MAX = 32  # each may be as large as a form

Values = Mapping[str, Any]


class _Pending(msgspec.Struct):
    cookie: str
    path: str
    values: Values
    until: float


class PendingChanges:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, _Pending] = OrderedDict()

    def put(self, cookie: str, path: str, values: Values) -> str:
        number = secrets.token_urlsafe(16)
        self._waiting[number] = _Pending(cookie, path, values, clock.monotonic() + WAIT_S)
        while len(self._waiting) > PENDING_MAX:
            self._waiting.popitem(last=False)
        return number

    def take(self, cookie: str, path: str, number: str) -> Values | None:
        found = self._waiting.pop(number, None)
        if found is None or clock.monotonic() > found.until:
            return None
        if found.cookie != cookie or found.path != path:
            return None
        return found.values
