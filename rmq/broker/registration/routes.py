"""Routes: a topic's queues on all brokers, as the name servers have them, for assignments (400).

Consumers ask one broker for their share of the whole cluster's queues, so that broker must know the
others' queues. A route is kept for 5 s, for all who ask meanwhile. While no name server answers, or
none knows the topic, the result is None, and the broker uses its own queues.

Example: topic t with 2 queues on broker-a and 1 on broker-b: [a 0, a 1, b 0].
"""

import asyncio
import functools
import logging
from typing import Any

from rmq.base import clock
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.registration.route_lookup import first_route
from rmq.codes import PERM_READ
from rmq.config import Settings
from rmq.errors import ProtocolError, RemoteError, RmqError
from rmq.format.fastjson import MessageQueue
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import LOGIC_QUEUE_BROKER

log = logging.getLogger("rmq.broker.routes")
quiet = RateLimitedLog(log)

KEPT_S = 5.0
TOPICS_MAX = 10_000  # whose routes are kept at a time


class Routes:
    """Owned by the control thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: dict[str, tuple[float, asyncio.Task[list[MessageQueue] | None]]] = {}

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """All readable queues in order; None when nobody knows them."""
        now = clock.monotonic()
        kept = self._kept.get(topic)
        if kept is None or now - kept[0] > KEPT_S:
            if len(self._kept) >= TOPICS_MAX:
                self._kept.clear()
            task = asyncio.get_running_loop().create_task(self._ask(topic))
            kept = self._kept[topic] = (now, task)
        return await asyncio.shield(kept[1])

    async def _ask(self, topic: str) -> list[MessageQueue] | None:
        def failed(server: str, error: RmqError) -> None:
            if not isinstance(error, RemoteError):  # a RemoteError: it does not know the topic
                quiet.warning("route", "route of %s: %s", topic, error)

        read = functools.partial(read_queues, topic)
        return await first_route(self._settings.namesrvAddr, topic, read, failed)


def read_queues(topic: str, route: dict[Any, Any]) -> list[MessageQueue]:
    """The queues of a route's queueDatas; for a static topic its logical queues, as clients name
    them. ProtocolError when the route has none."""
    mappings = route.get("topicQueueMappingByBroker")
    if mappings:
        return _logic_queues(topic, mappings)
    found = []
    rows = route.get("queueDatas")
    for row in rows if isinstance(rows, list) else ():
        name = row.get("brokerName") if isinstance(row, dict) else None
        count = row.get("readQueueNums") if isinstance(row, dict) else None
        perm = row.get("perm", 0) if isinstance(row, dict) else None
        if (not isinstance(name, str) or not isinstance(count, int) or count > TOPIC_QUEUES_MAX
                or not isinstance(perm, int)):  # fmt: skip
            raise ProtocolError(f"a route with {row!r:.100}")
        if perm & PERM_READ:
            found += [MessageQueue(topic, name, queue_id) for queue_id in range(count)]
    return sorted(found)


def _logic_queues(topic: str, mappings: Any) -> list[MessageQueue]:
    try:
        _, count = max((int(row["epoch"]), int(row["totalQueues"])) for row in mappings.values())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ProtocolError(f"a route with {mappings!r:.100}") from None
    count = min(count, TOPIC_QUEUES_MAX)
    return [MessageQueue(topic, LOGIC_QUEUE_BROKER, queue_id) for queue_id in range(count)]
