"""PopConsumer of rmq.aio: takes messages for a while and acknowledges them, in the event loop.

    async with PopConsumer("billing", namesrv_addr="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders")
        for message in await consumer.poll(10_000):
            await bill(message)
            await consumer.ack(message)

Acks of coroutines that run at the same time share requests. Messages that have arrived are returned
at once. The thread that receives new messages, or the answers to acks, wakes the loop. Methods that
ask brokers and wait (subscribe, change_invisible_time, ..) run in a thread of the executor; so do
acks whose broker must be found or connected first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cext.client.message import MessageExt
from rmq.aio.base import LoopConsumer, threaded
from rmq.client.parameters import PopConsumerParameters
from rmq.client.parameters.parameter_help import documented
from rmq.client.pop.consumer import PopConsumerImpl

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rmq.client.parameters.keywords import PopConsumerKeywords


@documented(PopConsumerParameters)
class PopConsumer(LoopConsumer[PopConsumerImpl]):
    """The same as rmq.PopConsumer, used in one event loop."""

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PopConsumerParameters | None = None,
        **changes: Unpack[PopConsumerKeywords],
    ) -> None:
        super().__init__(PopConsumerImpl(consumer_group, parameters=parameters, **changes))

    # ---- life

    async def start(self) -> Self:
        """Connects; an `async with` does this."""
        self._client.wake_by(self._wake())
        return await super().start()

    async def close(self) -> None:
        """Tells brokers what was acknowledged, and leaves the group."""
        await super().close()

    # ---- messages

    async def poll(
        self,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        *,
        invisible_ms: int | None = None,
    ) -> list[MessageExt]:
        """Returns up to max_messages messages (by default pop_batch_nums), which no other consumer
        gets for invisible_ms (at least 5000; by default pop_invisible_time). Waits until there is
        one, at most timeout_ms, after which the list is empty. With timeout_ms=0 it returns what
        has already arrived, and asks brokers for more, which the next poll returns."""
        loop = asyncio.get_running_loop()
        if timeout_ms is None:
            timeout_ms = self._client.parameters.poll_timeout_millis
        until = loop.time() + timeout_ms / 1000
        has_asked = False
        while True:
            self._news.clear()
            found = self._client.take(max_messages)
            left = max(until - loop.time(), 0.0)
            if found or (has_asked and not left):
                return found
            pause = await threaded(self._client.ask, left, max_messages, invisible_ms)
            has_asked = True
            await self._wait_for_news(min(left, pause))

    async def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """Acknowledges messages, and returns when the brokers have confirmed it. Raises the first
        refusal: RemoteError when a broker no longer knows one of the deliveries."""
        loop = asyncio.get_running_loop()
        known: asyncio.Future[None] = loop.create_future()

        def end(error: Exception | None) -> None:
            if known.done():  # the coroutine that waited was cancelled
                return
            if error is None:
                known.set_result(None)
            else:
                known.set_exception(error)

        def completed(error: Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end, error)

        several = [messages] if isinstance(messages, MessageExt) else list(messages)
        try:
            if self._client.is_at_hand(several):
                self._client.ack_async(several, completed)
            else:  # a broker must be looked up first, or connected by TLS
                await threaded(self._client.ack_async, several, completed)
            await known
        finally:
            known.cancel()  # if this coroutine was cancelled: the answers are not waited for

    async def change_invisible_time(self, message: MessageExt, invisible_ms: int) -> None:
        """Makes the message visible again, to any consumer, invisible_ms from now, unless it is
        acknowledged before."""
        await threaded(self._client.change_invisible_time, message, invisible_ms)
