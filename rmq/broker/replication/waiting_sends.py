"""Waiting sends: sends that come to a new master before it can promise what they ask for.

    sends.begin(1.0)           from now on sends come here, for at most a second
    sends.add(run)             returns an awaitable reply: that of run(), which is called at the end
    sends.end()                the core takes sends again, and the waiting ones run in their order

A broker that was just made master has no lease for some milliseconds, and no slave in sync for
0.1 s to 0.3 s: each slave must find it, and be taken into the sync state set. If sends were refused
meanwhile, RocketMQ's client would use up all its tries within a few milliseconds.

Changes of tables, whose answers promise the same, also wait here until they can be promised.

The reactor stops reading from a client whose send is here
(cext/flow/send/pending_topic_sends.pxd).

Example: broker 2 leads epoch 5 alone, two are needed. 64 sends wait here; 0.2 s later 3 is in sync,
and all are stored, in their order.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from rmq.base.clock import monotonic

T = TypeVar("T")

log = logging.getLogger("rmq.broker.waiting_sends")


class WaitingSends:
    """Owned by the control thread."""

    def __init__(self) -> None:
        self.is_on = False
        self.changed: Callable[[], None] = lambda: None  # called when is_on has changed
        self._waiting: list[_Send[Any]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0

    def begin(self, most_s: float) -> None:
        """Lets sends wait from now on, for at most so long; may be called again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(most_s, self.end)
        self.is_on = True
        self._began = monotonic()

    def end(self) -> None:
        if not self.is_on:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.is_on = False
        try:
            self.changed()
        finally:  # even after an error no send may wait for ever
            self._let_go()

    def add(self, run: Callable[[], T | Awaitable[T]]) -> Awaitable[T]:
        send = _Send(run)
        self._waiting.append(send)
        return send

    def _let_go(self) -> None:
        """Runs all waiting sends at once, not one by one on the loop, so that later sends of the
        same clients come after them."""
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            send.go()
        if waiting:
            ms = (monotonic() - self._began) * 1000
            log.info("%d sends and changes waited for a new master, up to %d ms", len(waiting), ms)


class _Send(Generic[T]):
    """The awaitable of one send: the dispatcher awaits it, or closes it if it will not answer."""

    def __init__(self, run: Callable[[], T | Awaitable[T]]) -> None:
        self._run = run
        self._ran: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def go(self) -> None:
        if self._ran.done():  # nobody waits for the reply any more
            return
        try:
            self._ran.set_result(self._run())
        except Exception as error:
            self._ran.set_exception(error)

    def close(self) -> None:
        self._ran.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        result = yield from self._ran.__await__()
        if inspect.isawaitable(result):
            result = yield from result.__await__()
        return result  # type: ignore[no-any-return]
