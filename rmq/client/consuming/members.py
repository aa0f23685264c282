"""Members: who belongs to a group, as one consumer knows it.

    members = Members(instance, "billing")
    ids, is_certain = members.of(route, silent)

A broker that was restarted knows only those that have told it anew, and the first one to do so
would take the queues of all others, and read again what they have read. So for a while after a
broker came back, members it does not know any more count as there; then `is_certain` is False, and
the caller looks again soon.
"""

from __future__ import annotations

import time

from rmq.client.connecting.instance import ClientInstance
from rmq.client.connecting.routes import Route
from rmq.client.consuming.group import members_of

RETURN_S = 5.0  # members ask a lost broker every second, and tell it of themselves then


class Members:
    """Of one consumer; one call at a time."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._before: dict[str, set[str]] = {}  # by topic

    def of(self, route: Route, silent: set[str] | None = None) -> tuple[list[str], bool]:
        """Client ids in order, and whether that is all there is to know."""
        found = set(members_of(self._instance, self._group, route, silent))
        missing = self._before.get(route.topic, set()) - found
        if self._instance.client_id not in found:
            return sorted(found), True  # the caller tells the broker first
        is_certain = (
            not missing or time.monotonic() - self._instance.heartbeats.returned_at > RETURN_S
        )
        self._before[route.topic] = found if is_certain else found | missing
        return sorted(self._before[route.topic]), is_certain
