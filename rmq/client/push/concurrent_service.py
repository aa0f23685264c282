"""ConcurrentService: calls a listener with batches in any order, one call in each thread.

The messages of a batch that failed are sent back one by one to their broker, which copies each to
the group's retry topic with a delay. A message that cannot be sent back is tried again here after
5 s. Messages whose call takes longer than consume_timeout are sent back as well, and the result of
that call does not count when it ends. Broadcasting consumers drop messages that failed or whose
call takes so long.
"""

from __future__ import annotations

import functools
import logging
from typing import Protocol

from cext.client.message import MessageExt
from rmq.base import clock
from rmq.client.connection.timers import Timers
from rmq.client.connection.workers import Workers
from rmq.client.consumer import listener
from rmq.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    Listen,
)
from rmq.client.parameters.consumer import BROADCASTING, PushConsumerParameters
from rmq.client.push.listener_call import CallOwner, ListenerCall
from rmq.client.push.process_queue import Batch, ProcessQueue
from rmq.client.push.pulls import PushPulls
from rmq.client.push.send_back import SendBack

log = logging.getLogger("rmq.client")

AGAIN_MS = 5_000
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
EXPIRED_MOST, EXPIRED_DELAY_LEVEL = 16, 3  # batches of one queue at a time; their delay level


class ServiceOwner(CallOwner, Protocol):
    """What a service that calls the listener needs of the consumer."""

    @property
    def parameters(self) -> PushConsumerParameters: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def sender(self) -> SendBack: ...

    def process_queues(self) -> list[ProcessQueue]:
        """The queues that the consumer reads now."""


class ConcurrentService:
    """The calls of one consumer's listener, in any order."""

    is_orderly = False

    def __init__(
        self, consumer: ServiceOwner, listen: Listen, timers: Timers, pulls: PushPulls
    ) -> None:
        self._consumer = consumer
        self._pulls = pulls
        self.listen = listen
        minutes = max(consumer.parameters.consume_timeout, 1)
        self._timers = timers
        self._cleaning = self._timers.every(
            minutes * 60_000, lambda: self.clean_expired(minutes * 60.0), chore=True
        )

    def close(self) -> None:
        self._cleaning.cancel()

    def take(
        self, queue: ProcessQueue, messages: list[MessageExt], following: int, bytes_: int
    ) -> None:
        """Takes the messages of a pull, and has the listener called with them."""
        most = self._consumer.parameters.consume_message_batch_max_size
        for batch in queue.put_batches(messages, following, bytes_, most):
            self._consumer.workers.submit(functools.partial(self._consume, batch))

    def call(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> tuple[ConsumeConcurrentlyStatus | None, BaseException | None]:
        """Returns the listener's status; None if it raised, with the exception."""
        return listener.call(self.listen, messages, context, SUCCESS)

    def _consume(self, batch: Batch) -> None:
        queue, consumer = batch.queue, self._consumer
        if not queue.begun(batch):
            return
        messages = batch.messages
        context = ConsumeConcurrentlyContext(queue.queue)
        call = ListenerCall(consumer, self.listen, queue.queue, messages, context, SUCCESS)
        failed: list[MessageExt] = []
        if call.status is not SUCCESS:
            failed = messages
        elif context.ack_index < len(messages) - 1:
            failed = messages[max(context.ack_index, -1) + 1 :]
        call.settled(len(failed))
        left = self._fail(batch, failed, context) if failed else None
        if queue.ended(batch, left):
            self._pulls.go_on(queue)
        if left:
            again = functools.partial(self._consume, batch)
            self._timers.after(AGAIN_MS, lambda: consumer.workers.submit(again))

    def _fail(
        self, batch: Batch, failed: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> list[MessageExt]:
        """Sends failed messages back. Returns those that could not be sent, to be tried again
        here."""
        if self._consumer.parameters.message_model == BROADCASTING:
            log.warning("%d messages of %s failed and are dropped", len(failed), batch.queue.queue)
            return []
        if batch.queue.released or batch.done:
            return []  # they are delivered again elsewhere
        left = []
        level = context.delay_level_when_next_consume
        for message in failed:
            if not self._consumer.sender.send_back(message, level):
                message.reconsume_times += 1
                left.append(message)
        return left

    def clean_expired(self, timeout_s: float) -> None:
        """Sends back the messages of calls that have lasted longer than timeout_s."""
        is_broadcast = self._consumer.parameters.message_model == BROADCASTING
        for queue in self._consumer.process_queues():
            for batch in queue.expired(clock.monotonic() - timeout_s, EXPIRED_MOST):
                end = "dropped" if is_broadcast else "sent back"
                log.warning("no end in sight for %s: %s", batch.messages[0], end)
                sent = [is_broadcast or self._consumer.sender.send_back(each, EXPIRED_DELAY_LEVEL)
                        for each in batch.messages]  # fmt: skip
                if all(sent) and queue.forget(batch):
                    self._pulls.go_on(queue)
