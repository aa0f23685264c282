"""ProducerImpl: the work of a producer; users call it by rmq.Producer and rmq.aio.Producer.

Plain asynchronous sends are made in cext/client alone (sender, target). Everything else is in parts
of its own: targets.py (which queue), attempts.py (tries at other brokers), synchronous_sends.py
(sends that wait, batches), hooked_sends.py (with a hook, TLS or tracing), requests.py, recall.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from cext.client.message import Message, MessageExt
from cext.client.result import SendResult
from cext.client.sender import monotonic_ms
from cext.client.target import Target, TopicQueues
from rmq.base import clock, waits
from rmq.client.connection.instance import ClientInstance
from rmq.client.parameters import ProducerParameters
from rmq.client.producer.attempts import Attempts
from rmq.client.producer.base import NO_MORE, Chosen, Completion, ProducerBase
from rmq.client.producer.deferred_completions import DeferredCompletions
from rmq.client.producer.delayed_retries import DelayedRetries
from rmq.client.producer.failover_grace import GRACE_MS
from rmq.client.producer.hooked_sends import HookedSends
from rmq.client.producer.recall import recall
from rmq.client.producer.requests import reply, request
from rmq.client.producer.synchronous_sends import SynchronousSends
from rmq.client.producer.targets import Selector, Targets
from rmq.client.tracer import Tracer
from rmq.codes import RequestCode
from rmq.errors import ClosedError, MessageError, UnreachableError
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import ProducerKeywords

P = TypeVar("P", bound="ProducerImpl")
BATCH_DELAY_MS, BATCH_BYTES, BATCHES_BYTES_MAX = 10, 32 << 10, 32 << 20
ASYNC_MESSAGES_MAX, ASYNC_BYTES_MAX = 65_535, 100 << 20


class ProducerImpl(ProducerBase):
    """The work of a producer; any number of threads may use it."""

    parameters: ProducerParameters

    def __init__(
        self,
        producer_group: str | None = None,
        *,
        parameters: ProducerParameters | None = None,
        **changes: Unpack[ProducerKeywords],
    ) -> None:
        """`changes` are parameters by name. ConfigError: one of them is not valid."""
        given: dict[str, Any] = {**changes}
        if producer_group is not None:
            given["producer_group"] = producer_group
        super().__init__((parameters or self._defaults()).changed(given))
        self.targets = Targets(self)
        self.hooked = HookedSends(self, self._ended)
        self.delayed_retries = DelayedRetries(self, self.targets)
        self.completions = DeferredCompletions(self)
        self.attempts = Attempts(
            self, self.targets, self.hooked, self.delayed_retries, self.completions
        )
        self._synchronous = SynchronousSends(self, self.targets, self.attempts, self.hooked)

    @staticmethod
    def _defaults() -> ProducerParameters:
        return ProducerParameters()

    # ---- life

    def start(self: P) -> P:
        """Connects. ClosedError: a closed producer does not start again."""
        if self._closed:
            raise ClosedError("the producer is closed")
        if self._instance is not None:
            return self
        instance = ClientInstance.acquire(self.parameters)
        try:
            self._connect(instance)
            if self._closed:  # by another thread meanwhile, which saw nothing to close yet
                raise ClosedError("the producer is closed")
            for topic in self.parameters.topics:
                self.targets.find(topic)
        except BaseException:
            self.close()
            raise
        return self

    def _connect(self, instance: ClientInstance) -> None:
        given = self.parameters
        self._instance = self._started_with = instance
        self.connect_sender(instance.engine, instance.callbacks)
        self.timeout_ms = given.send_msg_timeout
        self.retries = given.retry_times_when_send_async_failed
        self.compress_from = min(given.compress_msg_body_over_howmuch, 0xFFFFFFFF)
        self.body_max = min(given.max_message_size, 0xFFFFFFFF)
        self.batching = given.auto_batch
        delay = given.batch_max_delay_ms
        self.linger_us = 1000 * (delay if delay >= 0 else BATCH_DELAY_MS)
        self.batch_bytes = given.batch_max_bytes if given.batch_max_bytes > 0 else BATCH_BYTES
        self.messages_max, self.bytes_max = ASYNC_MESSAGES_MAX, ASYNC_BYTES_MAX
        if given.enable_backpressure_for_async_mode:
            self.messages_max = max(given.back_pressure_for_async_send_num, 1)
            self.bytes_max = max(given.back_pressure_for_async_send_size, 1)
        elif given.auto_batch:
            total = given.total_batch_max_bytes
            self.bytes_max = total if total > 0 else BATCHES_BYTES_MAX
        self.tracks_latency = given.send_latency_enable
        self.retries_not_stored = given.retry_another_broker_when_not_store_ok
        self.direct = given.hook is None and not given.use_tls and not given.enable_trace
        if given.enable_trace:
            self.hooked.tracer = Tracer(instance, given)
        instance.heartbeats.add_producer(self.group, self)
        self.targets.watch(instance)

    def close(self) -> None:
        """Sends what was gathered, waits for sends under way, and unregisters from the brokers."""
        self._closed = True
        self.direct = False
        if self.is_forked:
            self._instance = None  # sends under way belong to the parent process
            return
        if self.is_open:
            self.delayed_retries.wait(clock.monotonic() + GRACE_MS / 1000)
        self.delayed_retries.close()
        self.completions.close()
        instance, self._instance = self._instance, None
        if instance is None:
            return
        if self.engine.is_running:
            self._drain(self.parameters.send_msg_timeout)
        if self.hooked.tracer is not None:
            self.hooked.tracer.close()
        self.targets.unwatch(instance)
        instance.heartbeats.remove_producer(self.group, self)
        instance.release()

    def _drain(self, timeout_ms: float) -> bool:
        until = clock.monotonic() + timeout_ms / 1000
        self.seal_batches()
        return waits.until(lambda: not self._in_flight(), until)

    def _in_flight(self) -> int:
        return self.messages_in_flight + len(self.delayed_retries) + len(self.completions)

    def flush(self, timeout_ms: float | None = None) -> bool:
        """Sends what was gathered, and waits until no send is under way. False: some still are
        after timeout_ms."""
        return self._drain(self.parameters.send_msg_timeout if timeout_ms is None else timeout_ms)

    # ---- sends

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of this topic are sent to."""
        return self.targets.listed(topic)

    def send(
        self,
        message: Message,
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Sends the message, and returns where it was stored. RemoteError or UnreachableError: no
        broker took it."""
        self._check(message)
        body, sys_flag = self.compressor.compress(message.body)
        return self._synchronous.send(message, body, sys_flag, timeout_ms, queue, selector, arg)

    def _check(self, message: Message) -> None:
        if self._instance is None:
            _ = self.instance
        if not message.body or len(message.body) > self.parameters.max_message_size:
            raise MessageError(
                f"a body of {len(message.body)} bytes: 1 to {self.parameters.max_message_size}"
            )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends without an answer: it is not known whether the message was stored. BusyError: the
        broker reads so slowly that as many bytes as asynchronous sends may have under way are
        waiting to be sent to it."""
        self._check(message)
        body, sys_flag = self.compressor.compress(message.body)
        target = self.targets.choose(message, queue, selector, arg)
        fields = self.hooked.fields(target, message, sys_flag)
        self.instance.post(
            target.address, RequestCode.SEND_MESSAGE_V2, fields, body,
            self.bytes_max, self.timeout_ms,
        )  # fmt: skip

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
    ) -> list[SendResult]:
        """Sends messages of one topic in as few requests as max_message_size allows, and returns
        one result for each, in their order. If a later request fails, the messages of the earlier
        ones are stored."""
        given = list(messages)
        for message in given:
            self._check(message)
        return self._synchronous.send_batch(given, timeout_ms, queue)

    def recall(self, topic: str, recall_handle: str) -> str:
        """Takes back a message that is delayed to a time, and returns its message id. RemoteError:
        the broker does not allow it, or it is too late."""
        return recall(self, topic, recall_handle)

    def request(self, message: Message, timeout_ms: float | None = None) -> MessageExt:
        """Sends the message and waits for a consumer's reply to it (requests.py)."""
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        return request(self, self.targets, message, timeout_ms)

    def reply(self, request: MessageExt, body: bytes) -> None:
        """Answers a message that somebody sent with `request`."""
        reply(self, request, body)

    # ---- called by the sender (cext/client/sender)

    def _find_queues(self, topic: str) -> TopicQueues:
        return self.targets.find(topic)

    def _send_otherwise(
        self,
        message: Message,
        callback: Completion,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
        timeout_ms: float | None,
    ) -> None:
        """An asynchronous send that is not plain, because of its arguments or the parameters."""
        chosen = self.chosen(message, queue, selector, arg)
        timeout = float(self.timeout_ms if timeout_ms is None else timeout_ms)
        self.attempts.begin(chosen, message, callback, timeout)

    def chosen(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, arg: Any
    ) -> Chosen:
        """Where an asynchronous send goes."""
        self._check(message)
        target = self.targets.choose(message, queue, selector, arg)
        is_free = queue is None and selector is None and not message.sharding_key
        return Chosen(target, 0 if is_free else NO_MORE)

    def send_chosen(
        self,
        message: Message,
        callback: Completion,
        chosen: Chosen,
        timeout_ms: float,
        error: UnreachableError | None = None,
    ) -> None:
        """An asynchronous send whose caller has tried to make the connection for TLS before (which
        rmq.aio does). error: it could not be made."""
        if error is None:
            self.attempts.begin(chosen, message, callback, timeout_ms)
        else:
            until_ms = monotonic_ms() + timeout_ms
            self.attempts.unreached(chosen, message, callback, error, until_ms)

    def _ended(self, target: Target, message: Message, *more: Any) -> bool:
        return self.attempts.ended(target, message, *more)

    def _batch_ended(self, target: Target, messages: list[Message], *more: Any) -> None:
        self.attempts.batch_ended(target, messages, *more)
