"""PopConsumer of rmq.aio: takes messages for a while and acknowledges them, in the event loop.

    async with PopConsumer("billing", namesrv_addr="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders")
        for message in await consumer.poll(10_000):
            await bill(message)
            await consumer.ack(message)

Acks of coroutines that run at the same time share requests. What came is handed out at once; the
thread that is told of new messages, or of the end of acks, wakes the loop. What asks brokers and
waits (subscribe, change_invisible_time, ..) runs in a thread of the executor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from cext.client.message import MessageExt
from rmq.aio.threaded import threaded
from rmq.client.consuming.subscription import EVERYTHING
from rmq.client.parameters import PopConsumerParameters
from rmq.client.pop.consumer import PopConsumer as ThreadedPopConsumer
from rmq.errors import not_copied

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PopConsumerKeywords


class PopConsumer:
    """As rmq.PopConsumer; used in one event loop."""

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PopConsumerParameters | None = None,
        **changes: Unpack[PopConsumerKeywords],
    ) -> None:
        self._consumer = ThreadedPopConsumer(consumer_group, parameters=parameters, **changes)
        self._news = asyncio.Event()

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- life

    async def start(self) -> PopConsumer:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._news.set)

        self._consumer.wake_by(wake)
        await threaded(self._consumer.start)
        return self

    async def close(self) -> None:
        """Tells brokers what was acknowledged, and leaves the group."""
        await threaded(self._consumer.close)

    async def __aenter__(self) -> PopConsumer:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        return self._consumer.client_id

    # ---- what is read

    async def subscribe(
        self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Messages with one of the tags ("a || b"), or for which the SQL92 expression holds."""
        await threaded(self._consumer.subscribe, topic, tags, sql=sql)

    async def unsubscribe(self, topic: str) -> None:
        await threaded(self._consumer.unsubscribe, topic)

    # ---- messages

    async def poll(
        self,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        *,
        invisible_ms: int | None = None,
    ) -> list[MessageExt]:
        """Up to max_messages (pop_batch_nums unless given), which are nobody else's for
        invisible_ms (pop_invisible_time). Waits for the first one; nothing after timeout_ms."""
        loop = asyncio.get_running_loop()
        if timeout_ms is None:
            timeout_ms = self._consumer.parameters.poll_timeout_millis
        until = loop.time() + timeout_ms / 1000
        while True:
            self._news.clear()
            found = self._consumer.take(max_messages)
            left = until - loop.time()
            if found or left <= 0:
                return found
            pause = await threaded(self._consumer.ask, left, max_messages, invisible_ms)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), min(left, pause))

    async def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """They are dealt with; returns when brokers know. Raises the first refusal: RemoteError
        when a broker knows nothing of one any more."""
        loop = asyncio.get_running_loop()
        known: asyncio.Future[None] = loop.create_future()

        def end(error: Exception | None) -> None:
            if known.done():  # whoever waited was cancelled
                return
            if error is None:
                known.set_result(None)
            else:
                known.set_exception(error)

        def told(error: Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end, error)

        self._consumer.ack_async(messages, told)
        await known

    async def change_invisible_time(self, message: MessageExt, invisible_ms: int) -> None:
        """It comes again (to anyone) so long from now, unless it is acknowledged before."""
        await threaded(self._consumer.change_invisible_time, message, invisible_ms)
