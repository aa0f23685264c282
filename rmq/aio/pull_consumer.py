"""PullConsumer of rmq.aio: waits for messages in the event loop, not in a thread.

    async with PullConsumer("invoices", namesrv_addr="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders")
        for message in await consumer.poll(1_000): ...
        async for message in consumer: ...

Messages that were pulled ahead are handed out at once; the thread that is told of new ones wakes
the loop. What asks brokers (subscribe, seek, commit, ..) runs in a thread of the executor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from cext.client.message import MessageExt
from rmq.aio.threaded import threaded
from rmq.client.consuming.subscription import EVERYTHING
from rmq.client.parameters import PullConsumerParameters
from rmq.client.pull.consumer import PullConsumer as ThreadedPullConsumer
from rmq.errors import ClosedError, not_copied
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PullConsumerKeywords


class PullConsumer:
    """As rmq.PullConsumer; used in one event loop."""

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PullConsumerParameters | None = None,
        **changes: Unpack[PullConsumerKeywords],
    ) -> None:
        self._consumer = ThreadedPullConsumer(consumer_group, parameters=parameters, **changes)
        self._news = asyncio.Event()

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- life

    async def start(self) -> PullConsumer:
        await threaded(self._consumer.start)
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._news.set)

        self._consumer.wake_by(wake)
        return self

    async def close(self) -> None:
        """Commits (with auto_commit) what poll has returned, and leaves the group."""
        await threaded(self._consumer.close)

    async def __aenter__(self) -> PullConsumer:
        return await self.start()

    async def __aexit__(self, *reason: Any) -> None:
        await threaded(self._consumer.__exit__, *reason)

    @property
    def client_id(self) -> str:
        return self._consumer.client_id

    # ---- what is read

    async def subscribe(
        self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Shares the topic's queues with the group."""
        await threaded(self._consumer.subscribe, topic, tags, sql=sql)

    async def unsubscribe(self, topic: str) -> None:
        await threaded(self._consumer.unsubscribe, topic)

    async def assign(
        self, queues: Iterable[MessageQueue], tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Reads exactly these queues, from where the group has committed."""
        await threaded(self._consumer.assign, list(queues), tags, sql=sql)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._consumer.assignment()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic."""
        return await threaded(self._consumer.queues, topic)

    # ---- messages

    async def poll(
        self, timeout_ms: float | None = None, max_messages: int = 1_000
    ) -> list[MessageExt]:
        """What was pulled ahead, up to max_messages: at once when there is some, otherwise after
        waiting for it (poll_timeout_millis unless given)."""
        loop = asyncio.get_running_loop()
        if timeout_ms is None:
            timeout_ms = self._consumer.parameters.poll_timeout_millis
        until = loop.time() + timeout_ms / 1000
        while True:
            self._news.clear()
            found = self._consumer.poll(0, max_messages)
            left = until - loop.time()
            if found or left <= 0:
                return found
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        """Messages one by one, until it is closed."""
        while True:
            try:
                found = await self.poll(None, 1)
            except ClosedError:
                return
            for message in found:
                yield message

    async def pause(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """poll returns nothing from these queues until they are resumed."""
        await threaded(self._consumer.pause, queues)

    async def resume(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        await threaded(self._consumer.resume, queues)

    def paused(self) -> list[MessageQueue]:
        return self._consumer.paused()

    # ---- offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """poll goes on at this offset of the queue."""
        await threaded(self._consumer.seek, queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        await threaded(self._consumer.seek_to_begin, queue)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        await threaded(self._consumer.seek_to_end, queue)

    async def seek_to_time(self, queue: MessageQueue, timestamp: Any) -> None:
        """To the first message stored at or after a time (ms since 1970, or datetime)."""
        await threaded(self._consumer.seek_to_time, queue, timestamp)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp: Any) -> int:
        return await threaded(self._consumer.offset_for_timestamp, queue, timestamp)

    async def position(self, queue: MessageQueue) -> int:
        """Offset of the next message poll returns."""
        return await threaded(self._consumer.position, queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in this queue; None when it never committed."""
        return await threaded(self._consumer.committed, queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tells brokers how far the group is."""
        await threaded(self._consumer.commit, offsets)
