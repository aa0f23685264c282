"""Expiry: silent brokers and idle connections are removed in the background.

Every `scanNotActiveBrokerInterval` (5 s) the route tables drop brokers that have been silent longer
than the timeout they had announced, and close the connections on which these had registered; idle
connections of clients are closed in the same pass. A pass that fails is logged, and the next one
runs nevertheless.

Example: a broker with heartbeatTimeoutMillis=3000 whose machine lost power is out of all routes at
most 3 s + one interval after its last heartbeat, although its connection never closed.
"""

import asyncio
import logging

from rmq.namesrv.route_tables import RouteTables
from rmq.serving.connection import Connection
from rmq.serving.listener import Listener

_log = logging.getLogger("rmq.namesrv.expiry")


def expire_once(tables: RouteTables, listener: Listener) -> None:
    for connection in tables.expire():
        if isinstance(connection, Connection):
            connection.close()
    listener.sweep()


async def expire_for_ever(tables: RouteTables, listener: Listener, interval_ms: int) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            expire_once(tables, listener)
        except Exception:
            _log.exception("a pass of the expiry failed")
