"""Topic creations: sends that wait until their topic is there, and go back in their order.

    await creations.wait(request, TopicConfig("t"))     "t" is made, then the frame goes back

Many sends to a new topic wait for one creation; when it fails, each is refused with its error.
"""

import asyncio
from collections.abc import Awaitable

import msgspec

from rmq.broker.core_seam import ConnectionCalls
from rmq.broker.dispatch.request import Reply, Request
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable


class _Waiting(msgspec.Struct, frozen=True):
    request: Request
    done: asyncio.Future[Reply]
    rest: tuple[TopicConfig, ...]  # to be created afterwards


class TopicCreations:
    """Sends that wait for their topics. Owned by the control thread."""

    def __init__(self, topics: TopicTable, core: ConnectionCalls) -> None:
        self._topics = topics
        self._core = core
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def is_made(self, topic: str) -> bool:
        """Whether topics.json has it, too. Not so after a failed write, which is tried again."""
        topics = self._topics
        return topic in topics and topic not in self._waiting and topics.is_registered(topic)

    def wait(self, request: Request, config: TopicConfig, *rest: TopicConfig) -> Awaitable[Reply]:
        """Queues the send behind the creation of its topic, which starts when it is the first; and
        then behind that of the others."""
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._queue(config, _Waiting(request, done, rest))
        return done

    def _queue(self, config: TopicConfig, send: _Waiting) -> None:
        waiting = self._waiting.get(config.name)
        if waiting is not None:
            waiting.append(send)
            return
        self._waiting[config.name] = [send]
        task = asyncio.get_running_loop().create_task(self._create(config))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(self, config: TopicConfig) -> None:
        failure: Exception | None = None
        try:
            await self._topics.create(config)
        except Exception as error:
            failure = error
        for send in self._waiting.pop(config.name):
            if send.done.done():  # answered already: too many were waiting
                continue
            try:
                if failure is not None:
                    raise failure
                if send.rest:
                    following = _Waiting(send.request, send.done, send.rest[1:])
                    self._queue(send.rest[0], following)
                    continue
                self._core.resubmit(send.request.connection.number, send.request.frame)
                send.done.set_result(None)
            except Exception as error:
                send.done.set_exception(error)
