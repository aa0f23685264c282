"""PushPops: the pops of one push consumer, used if brokers assign its queues with request mode POP.

    pops = PushPops(consumer, instance)
    pops.assign("orders", subscription, queues)     # from now on these queues of the topic
    pops.go_on(queue)

It works as RocketMQ 5's push consumers do. Each assigned queue (id -1: all queues of the topic at
that broker) has one pop under way, which the broker holds while there is no message, until more
than pop_threshold_for_queue messages of the queue are in hand. Nobody owns a queue that is popped:
when it is assigned to others, this consumer pops no more from it, and still consumes what it has
popped. A consumer that closes gives nothing back: other consumers get the messages that it has in
hand when their invisible time is over.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Mapping

from cext.client.message import MessageExt
from cext.client.reply import Reply
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import unwrap
from rmq.client.connection.read_warnings import ReadWarnings
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.request_round import Submit
from rmq.client.consumer.pull_answers import SOON_PAUSE_MS, SOON_US
from rmq.client.consumer.subscription import Subscription
from rmq.client.pop.request import NOTHING, PATIENCE_MS, pop_fields, popped, without
from rmq.client.push.pop_queue import PopQueue
from rmq.client.push.pop_service import PopOwner, PopService
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RmqError, exception_of
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")

BROKER_HOLDS_MS = 15_000
FULL_PAUSE_MS = 50


class PushPops:
    """Any thread may use it, but only one thread at a time `assign` and `keep`."""

    def __init__(self, consumer: PopOwner, instance: ClientInstance) -> None:
        self._consumer = consumer
        self._given = consumer.parameters
        self._instance = instance
        self.closed = False
        self._warnings = ReadWarnings()
        self._queues: dict[MessageQueue, PopQueue] = {}
        self.service = PopService(consumer, instance, self.go_on)

    @property
    def queues(self) -> list[PopQueue]:
        return list(self._queues.values())

    def assign(
        self, topic: str, subscription: Subscription, wanted: Collection[MessageQueue]
    ) -> bool:
        """From now on pops from these queues of the topic. Returns whether that is a change."""
        mine = [each for each in self.queues if each.wire.topic == topic]
        other = [each for each in mine if each.subscription is not subscription]
        lost = [each for each in mine if each.wire not in wanted and each not in other]
        self._drop(other, is_unwanted=True)
        self._drop(lost, is_unwanted=False)
        new = [each for each in wanted if each not in self._queues]
        for wire in new:
            shown = wire._replace(topic=unwrap(self._given.namespace, topic))
            queue = self._queues[wire] = PopQueue(wire, shown, subscription)
            log.info("%s pops %s", self._instance.client_id, wire)
            self.go_on(queue)
        return bool(other or lost or new)

    def keep(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Drops the queues of topics that are no longer subscribed."""
        lost = [each for each in self.queues if each.wire.topic not in subscriptions]
        self._drop(lost, is_unwanted=True)

    def _drop(self, lost: list[PopQueue], *, is_unwanted: bool) -> None:
        for queue in lost:
            queue.is_unwanted = is_unwanted
            log.info("%s leaves %s", self._instance.client_id, queue.wire)
            queue.dropped = True
            del self._queues[queue.wire]

    def resume(self) -> None:
        for queue in self.queues:
            self.go_on(queue)

    def go_on(self, queue: PopQueue) -> None:
        """Sends the queue's next pop, unless one is under way or too many messages are in hand."""
        if self.closed or self._consumer.is_suspended:
            return
        if queue.begin(self._given.pop_threshold_for_queue):
            send = functools.partial(self._send, queue)
            self._instance.rounds.send(queue.wire, Purpose.WRITE, send)

    def _send(self, queue: PopQueue, submit: Submit) -> None:
        if queue.dropped or self.closed:
            return  # dropped or closed meanwhile
        given = self._given
        fields = pop_fields(
            self._consumer.group, given, queue.target, queue.subscription,
            most=given.pop_batch_nums, invisible_ms=given.pop_invisible_time,
            held_ms=BROKER_HOLDS_MS,
        )  # fmt: skip
        try:
            submit(
                self._instance.routes.address_of(queue.wire.broker_name), RequestCode.POP_MESSAGE,
                fields, b"", BROKER_HOLDS_MS + PATIENCE_MS, functools.partial(self._popped, queue),
            )  # fmt: skip
        except BaseException as error:  # also from a hook: the queue is popped again
            self._failed(queue, exception_of(error))
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise

    def _popped(self, queue: PopQueue, reply: Reply | None, error: Exception | None) -> None:
        if reply is None:
            self._failed(queue, error)
            return
        found: list[MessageExt] = []
        pause_ms = self._given.pull_interval
        try:
            if reply.code not in NOTHING:
                found = self._messages(queue, reply)
                until = clock.monotonic() + reply.int_field("invisibleTime") / 1000
            elif reply.code == ResponseCode.POLLING_FULL:
                pause_ms = FULL_PAUSE_MS
            elif reply.waited_us < SOON_US:
                pause_ms = SOON_PAUSE_MS
        except RmqError as problem:
            self._failed(queue, problem)
            return
        self._warnings.answered(queue.wire)
        queue.ended(len(found))
        if found:
            self.service.take(queue, found, until)
        if pause_ms:
            self._instance.timers.after(pause_ms, functools.partial(self.go_on, queue))
        else:
            self.go_on(queue)

    def _messages(self, queue: PopQueue, reply: Reply) -> list[MessageExt]:
        """The messages of an answer that the listener must get; the others are acknowledged."""
        consumer = self._consumer
        found = popped(reply.check(), queue.target, consumer.group, self._given.namespace)
        consumer.stats.pulled(queue.queue.topic, len(found), reply.waited_us / 1000)
        wanted = queue.subscription.wanted(found)
        tried_out = [each for each in wanted if each.reconsume_times > consumer.times_max]
        for message in tried_out:
            log.warning("%s was tried %d times: given up", message, message.reconsume_times)
        if tried_out:
            wanted = without(wanted, tried_out)
        self.service.ack(queue, without(found, wanted))
        return wanted

    def _failed(self, queue: PopQueue, error: Exception | None) -> None:
        queue.ended()
        if queue.dropped or self.closed:
            return
        self._warnings.failed(queue.wire, error)
        pause_ms = self._given.pull_time_delay_mills_when_exception
        self._instance.timers.after(pause_ms, functools.partial(self.go_on, queue), chore=True)
