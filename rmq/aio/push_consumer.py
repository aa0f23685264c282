"""PushConsumer of rmq.aio: calls a coroutine function with messages, in the event loop.

    async def bill(messages, context): ...

    async with PushConsumer("billing", bill, namesrv_addr="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders")
        await stop.wait()

Up to consume_thread_min calls are under way at once; each is waited for by one of the consumer's
threads, which does the rest (sending back, locks, offsets). A listener that is no coroutine
function is called in these threads, as by rmq.PushConsumer.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rmq.aio.base import LoopConsumer, threaded
from rmq.client.consumer.listener import Listen, function_of, is_coroutine
from rmq.client.parameters.consumer import PushConsumerParameters
from rmq.client.parameters.documented import documented
from rmq.client.push.consumer import PushConsumerImpl
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rmq.client.parameters.keywords import PushConsumerKeywords


# In a listener's call: the consumer's thread that waits for its end.
_waits: ContextVar[threading.Thread | None] = ContextVar("rmq_waits", default=None)


@documented(PushConsumerParameters)
class PushConsumer(LoopConsumer[PushConsumerImpl]):
    """As rmq.PushConsumer; used in one event loop."""

    def __init__(
        self,
        consumer_group: str | None = None,
        message_listener: Any = None,
        *,
        parameters: PushConsumerParameters | None = None,
        **changes: Unpack[PushConsumerKeywords],
    ) -> None:
        super().__init__(
            PushConsumerImpl(consumer_group, message_listener, parameters=parameters, **changes)
        )

    # ---- life

    async def start(self) -> Self:
        """Connects; an `async with` does it."""
        given = self._client.parameters
        listen = function_of(given.message_listener)
        if is_coroutine(listen):
            loop = asyncio.get_running_loop()
            given.message_listener = functools.partial(_in_loop, loop, listen)
        return await super().start()

    async def close(self) -> None:
        """Ends pulls, waits for calls under way (but that of a listener that closes), commits, and
        leaves the group."""
        await threaded(self._client.close, own=_waits.get())

    # ---- what is read

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now, but those of its retry topic."""
        return self._client.assignment()

    def suspend(self) -> None:
        """No more pulls; what was pulled is dealt with."""
        self._client.suspend()

    async def resume(self) -> None:
        """Pulls go on."""
        await threaded(self._client.resume)

    def update_core_pool_size(self, count: int) -> None:
        """How many calls of the listener are under way at once; never fewer than before."""
        self._client.update_core_pool_size(count)

    async def commit(self) -> None:
        """Commits now how far the queues are; it happens every 5 s by itself."""
        await threaded(self._client.commit, wait=True)


def _in_loop(loop: asyncio.AbstractEventLoop, listen: Listen, messages: Any, context: Any) -> Any:
    thread = threading.current_thread()

    async def call() -> Any:
        _waits.set(thread)
        return await listen(messages, context)

    return asyncio.run_coroutine_threadsafe(call(), loop).result()
