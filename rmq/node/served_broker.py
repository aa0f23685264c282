"""Served broker: the broker that serves now. When its log is cut, or is to begin elsewhere, another
broker takes its place.

    served = ServedBroker(broker, stop)
    await served.start()
    ..                          broker.replication asks for a change of the log: truncation.py
    await served.stop()

A change that fails after it has begun ends the process (`stop` is set, and stop() raises): the
next start finishes the change. A stuck reactor (rmq/broker/reactor_watch.py) ends the process at
once, as a kill does, because nothing can be saved without the reactor. The reason is written to the
store and the log, if their disks answer within SAYING_S.

Example: a slave's log ends at 9000. Its new master's log is the same only up to 8700. 50 ms later
another broker serves on the same core and port, and its log ends at 8700.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from rmq.broker.reactor_watch import ReactorWatch
from rmq.broker.replication.controlled_replication import ControlledReplication
from rmq.broker.replication.replication import Replication
from rmq.errors import StoreError
from rmq.node.truncation import ReopenedBroker, begin_elsewhere, truncate


class ServableBroker(ReopenedBroker, Protocol):
    """What is used here of the broker."""

    reactor_watch: ReactorWatch
    replication: Replication


B = TypeVar("B", bound=ServableBroker)
Change = Callable[[B, int, Callable[[B], None]], Awaitable[B]]  # of truncation.py

STUCK = 1  # the process's exit code
SAYING_S = 2.0

log = logging.getLogger("rmq.node.served_broker")


class ServedBroker(Generic[B]):
    """Owned by the event loop of its process."""

    def __init__(
        self,
        broker: B,
        stop: asyncio.Event,
        prepare: Callable[[B], None] | None = None,
        started: Callable[[], None] | None = None,
        leave_reason: Callable[[str], None] = lambda _: None,
    ) -> None:
        """prepare: called with each broker before it starts.
        started: called each time a broker has started.
        leave_reason: called in another thread before a stuck reactor ends this process.
        """
        self.broker = broker
        self._stop = stop
        self._prepare = prepare
        self._started = started
        self._leave_reason = leave_reason
        self._changing: asyncio.Task[None] | None = None
        self._wanted: tuple[Change[B], int] | None = None
        self._is_stopping = False
        self._failure: BaseException | None = None

    @property
    def is_well(self) -> bool:
        return not self.broker.reactor_watch.is_stuck

    async def start(self) -> None:
        self._make_ready(self.broker)
        await self.broker.start()
        self._serves()

    def _serves(self) -> None:
        if self._started is not None:
            self._started()

    def _make_ready(self, broker: B) -> None:
        if self._prepare is not None:
            self._prepare(broker)
        if isinstance(broker.replication, ControlledReplication):
            broker.replication.truncate = partial(self._replace, truncate)
        broker.replication.begin_log = partial(self._replace, begin_elsewhere)
        broker.reactor_watch.end = self._end_process

    def _end_process(self, why: str) -> None:
        try:
            saying = threading.Thread(target=self._say_end, args=(why,), daemon=True)
            saying.start()
            saying.join(SAYING_S)
        finally:
            os._exit(STUCK)

    def _say_end(self, why: str) -> None:
        try:
            self._leave_reason(why)
        finally:
            log.critical("%s: this process ends, to be started again", why)

    def _replace(self, change: Change[B], offset: int) -> None:
        if self._is_stopping:
            return  # the next start will ask for it again
        self._wanted = change, offset
        if self._changing is None or self._changing.done():  # else: after the current one
            self._changing = asyncio.get_running_loop().create_task(self._replaced())

    async def _replaced(self) -> None:
        while self._wanted is not None and self._failure is None and not self._is_stopping:
            (change, offset), self._wanted = self._wanted, None
            await self._change(change, offset)

    async def _change(self, change: Change[B], offset: int) -> None:
        try:
            self.broker = await change(self.broker, offset, self._make_ready)
        except Exception as error:
            what = "be cut" if change is truncate else "begin"
            log.critical("the log cannot %s at %d: %s; the next start goes on with it", what,
                         offset, error, exc_info=not isinstance(error, StoreError))  # fmt: skip
            self._failure = error
            self._stop.set()
        else:
            self._serves()

    async def stop(self) -> None:
        self._is_stopping = True
        if self._changing is not None:
            await asyncio.gather(self._changing, return_exceptions=True)
        if self._failure is not None:
            raise StoreError(f"a change of the log failed: {self._failure}")
        await self.broker.stop()
