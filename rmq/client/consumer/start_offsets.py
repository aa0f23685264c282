"""StartOffsets: asks brokers where a group goes on in its queues, all at the same time.

    offsets = StartOffsets(instance, "billing", parameters, store=None)
    offsets.ask(queue, completed)      # completed(offset, None) or (None, error), in any thread
    offsets.wait(3.0)                  # until nothing is under way

Nobody waits for an answer but who calls wait(): a silent broker holds up its own queues only. A
store that keeps the offsets instead is asked first, and has to answer at once.
Topics are named as on the wire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cext.client.reply import Reply
from rmq.base import waits
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.replicas import Purpose
from rmq.client.consumer.group import FromWhere, first_question
from rmq.client.consumer.offset_stores import OffsetStore, RemoteOffsets
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError
from rmq.format.fastjson import MessageQueue

Completion = Callable[[int | None, Exception | None], object]
Answered = Callable[[Reply], int | None]  # None: another question is under way


class StartOffsets:
    """Of one member; any thread."""

    def __init__(
        self, instance: ClientInstance, group: str, given: FromWhere, store: OffsetStore | None
    ) -> None:
        self._instance = instance
        self._group = group
        self._given = given
        self._store = None if isinstance(store, RemoteOffsets) else store
        self._news = threading.Condition()
        self._under_way = 0

    def ask(self, queue: MessageQueue, completed: Completion, first: int | None = None) -> None:
        """`first`: where a group begins that never committed; unset: as consume_from_where says."""
        end = self._begun(completed)
        if self._store is not None:
            self._ask_store(self._store, queue, end, first)
            return

        def committed(reply: Reply) -> int | None:
            if reply.code != ResponseCode.QUERY_NOT_FOUND:
                return reply.check().int_field("offset")
            if first is None:
                self._first(queue, lambda last: self._at_last(queue, last, end), end)
            return first

        self._ask_committed(queue, committed, end)

    def _ask_committed(self, queue: MessageQueue, answered: Answered, end: Completion) -> None:
        fields = {"consumerGroup": self._group, "topic": queue.topic, "queueId": queue.queue_id}
        self._submit(queue, RequestCode.QUERY_CONSUMER_OFFSET, fields, answered, end)

    def _at_last(self, queue: MessageQueue, last: int, end: Completion) -> int | None:
        """A broker has groups begin a young queue at 0. Where it was empty a moment ago and is not
        any more, what has come between the two questions would be passed over."""
        if last == 0:
            return last

        def committed(reply: Reply) -> int:
            if reply.code == ResponseCode.QUERY_NOT_FOUND:
                return last
            return reply.check().int_field("offset")

        self._ask_committed(queue, committed, end)
        return None

    def _ask_store(
        self, store: OffsetStore, queue: MessageQueue, end: Completion, first: int | None
    ) -> None:
        try:
            found = store.read(queue)
        except RmqError as error:
            end(None, error)
            return
        if found is None or found < 0:
            found = first
        if found is None:
            self._first(queue, lambda last: last, end)
        else:
            end(found, None)

    def wait(self, timeout_s: float) -> None:
        with self._news:
            waits.wait_for(self._news, lambda: self._under_way == 0, timeout_s)

    def _begun(self, completed: Completion) -> Completion:
        with self._news:
            self._under_way += 1

        def end(offset: int | None, error: Exception | None) -> None:
            try:
                completed(offset, error)
            finally:
                with self._news:
                    self._under_way -= 1
                    self._news.notify_all()

        return end

    def _first(
        self, queue: MessageQueue, at_last: Callable[[int], int | None], end: Completion
    ) -> None:
        """at_last: what follows where it is the end of the queue that is asked for."""
        code, more = first_question(self._given)

        def found(reply: Reply) -> int | None:
            offset = reply.check().int_field("offset")
            return at_last(offset) if code == RequestCode.GET_MAX_OFFSET else offset

        fields = {"topic": queue.topic, "queueId": queue.queue_id, **more}
        self._submit(queue, code, fields, found, end)

    def _submit(
        self,
        queue: MessageQueue,
        code: int,
        fields: dict[str, Any],
        answered: Answered,
        end: Completion,
    ) -> None:
        def completed(reply: Reply | None, error: Exception | None) -> None:
            if reply is None:
                end(None, error or RemoteError(ResponseCode.SYSTEM_ERROR, "no answer"))
                return
            try:
                offset = answered(reply)
            except RmqError as problem:
                end(None, problem)
                return
            if offset is not None:
                end(offset, None)

        try:
            address = self._instance.routes.address_of(queue.broker_name, Purpose.STATE)
            timeout_ms = self._instance.parameters.mq_client_api_timeout
            self._instance.submit(address, code, fields, b"", timeout_ms, completed)
        except Exception as error:  # a hook's, too: whoever asked asks again
            end(None, error)
