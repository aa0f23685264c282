"""StartOffsets: asks brokers where a group goes on in its queues, all at the same time.

    offsets = StartOffsets(instance, "billing", parameters, store=None)
    offsets.ask(queue, completed)      # completed(Start, None) or (None, error), in any thread
    offsets.wait(3.0)                  # until no question is under way

Only the caller of wait() waits for answers. A broker that does not answer holds up its own queues
only. If a broker must be connected first, a chore does it, once for all queues (request_round.py).
A store that keeps the offsets instead of brokers is asked first, and must answer at once. Topics
have their names on the wire.

Example: a group that never committed begins at the end of a queue, which is 100, and 50 messages
come. Another member that gets the queue before the first commit would begin at 150, and miss them.
A member that begins where nothing was committed (is_kept is False) therefore commits the 100. It
does so at once: later another member may already be at 180, and the 100 would send the group back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from cext.client.reply import Reply
from rmq.base import waits
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.request_round import Submit
from rmq.client.consumer.group import StartParameters, initial_offset_request
from rmq.client.consumer.offset_stores import OffsetStore, RemoteOffsets
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError, exception_of
from rmq.format.fastjson import MessageQueue


class Start(NamedTuple):
    """Where a group goes on in a queue."""

    offset: int
    is_kept: bool  # whether it is committed, so that the next member is told the same


Completion = Callable[[Start | None, Exception | None], object]
Answered = Callable[[Reply], Start | None]  # None: another question is under way


def _committed(reply: Reply) -> Start:
    """The offset that a broker names. It is 0 also for a new queue that the group has not read."""
    offset = reply.check().int_field("offset")
    return Start(offset, offset > 0)


class StartOffsets:
    """The questions of one member; any thread may use it."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        given: StartParameters,
        store: OffsetStore | None,
    ) -> None:
        self._instance = instance
        self._group = group
        self._given = given
        self._store = None if isinstance(store, RemoteOffsets) else store
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._in_flight = 0

    def ask(self, queue: MessageQueue, completed: Completion, first: int | None = None) -> None:
        """Asks where the group goes on in a queue. `first`: where a group begins that never
        committed; None: as consume_from_where says."""
        end = self._begun(completed)
        if self._store is not None:
            self._ask_store(self._store, queue, end, first)
            return

        def committed(reply: Reply) -> Start | None:
            if reply.code != ResponseCode.QUERY_NOT_FOUND:
                return _committed(reply)
            if first is not None:
                return Start(first, True)
            self._first(queue, lambda last: self._at_last(queue, last, end), end)
            return None

        self._ask_committed(queue, committed, end)

    def _ask_committed(self, queue: MessageQueue, answered: Answered, end: Completion) -> None:
        fields = {"consumerGroup": self._group, "topic": queue.topic, "queueId": queue.queue_id}
        self._submit(queue, RequestCode.QUERY_CONSUMER_OFFSET, fields, answered, end)

    def _at_last(self, queue: MessageQueue, last: int, end: Completion) -> Start | None:
        """The start at the end of the queue. A broker lets groups begin a new queue at 0. If the
        queue was empty at the first question and is not any more, the messages that have come
        meanwhile would be missed, so the first question is asked again."""
        if last == 0:
            return Start(last, False)

        def committed(reply: Reply) -> Start:
            if reply.code == ResponseCode.QUERY_NOT_FOUND:
                return Start(last, False)
            return _committed(reply)

        self._ask_committed(queue, committed, end)
        return None

    def _ask_store(
        self, store: OffsetStore, queue: MessageQueue, end: Completion, first: int | None
    ) -> None:
        try:
            found = store.read(queue)
        except BaseException as error:  # from the user's store: the caller asks again
            end(None, exception_of(error))
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise
            return
        if found is None or found < 0:
            found = first
        if found is None:
            self._first(queue, lambda last: Start(last, False), end)
        else:
            end(Start(found, True), None)

    def wait(self, timeout_s: float) -> None:
        with self._lock:
            waits.wait_for(self._news, lambda: self._in_flight == 0, timeout_s)

    def _begun(self, completed: Completion) -> Completion:
        with self._lock:
            self._in_flight += 1

        def end(start: Start | None, error: Exception | None) -> None:
            try:
                completed(start, error)
            finally:
                with self._lock:
                    self._in_flight -= 1
                    self._news.notify_all()

        return end

    def _first(
        self, queue: MessageQueue, at_last: Callable[[int], Start | None], end: Completion
    ) -> None:
        """Asks where a group begins that never committed. at_last: called with the queue's end, if
        that is where it begins."""
        code, more = initial_offset_request(self._given)

        def found(reply: Reply) -> Start | None:
            offset = reply.check().int_field("offset")
            return at_last(offset) if code == RequestCode.GET_MAX_OFFSET else Start(offset, False)

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
                start = answered(reply)
            except RmqError as problem:
                end(None, problem)
                return
            if start is not None:
                end(start, None)

        def send(submit: Submit) -> None:
            try:
                address = self._instance.routes.address_of(queue.broker_name, Purpose.STATE)
                timeout_ms = self._instance.parameters.mq_client_api_timeout
                submit(address, code, fields, b"", timeout_ms, completed)
            except BaseException as error:  # also from a hook: the caller asks again
                end(None, exception_of(error))
                if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                    raise

        self._instance.rounds.send(queue, Purpose.STATE, send)
