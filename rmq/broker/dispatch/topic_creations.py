"""Topic creations: makes topics when they are needed, for sends, which wait, and for the core.

    await creations.wait(request, TopicConfig("t"))     makes "t", then resubmits the send's frame
    creations.want("t", 4)                              makes "t", for which the core asks until it
                                                        exists

Many sends to a new topic wait for one creation. Afterwards they go back to the core in their order;
if the creation fails, each is refused with its error. The core asks for a topic that its messages
go to and that does not exist: the topic of delayed or timed messages was deleted, or the retry
topic of popped messages is new.
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
    rest: tuple[TopicConfig, ...]  # topics to be created after this one


class TopicCreations:
    """Owned by the control thread."""

    def __init__(self, topics: TopicTable, core: ConnectionCalls) -> None:
        self._topics = topics
        self._core = core
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks = BackgroundTasks()
        self._wanted: dict[str, asyncio.Task[None]] = {}  # by the core

    def is_made(self, topic: str) -> bool:
        """Whether the topic exists, also in topics.json; false after a failed write, which is
        tried again."""
        topics = self._topics
        return topic in topics and topic not in self._waiting and topics.is_registered(topic)

    def wait(self, request: Request, config: TopicConfig, *rest: TopicConfig) -> Awaitable[Reply]:
        """Lets the send wait for the creation of its topic, which the first such send starts, and
        then for the creation of the topics in `rest`."""
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
        """Makes the topic with so many queues, unless it is being made for the core already. The
        core is not told: it asks again until the topic exists."""
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
        """Stops making topics for the core."""
        for task in self._wanted.values():
            task.cancel()
