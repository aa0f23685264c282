"""Commits: tells brokers, or the store given instead, how far a pull consumer's group is.

commits.now(queue)                     # `done`, or an offset given; RmqError: it is not committed
commits.soon(queues, wait=False)       # `done` of each, if it has changed; failures are logged
commits.starts(queues)                 # where each begins, if nothing was committed since
commits.committed(queue)               # None if the group never committed
with commits.order: ...                # no other thread begins a commit meanwhile

While the master is away a slave takes offsets. They are lost when the master is back, so an offset
counts as not committed until a master has it. Offsets that a master has taken may be lost with it;
they are committed again to the broker that takes its place.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

from cext.client.reply import Reply
from rmq.base import waits
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.request_round import RequestRound, Submit
from rmq.client.consumer.offset_stores import KeptOffsets, has_another_keeper
from rmq.client.pull.pull_queue import PullQueue
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RmqError, exception_of

log = logging.getLogger("rmq.client")


class Commits:
    """The commits of one consumer; any thread may use it. `store`: None if brokers keep the
    offsets."""

    def __init__(self, instance: ClientInstance, group: str, store: KeptOffsets | None) -> None:
        self._instance = instance
        self._group = group
        self._store = store
        self.order = threading.RLock()  # keeps commits in the order in which `done` was read

    def committed(self, queue: PullQueue) -> int | None:
        if self._store is not None:
            return self._store.read(queue.wire)
        fields = {**self._fields(queue), "setZeroIfNotFound": False}
        address = self._instance.routes.address_of(queue.queue.broker_name, Purpose.STATE)
        reply = self._instance.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, fields)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return reply.check().int_field("offset")

    def now(self, queue: PullQueue, offset: int | None = None) -> None:
        """Commits an offset and waits for the answer; by default `done`, which is read only after
        the commits before, since it may have grown meanwhile."""
        with self.order:
            queue.start = None
            if offset is None:
                offset = queue.done
        if self._store is not None:
            self._store.persist({queue.wire: offset}, wait=True)
            if self._store.owes(queue.wire):
                raise RmqError(f"offset {offset} of {queue.queue} is not kept, the log says why")
            queue.committed = offset
            return
        replica = self._instance.routes.replica_of(queue.queue.broker_name, Purpose.STATE)
        fields = {**self._fields(queue), "commitOffset": offset}
        self._instance.call(replica.address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        if replica.is_master:
            queue.committed, queue.taker = offset, replica.address

    def soon(self, queues: Iterable[PullQueue], *, wait: bool) -> None:
        """Commits `done` of each queue, if it has changed. A failure is logged, and the next commit
        makes it good. wait: returns when all have been answered."""
        told: SimpleQueue[None] = SimpleQueue()
        with self.order:
            news = [(each, each.done) for each in queues if self._is_news(each)]
            self._take(news, told, wait=wait)
        if wait and self._store is None:
            timeout_s = self._instance.parameters.mq_client_api_timeout / 1000 + 1
            waits.get_all(told, len(news), timeout_s)

    def starts(self, queues: Iterable[PullQueue]) -> None:
        """Commits where each queue begins. What was consumed since then is left to ordinary
        commits."""
        with self.order:
            news = [(each, each.start) for each in queues if each.start is not None]
            self._take(news, SimpleQueue(), wait=False)

    def _take(
        self, news: list[tuple[PullQueue, int]], told: SimpleQueue[None], *, wait: bool
    ) -> None:
        for queue, _ in news:
            queue.start = None
        if self._store is None:
            submit = RequestRound(self._instance).submit
            for queue, offset in news:
                self._tell(queue, offset, told, submit)
        elif news:
            self._store.persist({queue.wire: offset for queue, offset in news}, wait=wait)
            for queue, offset in news:
                queue.committed = offset

    def _is_news(self, queue: PullQueue) -> bool:
        if queue.done < 0 or queue.done != queue.committed:
            return queue.done >= 0
        if self._store is not None:
            return self._store.owes(queue.wire)
        return has_another_keeper(self._instance, queue.queue.broker_name, queue.taker)

    def _tell(self, queue: PullQueue, offset: int, told: SimpleQueue[None], submit: Submit) -> None:
        taker: str | None = None

        def completed(reply: Reply | None, error: Exception | None) -> None:
            if reply is None or reply.code != ResponseCode.SUCCESS:
                log.warning("committing %d of %s: %s", offset, queue.queue, error or reply)
            elif taker is not None:
                queue.committed, queue.taker = offset, taker
            told.put(None)

        try:
            replica = self._instance.routes.replica_of(queue.queue.broker_name, Purpose.STATE)
            taker = replica.address if replica.is_master else None
            fields = {**self._fields(queue), "commitOffset": offset}
            timeout_ms = self._instance.parameters.mq_client_api_timeout
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            submit(replica.address, code, fields, b"", timeout_ms, completed)
        except BaseException as error:  # also from a hook: the other queues must be committed
            completed(None, exception_of(error))
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise

    def _fields(self, queue: PullQueue) -> dict[str, Any]:
        return {"consumerGroup": self._group, "topic": queue.wire_topic,
                "queueId": queue.queue.queue_id}  # fmt: skip
