"""SynchronousSends: sends whose caller waits until the message is stored.

    sends = SynchronousSends(producer, targets, attempts, hooked)
    sends.send(message, body, sys_flag, timeout_ms, queue, selector, arg)     # SendResult
    sends.send_batch(messages, timeout_ms, queue)         # in as few requests as possible

All tries of a send share the time that the caller gives (attempts.py says after which failures
another broker is tried). A queue that was chosen by the user, a selector or a sharding key is kept.
If there is no other broker, the send waits for a new master (failover_grace.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cext.client.message import Message
from cext.client.result import SendResult
from cext.client.sender import may_gather, monotonic_ms
from cext.client.sends import SendWaiter
from cext.client.target import Target, batch_item_bytes
from rmq.client.producer.attempts import Attempts
from rmq.client.producer.base import NO_MORE, ProducerBase
from rmq.client.producer.failover_grace import FailoverGrace
from rmq.client.producer.hooked_sends import HookedSends
from rmq.client.producer.targets import Selector, Targets
from rmq.errors import MessageError, RemoteError, RmqError, UnreachableError
from rmq.format.fastjson import MessageQueue


class SynchronousSends:
    """The synchronous sends of one producer; any thread may use it."""

    def __init__(
        self, producer: ProducerBase, targets: Targets, attempts: Attempts, hooked: HookedSends
    ) -> None:
        self._producer = producer
        self._targets = targets
        self._attempts = attempts
        self._hooked = hooked

    def _until(self, timeout_ms: float | None) -> float:
        return monotonic_ms() + (self._producer.timeout_ms if timeout_ms is None else timeout_ms)

    # ---- one message

    def send(
        self,
        message: Message,
        body: bytes,
        sys_flag: int,
        timeout_ms: float | None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Returns where the message was stored. `body` is what is sent, packed or not."""
        producer = self._producer
        targets, attempts = self._targets, self._attempts
        until = self._until(timeout_ms)
        fixed = queue is not None or selector is not None or message.sharding_key is not None
        tries = 1 + (0 if fixed else producer.parameters.retry_times_when_send_failed)
        avoid: str | None = None
        stored: SendResult | None = None
        failure: RmqError | None = None
        grace = FailoverGrace(targets, until if tries > 1 else 0.0)
        while tries > 0:
            left = until - monotonic_ms()
            if failure is not None and left <= 0:
                break
            target = targets.choose(message, queue, selector, arg, avoid)
            began = monotonic_ms()
            try:
                result = self._once(target, message, body, sys_flag, left)
            except (RemoteError, UnreachableError) as error:
                targets.note(target, monotonic_ms() - began, error)
                failure = error
                if not attempts.may_retry(error):
                    break
                tries -= not grace.waited(target, error)
                if tries > 0:
                    targets.look_again(message.topic)
            else:
                targets.note(target, monotonic_ms() - began, None)
                if result.is_ok or not producer.retries_not_stored:
                    return result
                stored = result
                tries -= 1
            avoid = target.broker_name
        if stored is not None:
            return stored
        assert failure is not None
        raise failure

    def _once(
        self, target: Target, message: Message, body: bytes, sys_flag: int, left_ms: float
    ) -> SendResult:
        producer = self._producer
        limit = producer.parameters.send_msg_max_timeout_per_request
        left_ms = max(min(left_ms, limit) if limit > 0 else left_ms, 1)
        waiter, mailbox = SendWaiter(), producer.engine.own_mailbox()
        submit = producer.submit_to if producer.direct else self._hooked.submit
        submit(target, message, body, sys_flag, waiter, left_ms, NO_MORE, mailbox)
        result: SendResult = producer.await_send(waiter, mailbox)
        return result

    # ---- batches

    def send_batch(
        self, messages: list[Message], timeout_ms: float | None, queue: MessageQueue | None
    ) -> list[SendResult]:
        """Returns one result for each message, in their order. If a later request fails, the
        messages of the earlier ones are stored."""
        for message in messages:
            if message.topic != messages[0].topic or not may_gather(message):
                raise MessageError(
                    "a batch holds messages of one topic, none delayed or in a transaction, all "
                    "with wait_store_msg_ok"
                )
        results: list[SendResult] = []
        for part in self._parts(messages):
            if len(part) == 1:
                results.append(self._send_alone(part[0], timeout_ms, queue))
            else:
                results += self._send_part(part, timeout_ms, queue)
        return results

    def _send_alone(
        self, message: Message, timeout_ms: float | None, queue: MessageQueue | None
    ) -> SendResult:
        body, sys_flag = self._producer.compressor.compress(message.body)
        return self.send(message, body, sys_flag, timeout_ms, queue)

    def _parts(self, messages: list[Message]) -> Iterable[list[Message]]:
        part: list[Message] = []
        size = 0
        for message in messages:
            need = batch_item_bytes(message)
            if part and size + need > self._producer.parameters.max_message_size:
                yield part
                part, size = [], 0
            part.append(message)
            size += need
        if part:
            yield part

    def _send_part(
        self, part: list[Message], timeout_ms: float | None, queue: MessageQueue | None
    ) -> list[SendResult]:
        producer, given = self._producer, self._producer.parameters
        until = self._until(timeout_ms)
        tries = 1 + (given.retry_times_when_send_failed if queue is None else 0)
        avoid: str | None = None
        grace = FailoverGrace(self._targets, until if tries > 1 else 0.0)
        while True:
            target = self._targets.choose(part[0], queue, avoid=avoid)
            waiter, mailbox = SendWaiter(), producer.engine.own_mailbox()
            if given.hook is not None:
                left = max(until - monotonic_ms(), 1)
                return [self._send_alone(each, left, queue) for each in part]
            try:
                if given.use_tls:
                    producer.instance.link(target.address)  # dials
                left = max(until - monotonic_ms(), 1)
                producer.submit_batch_to(target, part, None, waiter, left, NO_MORE, mailbox)
                results: list[SendResult] = producer.await_send(waiter, mailbox)
                return results
            except (RemoteError, UnreachableError) as error:
                may_retry = self._attempts.may_retry(error)
                tries -= not (may_retry and grace.waited(target, error))
                if tries == 0 or monotonic_ms() >= until or not may_retry:
                    raise
                avoid = target.broker_name
                self._targets.look_again(part[0].topic)
