"""Producer: sends messages; TransactionProducer is in rmq/client/producing/transaction.py.

    with Producer("orders-service", namesrv_addr="127.0.0.1:9876") as producer:
        result = producer.send(Message("orders", b"paid", tags="card", keys="42"))
        producer.send_async(message, lambda result, error: ...)      # or .result() of its Future
        producer.send_oneway(message)
        results = producer.send_batch([message, ...])

Which queue: in turn; by the message's sharding_key (equal keys, one queue, kept order); by
`selector(queues, message, arg)`; or the `queue` given. A send that a broker could not take, or that
got no answer because its connection broke, is tried again on another broker where there is one
(retry_times_when_send_failed); so a message may be stored twice, with the same message_id. A send
that got no answer in time is not tried again.

With a hook or TLS, or for a message that needs it (delayed, packed, chosen queue), a send takes a
slower way through this module; the plain ones never leave cext/client/sender.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from cext.client.message import Message, MessageExt, encoded_properties
from cext.client.reply import Reply
from cext.client.result import SendResult, send_result
from cext.client.sender import (
    Sender,
    SendWaiter,
    Target,
    TopicQueues,
    batch_item_bytes,
    check_topic,
    may_gather,
    monotonic_ms,
)
from rmq.client.connecting.instance import ClientInstance
from rmq.client.connecting.lifetime import not_open, shown
from rmq.client.connecting.namespaces import unwrap, wrap, wrap_group
from rmq.client.connecting.routes import Route
from rmq.client.parameters import ProducerParameters
from rmq.client.producing.faults import BrokerFaults
from rmq.client.producing.packing import Packer
from rmq.client.tracer import DELAYED, HALF, NORMAL, Tracer
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import (
    ClosedError,
    MessageError,
    RemoteError,
    RequestTimeoutError,
    RmqError,
    RouteError,
    UnreachableError,
)
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import ProducerKeywords

log = logging.getLogger("rmq.client")

Selector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
Told = Any  # a callback(result, error), a Future, a SendWaiter, or None
P = TypeVar("P", bound="Producer")
TRY_ELSEWHERE = {1, 2, 14, 16, 17, 204, 205, 1500}
BATCH_DELAY_MS, BATCH_BYTES, BATCHES_BYTES_MAX = 10, 32 << 10, 32 << 20
ASYNC_MESSAGES_MAX, ASYNC_BYTES_MAX = 65_535, 100 << 20


def _check_queue(queue: Any, message: Message) -> None:
    if not isinstance(queue, MessageQueue):
        raise MessageError(f"a MessageQueue is wanted, one of queues(topic), not {queue!r}")
    if queue.topic != message.topic:
        raise MessageError(f"a message of topic {message.topic} for a queue of {queue.topic}")


class Producer(Sender):
    """Sends messages of one group; any number of threads may use it."""

    parameters: ProducerParameters

    def __init__(
        self,
        producer_group: str | None = None,
        *,
        parameters: ProducerParameters | None = None,
        **changes: Unpack[ProducerKeywords],
    ) -> None:
        """`changes` are parameters by name (docs/client-parameters.md)."""
        given: dict[str, Any] = {**changes}
        if producer_group is not None:
            given["producer_group"] = producer_group
        self.parameters = (parameters or self._defaults()).changed(given)
        self.group = wrap_group(self.parameters.namespace, self.parameters.producer_group)
        self.faults = BrokerFaults()
        self._packer = Packer(self.parameters)
        self._tracer: Tracer | None = None
        self._instance: ClientInstance | None = None
        self._closed = False
        self._turns = itertools.count(random.getrandbits(16))

    @staticmethod
    def _defaults() -> ProducerParameters:
        return ProducerParameters()

    # ---- life

    @property
    def instance(self) -> ClientInstance:
        if self._instance is None:
            raise not_open("producer", is_closed=self._closed)
        return self._instance

    @property
    def client_id(self) -> str:
        return self.instance.client_id

    def start(self: P) -> P:
        """Connects; a `with` does it. A closed producer does not start again."""
        if self._closed:
            raise ClosedError("the producer is closed")
        if self._instance is not None:
            return self
        instance = ClientInstance.acquire(self.parameters)
        try:
            self._connect(instance)
            for topic in self.parameters.topics:
                self._find_queues(topic)
        except BaseException:
            self.close()
            raise
        return self

    def _connect(self, instance: ClientInstance) -> None:
        given = self.parameters
        self._instance = instance
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
        self.direct = given.rpc_hook is None and not given.use_tls and not given.enable_trace
        if given.enable_trace:
            self._tracer = Tracer(instance, given)
        instance.add_producer(self.group, self)
        instance.watch_routes(self._route_changed)
        if given.start_detector_enable:
            instance.timers.every(given.detect_interval, self._probe_avoided, chore=True)

    def close(self) -> None:
        """Sends what was gathered, waits for what is under way, and takes leave of the brokers."""
        self._closed = True
        self.direct = False
        instance, self._instance = self._instance, None
        if instance is None:
            return
        if self.engine.is_running:
            self._drain(self.parameters.send_msg_timeout)
        if self._tracer is not None:
            self._tracer.close()
        instance.unwatch_routes(self._route_changed)
        instance.remove_producer(self.group)
        instance.release()

    def _drain(self, timeout_ms: float) -> bool:
        until = time.monotonic() + timeout_ms / 1000
        self.seal_batches()
        while self.messages_under_way and time.monotonic() < until:
            time.sleep(0.002)
        return not self.messages_under_way

    def flush(self, timeout_ms: float | None = None) -> bool:
        """Sends what was gathered and waits until nothing is under way; whether that came."""
        return self._drain(self.parameters.send_msg_timeout if timeout_ms is None else timeout_ms)

    def __repr__(self) -> str:
        is_open = self._instance is not None
        return shown(self, self.group, is_open=is_open, is_closed=self._closed)

    def __enter__(self: P) -> P:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- queues

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues messages of this topic are sent to."""
        return [
            MessageQueue(topic, each.broker_name, each.queue_id)
            for each in self._topic_queues(topic).targets
        ]

    def _topic_queues(self, topic: str) -> TopicQueues:
        found = self.topics.get(topic)
        return found if found is not None else self._find_queues(topic)

    def _find_queues(self, topic: str) -> TopicQueues:
        instance = self.instance
        name = wrap(self.parameters.namespace, topic)
        check_topic(name)
        instance.want_route(name)
        try:
            route = instance.route(name)
            queues = route.writable()
        except RouteError as error:
            try:
                route = instance.route(self.parameters.create_topic_key)
            except RouteError:
                raise error from None
            counts = {each.broker_name: min(each.read_queues,
                                            self.parameters.default_topic_queue_nums)
                      for each in route.entries}  # fmt: skip
            queues = [each._replace(topic=name) for each in route.writable()
                      if each.queue_id < counts[each.broker_name]]  # fmt: skip
        if not queues:
            raise RouteError(ResponseCode.NO_PERMISSION, f"no queue of {topic} is writable")
        fields = {
            "a": self.group, "c": self.parameters.create_topic_key,
            "d": self.parameters.default_topic_queue_nums, "k": self.parameters.unit_mode,
        }  # fmt: skip
        targets = []
        for queue in queues:
            address = instance.address_of(queue.broker_name)
            link = instance.link(address)
            targets.append(
                Target(self, name, topic, queue.broker_name, address, queue.queue_id, link, fields)
            )
        found = self.topics[topic] = TopicQueues(targets, route, next(self._turns) & 0xFFFF)
        return found

    def _route_changed(self, name: str, route: Route) -> None:
        """Queues are made anew; what old ones have gathered is sent when its time has come."""
        topic = unwrap(self.parameters.namespace, name)
        known = self.topics.get(topic)
        if known is not None and known.route != route:
            try:
                self._find_queues(topic)
            except RmqError as error:
                log.warning("queues of %s: %s", topic, error)

    def _look_again(self, topic: str) -> None:
        """After a failure that a changed route may explain."""
        with contextlib.suppress(RmqError):
            self.instance.route(wrap(self.parameters.namespace, topic), refresh=True)

    def _usable(self) -> Callable[[str], bool] | None:
        return self.faults.is_usable if self.tracks_latency else None

    def _choose(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
        avoid: str | None = None,
    ) -> Target:
        queues = self._topic_queues(message.topic)
        key = message.sharding_key
        if queue is None and selector is None and key is None:
            return queues.choose(avoid, self._usable())
        if queue is None and selector is not None:
            queue = selector(self.queues(message.topic), message, arg)
            if queue is None:
                raise MessageError("the selector chose no queue")
        if queue is not None:
            _check_queue(queue, message)
        if queue is None:
            import mmh3

            return queues.targets[mmh3.hash(key or "", signed=False) % len(queues.targets)]
        for target in queues.targets:
            if (target.broker_name, target.queue_id) == (queue.broker_name, queue.queue_id):
                return target
        raise RemoteError(
            ResponseCode.INVALID_PARAMETER,
            f"topic {message.topic} has no queue {queue.queue_id} on broker {queue.broker_name}",
        )

    def _probe_avoided(self) -> None:
        for name in self.faults.avoided():
            try:
                address = self.instance.address_of(name)
                self.instance.ask(
                    address, RequestCode.GET_MAX_OFFSET, {"topic": "SELF_TEST_TOPIC", "queueId": 0},
                    timeout_ms=self.parameters.detect_timeout,
                )  # fmt: skip
                self.faults.forgive(name)
            except RmqError:
                continue

    # ---- sends that wait

    def send(
        self,
        message: Message,
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Where the message was stored; RemoteError or UnreachableError when no broker took it."""
        self._check(message)
        body, sys_flag = self._packer.pack(message.body)
        return self._send(message, body, sys_flag, timeout_ms, queue, selector, arg)

    def _check(self, message: Message) -> None:
        if self._instance is None:
            _ = self.instance
        if not message.body or len(message.body) > self.parameters.max_message_size:
            raise MessageError(
                f"a body of {len(message.body)} bytes: 1 to {self.parameters.max_message_size}"
            )

    def _send(
        self,
        message: Message,
        body: bytes,
        sys_flag: int,
        timeout_ms: float | None,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
    ) -> SendResult:
        until = monotonic_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms)
        fixed = queue is not None or selector is not None or message.sharding_key is not None
        tries = 1 + (0 if fixed else self.parameters.retry_times_when_send_failed)
        avoid: str | None = None
        stored: SendResult | None = None
        failure: RmqError | None = None
        for attempt in range(tries):
            left = until - monotonic_ms()
            if attempt and left <= 0:
                break
            target = self._choose(message, queue, selector, arg, avoid)
            began = monotonic_ms()
            try:
                result = self._send_once(target, message, body, sys_flag, left, attempt)
            except (RemoteError, UnreachableError) as error:
                self._note(target, monotonic_ms() - began, isinstance(error, UnreachableError))
                failure = error
                if not self._may_retry(error) or attempt + 1 == tries:
                    break
                self._look_again(message.topic)
            else:
                self._note(target, monotonic_ms() - began, False)
                if result.is_ok or not self.retries_not_stored:
                    return result
                stored = result
            avoid = target.broker_name
        if stored is not None:
            return stored
        assert failure is not None
        raise failure

    def _may_retry(self, error: Exception) -> bool:
        if isinstance(error, RequestTimeoutError):
            return self.parameters.send_msg_max_timeout_per_request > 0
        if isinstance(error, RemoteError):
            return error.code in TRY_ELSEWHERE
        return isinstance(error, UnreachableError)

    def _note(self, target: Target, latency_ms: float, isolated: bool) -> None:
        if self.tracks_latency:
            self.faults.note(target.broker_name, latency_ms, isolated)

    def _send_once(
        self, target: Target, message: Message, body: bytes, sys_flag: int, left_ms: float,
        attempt: int,
    ) -> SendResult:  # fmt: skip
        limit = self.parameters.send_msg_max_timeout_per_request
        left_ms = max(min(left_ms, limit) if limit > 0 else left_ms, 1)
        waiter, mailbox = SendWaiter(), self.engine.own_mailbox()
        if self.direct:
            self.submit_to(target, message, body, sys_flag, waiter, left_ms, 255, mailbox)
        else:
            self._send_general(target, message, body, sys_flag, waiter, left_ms, 255, mailbox)
        result: SendResult = self.await_send(waiter, mailbox)
        return result

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends without an answer: nobody knows whether it was stored."""
        self._check(message)
        body, sys_flag = self._packer.pack(message.body)
        target = self._choose(message, queue, selector, arg)
        fields = self._fields(target, message, sys_flag)
        self.instance.post(target.address, RequestCode.SEND_MESSAGE_V2, fields, body)

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout_ms: float | None = None,
        queue: MessageQueue | None = None,
    ) -> list[SendResult]:
        """Stores messages of one topic, as few requests as max_message_size allows; one result
        each, in order. When a later part fails, the earlier ones are stored."""
        given = list(messages)
        for message in given:
            self._check(message)
            if message.topic != given[0].topic or not may_gather(message):
                raise MessageError(
                    "a batch holds messages of one topic, none delayed or in a transaction, all "
                    "with wait_store_msg_ok"
                )
        results: list[SendResult] = []
        for part in self._parts(given):
            if len(part) == 1:
                results.append(self.send(part[0], timeout_ms=timeout_ms, queue=queue))
            else:
                results += self._send_part(part, timeout_ms, queue)
        return results

    def _parts(self, messages: list[Message]) -> Iterable[list[Message]]:
        part: list[Message] = []
        size = 0
        for message in messages:
            need = batch_item_bytes(message)
            if part and size + need > self.parameters.max_message_size:
                yield part
                part, size = [], 0
            part.append(message)
            size += need
        if part:
            yield part

    def _send_part(
        self, part: list[Message], timeout_ms: float | None, queue: MessageQueue | None
    ) -> list[SendResult]:
        until = monotonic_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms)
        tries = 1 + (self.parameters.retry_times_when_send_failed if queue is None else 0)
        avoid: str | None = None
        for attempt in range(tries):
            target = self._choose(part[0], queue, None, None, avoid)
            waiter, mailbox = SendWaiter(), self.engine.own_mailbox()
            self._redial(target)
            left = max(until - monotonic_ms(), 1)
            if self.parameters.rpc_hook is not None:
                return [self.send(each, timeout_ms=left, queue=queue) for each in part]
            self.submit_batch_to(target, part, None, waiter, left, 255, mailbox)
            try:
                results: list[SendResult] = self.await_send(waiter, mailbox)
                return results
            except (RemoteError, UnreachableError) as error:
                last = attempt + 1 == tries or monotonic_ms() >= until
                if last or not self._may_retry(error):
                    raise
                avoid = target.broker_name
                self._look_again(part[0].topic)
        raise AssertionError("the last attempt returns or raises")

    # ---- the slower way of asynchronous sends

    def _send_otherwise(
        self,
        message: Message,
        callback: Told,
        queue: MessageQueue | None,
        selector: Selector | None,
        arg: Any,
        timeout_ms: float | None,
    ) -> None:
        self._check(message)
        target = self._choose(message, queue, selector, arg)
        timeout = float(self.timeout_ms if timeout_ms is None else timeout_ms)
        # A chosen queue is kept: 255 tries are behind it.
        attempts = 0 if queue is None and selector is None and not message.sharding_key else 255
        self._submit(target, message, callback, timeout, attempts)

    def _submit(
        self, target: Target, message: Message, callback: Told, timeout_ms: float, attempts: int
    ) -> None:
        body, sys_flag = self._packer.pack(message.body)
        if self.direct:
            gathered = sys_flag == 0 and attempts == 0
            self.submit_to(
                target, message, body, sys_flag, callback, timeout_ms, attempts, None, gathered
            )
        else:
            self._send_general(target, message, body, sys_flag, callback, timeout_ms, attempts)

    def _redial(self, target: Target) -> None:
        if self.parameters.use_tls:
            self.instance.link(target.address)

    def _fields(self, target: Target, message: Message, sys_flag: int) -> dict[str, Any]:
        """The header of a single send, by letter."""
        return {
            "a": self.group, "b": target.topic, "c": self.parameters.create_topic_key,
            "d": self.parameters.default_topic_queue_nums, "e": target.queue_id, "f": sys_flag,
            "g": int(time.time() * 1000), "h": message.flag,
            "i": encoded_properties(message).decode(), "j": 0, "k": self.parameters.unit_mode,
            "m": False, "n": target.broker_name,
        }  # fmt: skip

    def _send_general(
        self,
        target: Target,
        message: Message,
        body: bytes,
        sys_flag: int,
        callback: Told,
        timeout_ms: float,
        attempts: int,
        mailbox: Any = None,
    ) -> None:
        """A send with a dict of fields, as hooks want it."""
        until, began = monotonic_ms() + timeout_ms, monotonic_ms()
        fields = self._fields(target, message, sys_flag)
        code = RequestCode.SEND_MESSAGE_V2

        def done(reply: Reply | None, error: Exception | None) -> None:
            result: SendResult | None = None
            if reply is not None:
                if reply.code == 0 or 10 <= reply.code <= 12:
                    result = send_result(reply, target.shown, target.broker_name, message)
                else:
                    error = RemoteError(reply.code, reply.remark or "no reason given")
            took = monotonic_ms() - began
            if self._tracer is not None:
                self._trace(target, message, result, took)
            late = isinstance(error, RequestTimeoutError)
            if not self._ended(target, message, callback, result, error, attempts, until * 1000,
                               late, took):  # fmt: skip
                self.tell_callback(callback, result, error)

        self.instance.submit(
            target.address, code, fields, body, max(int(timeout_ms), 1), done,
            mailbox or self.mailbox,
        )  # fmt: skip

    def _trace(
        self, target: Target, message: Message, result: SendResult | None, took: float
    ) -> None:
        assert self._tracer is not None
        kind = HALF if message.get_property("TRAN_MSG") == "true" else NORMAL
        if message.delay_level:
            kind = DELAYED
        self._tracer.sent(
            self.group, message, target.address, took,
            result.offset_message_id if result else "", result is not None,
            result.region_id if result else None, kind,
        )  # fmt: skip

    # ---- ends that the sender cannot tell by itself

    def _ended(
        self,
        target: Target,
        message: Message,
        callback: Told,
        result: SendResult | None,
        error: Exception | None,
        attempts: int,
        deadline_us: float,
        late: bool,
        ms: float,
    ) -> bool:
        """Notes how the broker did; True when the message is on its way to another one."""
        if attempts < 255:
            self._note(target, ms, isinstance(error, UnreachableError))
        if not self._again(result, error, attempts, late):
            return False
        left = deadline_us / 1000 - monotonic_ms()
        if left <= 0:
            return False
        try:
            following = self._topic_queues(message.topic).choose(target.broker_name, self._usable())
            self._submit(following, message, callback, left, attempts + 1)
        except RmqError:
            return False
        return True

    def _again(
        self, result: SendResult | None, error: Exception | None, attempts: int, late: bool
    ) -> bool:
        if attempts >= self.retries or late or self._instance is None:
            return False
        if error is None:
            return self.retries_not_stored and result is not None and not result.is_ok
        return self._may_retry(error)

    def _batch_ended(
        self,
        target: Target,
        messages: list[Message],
        callbacks: list[Any],
        callback: Any,
        results: list[SendResult] | None,
        error: Exception | None,
        attempts: int,
        deadline_us: int,
        late: bool,
        ms: float,
    ) -> None:
        if attempts < 255:
            self._note(target, ms, isinstance(error, UnreachableError))
        left = deadline_us / 1000 - monotonic_ms()
        if left > 0 and self._again(results[0] if results else None, error, attempts, late):
            try:
                following = self._topic_queues(messages[0].topic).choose(
                    target.broker_name, self._usable()
                )
                self.submit_batch_to(following, messages, callbacks, callback, left, attempts + 1)
                return
            except RmqError:
                pass
        if callback is not None:
            self.tell_callback(callback, results, error)
        for i, each in enumerate(callbacks):
            self.tell_callback(each, None if results is None else results[i], error)

    # ---- others

    def recall(self, topic: str, recall_handle: str) -> str:
        """Takes a message back that is delayed to a time; its message id. RemoteError when the
        broker does not allow it, or it is too late."""
        import base64

        try:
            words = base64.urlsafe_b64decode(recall_handle).decode().split(" ")
            broker_name = words[2]
        except (ValueError, IndexError):
            raise MessageError(f"not a recall handle: {recall_handle[:80]!r}") from None
        name = wrap(self.parameters.namespace, topic)
        fields = {"producerGroup": self.group, "topic": name, "recallHandle": recall_handle,
                  "bname": broker_name}  # fmt: skip
        address = self.instance.address_of(broker_name)
        reply = self.instance.call(address, RequestCode.RECALL_MESSAGE, fields)
        return reply.fields.get("msgId", "")

    def request(self, message: Message, timeout_ms: float | None = None) -> MessageExt:
        """Sends the message and waits for a consumer's reply to it (requests.py)."""
        from rmq.client.producing.requests import request

        return request(self, message, self.timeout_ms if timeout_ms is None else timeout_ms)

    def reply(self, request: MessageExt, body: bytes) -> None:
        """Answers a message that somebody sent with `request`."""
        from rmq.client.producing.requests import reply

        reply(self, request, body)
