"""PopService: calls a listener with popped messages in any order, one call in each thread.

Messages that were consumed are acknowledged. A message that failed becomes visible again after a
pause that grows with reconsume_times (RocketMQ's table, 10 s to 2 h), or after the pause of the
level that the context names; level -1 makes it a dead letter at once. A message that was tried
max_reconsume_times times is still tried, with longer and longer pauses, until it is four hours old;
then it is given up. Before that the group's retryMaxTimes may make it a dead letter.

If the invisible time of a batch is over before its call begins, the call is not made. If it is over
when the call ends, the result does not count. In both cases the messages are already on their way
to other consumers.
"""

from __future__ import annotations

import bisect
import functools
import logging
from collections.abc import Callable
from typing import Protocol

from cext.base import clock
from cext.client.message import MessageExt
from cext.client.reply import Reply
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.workers import Workers
from rmq.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    Listen,
)
from rmq.client.parameters.consumer import PushConsumerParameters
from rmq.client.pop.acks import Acks
from rmq.client.pop.handles import Handle
from rmq.client.push.listener_call import CallOwner, ListenerCall
from rmq.client.push.pop_queue import PopQueue
from rmq.client.push.send_back import SendBack
from rmq.codes import RequestCode, ResponseCode

log = logging.getLogger("rmq.client")

DELAYS_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
DEAD_AT_ONCE = -1
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


class PopOwner(CallOwner, Protocol):
    """What pops, and the calls for popped messages, need of the consumer."""

    @property
    def group(self) -> str: ...

    @property
    def parameters(self) -> PushConsumerParameters: ...

    @property
    def is_suspended(self) -> bool: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def sender(self) -> SendBack: ...

    @property
    def times_max(self) -> int: ...

    @property
    def listen(self) -> Listen: ...


class PopService:
    """The calls of one consumer's listener for popped messages."""

    def __init__(
        self, consumer: PopOwner, instance: ClientInstance, go_on: Callable[[PopQueue], None]
    ) -> None:
        """go_on(queue) is called when there is room for the queue's next pop."""
        self._consumer = consumer
        self._instance = instance
        self._go_on = go_on
        self._timeout_ms = consumer.parameters.mq_client_api_timeout
        self.acks = Acks(instance, consumer.group, self._timeout_ms)

    def take(self, queue: PopQueue, messages: list[MessageExt], until: float) -> None:
        """Takes the messages of a pop, which no other consumer gets before `until` (monotonic), and
        has the listener called with them."""
        most = self._consumer.parameters.consume_message_batch_max_size
        for at in range(0, len(messages), most):
            part = messages[at : at + most]
            self._consumer.workers.submit(functools.partial(self._consume, queue, part, until))

    def _consume(self, queue: PopQueue, messages: list[MessageExt], until: float) -> None:
        try:
            if queue.is_unwanted or clock.monotonic() >= until:
                log.info("%d messages of %s are left to others", len(messages), queue.queue)
            else:
                self._call(queue, messages, until)
        finally:
            if queue.done(len(messages)):
                self._go_on(queue)

    def _call(self, queue: PopQueue, messages: list[MessageExt], until: float) -> None:
        consumer = self._consumer
        context = ConsumeConcurrentlyContext(queue.queue)
        call = ListenerCall(consumer, consumer.listen, queue.queue, messages, context, SUCCESS)
        good = min(max(context.ack_index, -1) + 1, len(messages)) if call.status is SUCCESS else 0
        failed = messages[good:]
        call.settled(len(failed))
        if clock.monotonic() >= until:
            log.warning("the call for %s took longer than its invisible time", messages[0])
            return
        self.ack(queue, messages[:good])
        for message in failed:
            self._postpone(queue, message, context.delay_level_when_next_consume)

    def _handle(self, queue: PopQueue, message: MessageExt) -> Handle:
        text = message.get_property("POP_CK") or ""
        return Handle.of(text, queue.wire.topic, self._consumer.group)

    def ack(self, queue: PopQueue, messages: list[MessageExt]) -> None:
        """Acknowledges messages without waiting. A failure is logged, and the message is delivered
        again."""
        self.acks.add([self._handle(queue, each) for each in messages], _log_refusal)

    def _postpone(self, queue: PopQueue, message: MessageExt, level: int) -> None:
        if level == DEAD_AT_ONCE:
            if self._consumer.sender.send_back(message, DEAD_AT_ONCE):
                self.ack(queue, [message])
            return
        delay_s = self._delay_s(message, level)
        if delay_s is None:
            log.warning("%s was tried %d times: given up", message, message.reconsume_times)
            self.ack(queue, [message])
            return
        handle = self._handle(queue, message)
        fields = {**self.acks.fields(handle), "invisibleTime": delay_s * 1000}
        try:
            self._instance.submit(
                self._instance.routes.address_of(handle.broker_name),
                RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields, b"", self._timeout_ms, _changed,
            )  # fmt: skip
        except Exception as error:  # also from a hook: the other messages must be postponed, too
            _changed(None, error)

    def _delay_s(self, message: MessageExt, level: int) -> int | None:
        if message.reconsume_times >= self._consumer.times_max:
            age_s = clock.now_ms() / 1000 - message.born_timestamp / 1000
            if age_s > 2 * DELAYS_S[-1]:
                return None
            level = bisect.bisect_right(DELAYS_S, age_s)
        elif level <= 0:
            level = message.reconsume_times
        return DELAYS_S[min(level, len(DELAYS_S) - 1)]


def _log_refusal(error: Exception | None) -> None:
    if error is not None:
        log.warning("an ack failed, the message comes again: %s", error)


def _changed(reply: Reply | None, error: Exception | None) -> None:
    if reply is None or reply.code != ResponseCode.SUCCESS:
        log.warning("the next try comes after the invisible time: %s", error or reply)
