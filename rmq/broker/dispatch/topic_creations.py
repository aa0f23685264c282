"""Topic creations: topics that are made as they are needed: for sends, which wait, and the core.

    await creations.wait(request, TopicConfig("t"))     "t" is made, then the frame goes back
    creations.want("t", 4)                              the core asks until "t" is there

Many sends to a new topic wait for one creation; when it fails, each is refused with its error, and
they go back in their order. The core wants a topic that its messages go to and that is not there:
that of delayed and timed ones was deleted, the retry topic of popped ones is new.
"""

import asyncio
import logging
from collections.abc import Awaitable

import msgspec

from rmq import names
from rmq.base.background_tasks import BackgroundTasks
from rmq.broker.core_seam import ConnectionCalls
from rmq.broker.dispatch.request import Reply, Request
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.limits import TOPIC_QUEUES_MAX

log = logging.getLogger("rmq.broker.topic_creations")


class _Waiting(msgspec.Struct, frozen=True):
    request: Request
    done: asyncio.Future[Reply]
    rest: tuple[TopicConfig, ...]  # to be created afterwards


class TopicCreations:
    """Owned by the control thread."""

    def __init__(self, topics: TopicTable, core: ConnectionCalls) -> None:
        self._topics = topics
        self._core = core
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks = BackgroundTasks()
        self._wanted: dict[str, asyncio.Task[None]] = {}  # by the core

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
        self._tasks.start(self._create(config))

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

    # ---- what the core wants

    def want(self, topic: str, queues: int) -> None:
        """Makes it with so many queues, unless it is being made for the core; whether it is there
        then the core sees by itself."""
        if topic in self._wanted:
            return
        if names.topic_fault(topic) or not 0 < queues <= TOPIC_QUEUES_MAX:
            log.error("messages wait for topic %.300r, queue %d: no legal place", topic, queues - 1)
            return
        task = asyncio.get_running_loop().create_task(self._make_wanted(topic, queues))
        self._wanted[topic] = task
        task.add_done_callback(lambda _: self._wanted.pop(topic, None))

    async def _make_wanted(self, topic: str, queues: int) -> None:
        try:
            await self._topics.create(TopicConfig(topic, queues, queues))
        except Exception as error:
            log.error("topic %s, which messages wait for, cannot be made: %r", topic, error)

    def stop(self) -> None:
        """Nothing more is made for the core."""
        for task in self._wanted.values():
            task.cancel()
