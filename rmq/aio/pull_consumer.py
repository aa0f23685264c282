"""PullConsumer of rmq.aio: waits for messages in the event loop, not in a thread.

    async with PullConsumer("invoices", namesrv_addr="127.0.0.1:9876") as consumer:
        await consumer.subscribe("orders")
        for message in await consumer.poll(1_000): ...
        async for message in consumer: ...

Messages that were pulled ahead are returned at once; the thread that receives new ones wakes the
loop. Methods that ask brokers (subscribe, seek, commit, ..) run in a thread of the executor. The
parts of a poll that may wait, making connections and commits, are left to a thread of the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cext.client.message import MessageExt
from rmq.aio.base import LoopConsumer, threaded
from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.parameters import PullConsumerParameters
from rmq.client.parameters.parameter_help import documented
from rmq.client.pull.consumer import PullConsumerImpl
from rmq.errors import ClosedError
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from rmq.client.parameters.keywords import PullConsumerKeywords


@documented(PullConsumerParameters)
class PullConsumer(LoopConsumer[PullConsumerImpl]):
    """The same as rmq.PullConsumer, used in one event loop."""

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PullConsumerParameters | None = None,
        **changes: Unpack[PullConsumerKeywords],
    ) -> None:
        super().__init__(PullConsumerImpl(consumer_group, parameters=parameters, **changes))

    # ---- life

    async def start(self) -> Self:
        """Connects; an `async with` does this."""
        await super().start()
        self._client.wake_by(self._wake())
        return self

    async def close(self) -> None:
        """Commits (with auto_commit) what poll has returned, and leaves the group."""
        await super().close()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await threaded(self._client.close, finished=kind is None)

    # ---- what is read

    async def assign(
        self, queues: Iterable[MessageQueue], tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Reads exactly these queues, each from the offset that the group has committed."""
        await threaded(self._client.assign, list(queues), tags, sql=sql)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._client.assignment()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic."""
        return await threaded(self._client.queues, topic)

    # ---- messages

    async def poll(
        self, timeout_ms: float | None = None, max_messages: int = 1_000
    ) -> list[MessageExt]:
        """Returns up to max_messages of the messages that were pulled ahead. If there are none, it
        waits for some, at most timeout_ms (by default poll_timeout_millis)."""
        loop = asyncio.get_running_loop()
        if timeout_ms is None:
            timeout_ms = self._client.parameters.poll_timeout_millis
        until = loop.time() + timeout_ms / 1000
        while True:
            self._news.clear()
            found = self._client.poll(0, max_messages)
            left = until - loop.time()
            if found or left <= 0:
                return found
            await self._wait_for_news(left)

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        """Yields messages one by one until the consumer is closed."""
        while True:
            try:
                found = await self.poll(None, 1)
            except ClosedError:
                return
            for message in found:
                yield message

    async def pause(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """Makes poll return nothing from these queues until they are resumed."""
        await threaded(self._client.pause, queues)

    async def resume(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """Makes poll return messages of these queues again."""
        await threaded(self._client.resume, queues)

    def paused(self) -> list[MessageQueue]:
        """The queues that are paused."""
        return self._client.paused()

    # ---- offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Makes poll go on at this offset of the queue. ConfigError: no queue can have it."""
        await threaded(self._client.seek, queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Makes poll go on at the queue's first message."""
        await threaded(self._client.seek_to_begin, queue)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Makes poll go on behind the message that is now the queue's last one."""
        await threaded(self._client.seek_to_end, queue)

    async def seek_to_time(self, queue: MessageQueue, timestamp: Any) -> None:
        """Makes poll go on at the first message stored at or after a time (ms since 1970, or a
        datetime)."""
        await threaded(self._client.seek_to_time, queue, timestamp)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp: Any) -> int:
        """The offset of the first message stored at or after a time; the queue's end if there is
        none."""
        return await threaded(self._client.offset_for_timestamp, queue, timestamp)

    async def position(self, queue: MessageQueue) -> int:
        """The offset of the next message of this queue that poll returns."""
        return await threaded(self._client.position, queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has committed for this queue; None if it never committed."""
        return await threaded(self._client.committed, queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commits these offsets, or by default the position behind what poll has returned so far.
        Returns when the brokers have answered. ConfigError: no queue can have one of the offsets,
        and nothing is committed. Whether a queue is that long is not asked: a group that goes on
        beyond the end of a queue begins at the end."""
        await threaded(self._client.commit, offsets)
