"""Calls a listener for one batch of a queue at a time, in the queue's order.

In clustering a queue is consumed only while this client holds its lock at the broker. A lock that
is lost, or was not renewed in time, ends the queue here: it is asked for anew and begins where the
group has committed. A queue that another member is to have is given up in this order: no new call,
the call under way ends, progress is committed, the lock is given back; only then can the other one
begin, so calls for a queue never overlap.

A batch that is to be tried again suspends its queue for suspend_current_queue_time_millis. Only
with max_reconsume_times set a message can fail for good: it goes to the dead letters.
"""

from __future__ import annotations

import functools
import logging
from typing import Protocol

from cext.client.message import MessageExt
from rmq.base import clock
from rmq.client.connection.timers import Timers
from rmq.client.consumer import listener
from rmq.client.consumer.listener import ConsumeOrderlyContext, ConsumeOrderlyStatus, Listen
from rmq.client.parameters.consumer import BROADCASTING
from rmq.client.push.concurrent_service import ServiceOwner
from rmq.client.push.listener_call import ListenerCall
from rmq.client.push.process_queue import ProcessQueue
from rmq.client.push.pulls import PushPulls

log = logging.getLogger("rmq.client")

TURN_S = 60.0  # then other queues have a turn
SUSPEND_MS_MIN, SUSPEND_MS_MAX = 10, 30_000

SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
COMMIT = ConsumeOrderlyStatus.COMMIT
ROLLBACK = ConsumeOrderlyStatus.ROLLBACK


class OrderlyOwner(ServiceOwner, Protocol):
    """The consumer, as calls in order need it."""

    @property
    def is_closing(self) -> bool: ...

    def lock_is_lost(self, queue: ProcessQueue) -> None:
        """Another member may have the queue: it is asked for anew."""

    def let_go(self, queue: ProcessQueue) -> None:
        """The last call of a queue that is to leave has ended."""


class OrderlyService:
    """Of one consumer."""

    is_orderly = True

    def __init__(
        self, consumer: OrderlyOwner, listen: Listen, timers: Timers, pulls: PushPulls
    ) -> None:
        self._consumer = consumer
        self._pulls = pulls
        self.listen = listen
        self._timers = timers
        self._wants_locks = consumer.parameters.message_model != BROADCASTING

    def close(self) -> None:
        pass

    def take(
        self, queue: ProcessQueue, messages: list[MessageExt], following: int, bytes_: int
    ) -> None:
        """What a pull brought."""
        if queue.put_messages(messages, following, bytes_):
            self._soon(queue)

    def _soon(self, queue: ProcessQueue) -> None:
        self._consumer.workers.submit(functools.partial(self._run, queue))

    def call(
        self, messages: list[MessageExt], context: ConsumeOrderlyContext
    ) -> tuple[ConsumeOrderlyStatus | None, BaseException | None]:
        """The listener's status; None with the exception it raised."""
        return listener.call(self.listen, messages, context, SUCCESS)

    def _run(self, queue: ProcessQueue) -> None:
        with queue.consume_lock:
            pause_ms = self._turn(queue)
        if queue.dropped:
            self._consumer.let_go(queue)
        elif pause_ms is not None:
            self._timers.after(pause_ms, lambda: self._soon(queue))

    def _turn(self, queue: ProcessQueue) -> int | None:
        """Deals with what lies here; the pause after which to go on, None: when more comes."""
        consumer = self._consumer
        until = clock.monotonic() + TURN_S
        while not queue.dropped and not consumer.is_closing:
            if self._wants_locks and not queue.holds_lock():
                consumer.lock_is_lost(queue)
                continue  # it is dropped now, or was renewed meanwhile
            if clock.monotonic() > until:
                return SUSPEND_MS_MIN
            messages = queue.take(consumer.parameters.consume_message_batch_max_size)
            if not messages:
                return None
            context = ConsumeOrderlyContext(queue.queue)
            call = ListenerCall(consumer, self.listen, queue.queue, messages, context, SUCCESS)
            call.settled(0 if call.status in (SUCCESS, COMMIT) else len(messages))
            if not self._settle(queue, messages, call.status or SUSPEND, context):
                return self._pause_ms(context)
        return None

    def _pause_ms(self, context: ConsumeOrderlyContext) -> int:
        wanted = context.suspend_current_queue_time_millis
        if wanted == -1 or not isinstance(wanted, (int, float)):  # a listener may set it to None
            wanted = self._consumer.parameters.suspend_current_queue_time_millis
        return min(max(wanted, SUSPEND_MS_MIN), SUSPEND_MS_MAX)

    def _settle(
        self,
        queue: ProcessQueue,
        messages: list[MessageExt],
        status: ConsumeOrderlyStatus,
        context: ConsumeOrderlyContext,
    ) -> bool:
        """Whether the queue goes on at once."""
        if status is SUSPEND:
            left = self._come_again(messages)
            if left:
                queue.again(messages, left)
                return False
            if context.auto_commit:
                self._commit(queue)
            return True
        if not context.auto_commit:
            if status is ROLLBACK:
                queue.again()
                return False
            if status is COMMIT:
                self._commit(queue)
            return True  # SUCCESS: stays taken until a COMMIT
        if status is not SUCCESS:
            log.warning("%s of a listener with auto_commit counts as SUCCESS", status.name)
        self._commit(queue)
        return True

    def _commit(self, queue: ProcessQueue) -> None:
        if queue.commit():
            self._pulls.go_on(queue)

    def _come_again(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Counts the tries; those that are to come again. The others have failed for good, and are
        dead letters."""
        most = self._consumer.parameters.max_reconsume_times
        left = []
        for message in messages:
            is_last = most != -1 and message.reconsume_times >= most
            if is_last and self._consumer.sender.send_again(message):
                continue
            message.reconsume_times += 1
            left.append(message)
        return left
