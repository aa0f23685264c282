"""Served broker: the one that serves now; another one takes its place when its log is cut.

    served = ServedBroker(broker, stop)
    await served.start()
    ..                          broker.replication asks for a cut: truncation.py
    await served.stop()

A truncation that fails after it was begun ends the process (`stop` is set, and stop() raises): the
next start finishes it.

Example: a slave whose log ends at 9000 finds at its new master that they parted at 8700: 50 ms
later a broker on the same core and port serves, and its log ends at 8700.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rmq.broker.broker import Broker
from rmq.broker.replication.controlled_replication import ControlledReplication
from rmq.errors import StoreError
from rmq.node.truncation import truncate

log = logging.getLogger("rmq.node.served_broker")


class ServedBroker:
    """Owned by the event loop of its process."""

    def __init__(
        self, broker: Broker, stop: asyncio.Event, prepare: Callable[[Broker], None] | None = None
    ) -> None:
        """prepare: called with each broker before it starts."""
        self.broker = broker
        self._stop = stop
        self._prepare = prepare
        self._cutting: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._failure: BaseException | None = None

    async def start(self) -> None:
        self._make_ready(self.broker)
        await self.broker.start()

    def _make_ready(self, broker: Broker) -> None:
        if self._prepare is not None:
            self._prepare(broker)
        if isinstance(broker.replication, ControlledReplication):
            broker.replication.cut = self._cut

    def _cut(self, point: int) -> None:
        if self._is_stopping or (self._cutting is not None and not self._cutting.done()):
            return  # the next start, or the next broker, asks again
        self._cutting = asyncio.get_running_loop().create_task(self._truncate(point))

    async def _truncate(self, point: int) -> None:
        try:
            self.broker = await truncate(self.broker, point, self._make_ready)
        except Exception as error:
            log.critical("the log cannot be cut at %d: %s; the next start goes on with it", point,
                         error, exc_info=not isinstance(error, StoreError))  # fmt: skip
            self._failure = error
            self._stop.set()

    async def stop(self) -> None:
        self._is_stopping = True
        if self._cutting is not None:
            await asyncio.gather(self._cutting, return_exceptions=True)
        if self._failure is not None:
            raise StoreError(f"a truncation of the log failed: {self._failure}")
        await self.broker.stop()
