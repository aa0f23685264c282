"""PushConsumer of rmq.aio: calls a coroutine function with messages, in the event loop.

    async def bill(messages, context): ...

    async with PushConsumer("billing", bill, namesrv_addr="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders")
        await stop.wait()

Up to consume_thread_min calls are under way at once. For each of them one of the consumer's threads
waits for its end and then does the rest (sending back, locks, offsets). A listener that is not a
coroutine function is called in these threads, as rmq.PushConsumer does.
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
from rmq.client.parameters.parameter_help import documented
from rmq.client.push.consumer import PushConsumerImpl
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rmq.client.parameters.keywords import PushConsumerKeywords


# During a listener's call: the thread of the consumer that waits for the end of this call.
_waits: ContextVar[threading.Thread | None] = ContextVar("rmq_waits", default=None)


@documented(PushConsumerParameters)
class PushConsumer(LoopConsumer[PushConsumerImpl]):
    """The same as rmq.PushConsumer, used in one event loop."""

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
        """Connects; an `async with` does this."""
        given = self._client.parameters
        listen = function_of(given.message_listener)
        if is_coroutine(listen):
            loop = asyncio.get_running_loop()
            given.message_listener = functools.partial(_in_loop, loop, listen)
        return await super().start()

    async def close(self) -> None:
        """Ends pulls, waits for calls of the listener under way, commits, and leaves the group. If
        the listener itself calls close, its own call is not waited for."""
        await threaded(self._client.close, own=_waits.get())

    # ---- what is read

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now, without those of its retry topics. Queue id -1
        stands for all queues of a topic at one broker, which this and other members pop."""
        return self._client.assignment()

    def suspend(self) -> None:
        """Stops pulling. Messages that were already pulled are still given to the listener."""
        self._client.suspend()

    async def resume(self) -> None:
        """Pulls again after suspend."""
        await threaded(self._client.resume)

    def update_core_pool_size(self, count: int) -> None:
        """Sets how many calls of the listener may be under way at once, at most
        consume_thread_max. The number never gets smaller."""
        self._client.update_core_pool_size(count)

    async def commit(self) -> None:
        """Commits now how far the listener is in each queue, and returns when brokers have
        answered; this also happens every 5 s by itself."""
        await threaded(self._client.commit, wait=True)


def _in_loop(loop: asyncio.AbstractEventLoop, listen: Listen, messages: Any, context: Any) -> Any:
    thread = threading.current_thread()

    async def call() -> Any:
        _waits.set(thread)
        return await listen(messages, context)

    return asyncio.run_coroutine_threadsafe(call(), loop).result()
