"""OrderlyService: calls a listener for one batch of a queue at a time, in the queue's order.

In clustering a queue is consumed only while this client holds the queue's lock at the broker. If
the lock is lost, or was not renewed in time, the client gives the queue up, asks for the lock
again, and then begins where the group has committed. A queue that another member must get is given
up in this order: no new call begins, the call under way ends, progress is committed, the lock is
given back. Only then can the other member begin, so calls for a queue never overlap.

A batch that must be tried again suspends its queue for suspend_current_queue_time_millis. A message
can fail for good only if max_reconsume_times is set: then it goes to the dead letters.
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

TURN_S = 60.0  # after which other queues have a turn
SUSPEND_MS_MIN, SUSPEND_MS_MAX = 10, 30_000

SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
COMMIT = ConsumeOrderlyStatus.COMMIT
ROLLBACK = ConsumeOrderlyStatus.ROLLBACK


class OrderlyOwner(ServiceOwner, Protocol):
    """What calls in order need of the consumer."""

    @property
    def is_closing(self) -> bool: ...

    def lock_is_lost(self, queue: ProcessQueue) -> None:
        """Gives the queue up, because another member may have its lock, and asks for it again."""

    def let_go(self, queue: ProcessQueue) -> None:
        """The last call of a queue that was lost has ended."""


class OrderlyService:
    """The calls of one consumer's listener, in the order of each queue."""

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
        """Takes the messages of a pull, and has the listener called with them."""
        if queue.put_messages(messages, following, bytes_):
            self._soon(queue)

    def _soon(self, queue: ProcessQueue) -> None:
        self._consumer.workers.submit(functools.partial(self._run, queue))

    def call(
        self, messages: list[MessageExt], context: ConsumeOrderlyContext
    ) -> tuple[ConsumeOrderlyStatus | None, BaseException | None]:
        """Returns the listener's status; None if it raised, with the exception."""
        return listener.call(self.listen, messages, context, SUCCESS)

    def _run(self, queue: ProcessQueue) -> None:
        with queue.consume_lock:
            pause_ms = self._turn(queue)
        if queue.dropped:
            self._consumer.let_go(queue)
        elif pause_ms is not None:
            self._timers.after(pause_ms, lambda: self._soon(queue))

    def _turn(self, queue: ProcessQueue) -> int | None:
        """Calls the listener with the messages of the queue. Returns the pause in ms after which to
        go on; None: go on when more messages come."""
        consumer = self._consumer
        until = clock.monotonic() + TURN_S
        while not queue.dropped and not consumer.is_closing:
            if self._wants_locks and not queue.holds_lock():
                consumer.lock_is_lost(queue)
                continue  # the queue is dropped now, or its lock was renewed meanwhile
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
        """Commits the batch or puts it back, as the status says. Returns whether to go on with the
        queue at once."""
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
            return True  # SUCCESS: the messages stay in `taken` until a COMMIT
        if status is not SUCCESS:
            log.warning("%s of a listener with auto_commit counts as SUCCESS", status.name)
        self._commit(queue)
        return True

    def _commit(self, queue: ProcessQueue) -> None:
        if queue.commit():
            self._pulls.go_on(queue)

    def _come_again(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Counts the tries, and returns the messages that must be tried again. The others have
        failed for good, and were sent to the dead letters."""
        most = self._consumer.parameters.max_reconsume_times
        left = []
        for message in messages:
            is_last = most != -1 and message.reconsume_times >= most
            if is_last and self._consumer.sender.send_again(message):
                continue
            message.reconsume_times += 1
            left.append(message)
        return left
