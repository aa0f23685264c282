"""LoopClient: what the clients of rmq.aio have in common: an object that does the work, and a loop.

Each corresponds to a client of rmq, and holds the same object as that one (rmq/client/threaded).
Calls that may block (starting, closing, questions to brokers) run in threads of the loop's
executor; messages and answers that arrive wake the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.threaded.base import ClientImpl, ConsumerImpl
from rmq.errors import not_copied

if TYPE_CHECKING:
    from typing_extensions import Self

R = TypeVar("R")


async def threaded(function: Callable[..., R], *arguments: Any, **named: Any) -> R:
    """Calls the function in a thread, with the caller's context variables, and returns its
    result."""
    return await asyncio.to_thread(function, *arguments, **named)


C = TypeVar("C", bound=ClientImpl)
M = TypeVar("M", bound=ConsumerImpl)


class LoopClient(Generic[C]):
    """A client that is used in one event loop; it starts once and closes once."""

    def __init__(self, client: C) -> None:
        self._client = client

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "start one in each process, from its parameters")

    async def start(self) -> Self:
        """Connects; an `async with` does this. If it is cancelled, the client is closed."""
        starting = asyncio.ensure_future(threaded(self._client.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._undo(starting)))
            raise
        return self

    async def _undo(self, starting: asyncio.Future[object]) -> None:
        """Closes the client once its start has returned, because a thread cannot be cancelled."""
        await asyncio.wait([starting])
        await threaded(self._client.close)

    async def close(self) -> None:
        """Ends what is under way, and unregisters from the brokers."""
        await threaded(self._client.close)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client; ClosedError before start and after close."""
        return self._client.client_id


class LoopConsumer(LoopClient[M]):
    """A consumer in an event loop."""

    def __init__(self, client: M) -> None:
        super().__init__(client)
        self._news = asyncio.Event()  # set when messages may be there

    def _wake(self) -> Callable[[], None]:
        """Returns a function by which other threads set the event in this loop."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._news.set)

        return wake

    async def _wait_for_news(self, timeout_s: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s)

    async def subscribe(
        self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Subscribes to the topic's messages with one of the tags ("a || b"), or to those for
        which the SQL92 expression is true."""
        await threaded(self._client.subscribe, topic, tags, sql=sql)

    async def unsubscribe(self, topic: str) -> None:
        """Ends the subscription of this topic."""
        await threaded(self._client.unsubscribe, topic)
