"""RmqInstrumentor: puts itself around what sends, polls and calls listeners.

    RmqInstrumentor().instrument()                      # providers: those of the process
    RmqInstrumentor().instrument(tracer_provider=..., meter_provider=...)
    RmqInstrumentor().uninstrument()

    send, send_async, send_oneway, send_batch, send_in_transaction      a span `send TOPIC`
    poll of pull and pop consumers that brings something                `receive TOPIC`
    a push consumer's call of its listener                              `process TOPIC`

Those of rmq.aio, too: most have the same work done. Sends of an instrumented
producer have a few microseconds of Python each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
    BaseInstrumentor,
)
from opentelemetry.instrumentation.utils import unwrap
from wrapt import wrap_function_wrapper

import rmq
from cext.client.message import MessageExt
from rmq.aio.pop_consumer import PopConsumer as LoopPopConsumer
from rmq.client.connection.namespaces import wrap
from rmq.client.connection.replicas import Purpose
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rmq.client.pop.consumer import PopConsumerImpl
from rmq.client.producer.producer import ProducerImpl
from rmq.client.producer.transaction import TransactionProducerImpl
from rmq.client.pull.consumer import PullConsumerImpl
from rmq.client.push.listener_call import ListenerCall
from rmq.telemetry.spans import Sending, Spans

REFUSED = (
    ConsumeConcurrentlyStatus.RECONSUME_LATER,
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT,
    ConsumeOrderlyStatus.ROLLBACK,
)
Arguments = tuple[Any, ...]
Named = Mapping[str, Any]
NAME = "rmq"


class RmqInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """One for the process, as OpenTelemetry's instrumentors are."""

    def instrumentation_dependencies(self) -> Collection[str]:
        return ()  # it comes with what it instruments

    def _instrument(self, **given: Any) -> None:
        tracer = trace.get_tracer(NAME, rmq.__version__, given.get("tracer_provider"))
        meter = metrics.get_meter(NAME, rmq.__version__, given.get("meter_provider"))
        wrappers = Wrappers(Spans(tracer, meter))
        for owner, name, wrapper in WRAPPED:
            wrap_function_wrapper(owner, name, partial(wrapper, wrappers))

    def _uninstrument(self, **_: Any) -> None:
        for owner, name, _wrapper in WRAPPED:
            unwrap(owner, name)


class Wrappers:
    """Each is called with what it is around: wrapper(wrapped, instance, args, kwargs)."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def send(
        self, wrapped: Callable[..., Any], producer: ProducerImpl, args: Arguments, named: Named
    ) -> Any:
        sending = self._sending(producer, _argument(args, named, "message"))
        return self._ended(sending, lambda: wrapped(*args, **named), lambda result: [result])

    def send_async(
        self, wrapped: Callable[..., Any], producer: ProducerImpl, args: Arguments, named: Named
    ) -> Any:
        message, callback = _argument(args, named, "message"), _argument(args, named, "callback", 1)
        sending = self._sending(producer, message)
        rest = {key: value for key, value in named.items() if key not in ("message", "callback")}
        told = _told(sending, callback) if callback is not None else None
        try:
            future: Future[Any] | None = wrapped(message, told, *args[2:], **rest)
        except BaseException as error:
            sending.failed(error)
            raise
        if future is not None:
            future.add_done_callback(lambda done: _settle(sending, done))
        return future

    def send_oneway(
        self, wrapped: Callable[..., Any], producer: ProducerImpl, args: Arguments, named: Named
    ) -> Any:
        sending = self._sending(producer, _argument(args, named, "message"))
        return self._ended(sending, lambda: wrapped(*args, **named), lambda _: [])

    def send_batch(
        self, wrapped: Callable[..., Any], producer: ProducerImpl, args: Arguments, named: Named
    ) -> Any:
        messages = list(_argument(args, named, "messages"))
        rest = {key: value for key, value in named.items() if key != "messages"}
        if not messages:
            return wrapped(messages, *args[1:], **rest)
        sending = self._sending(producer, *messages)
        return self._ended(sending, lambda: wrapped(messages, *args[1:], **rest), list)

    def send_in_transaction(
        self, wrapped: Callable[..., Any], producer: ProducerImpl, args: Arguments, named: Named
    ) -> Any:
        sending = self._sending(producer, _argument(args, named, "message"), is_half=True)
        with trace.use_span(sending.span, end_on_exit=False, record_exception=False):
            return self._ended(sending, lambda: wrapped(*args, **named), lambda it: [it.result])

    def poll(
        self, wrapped: Callable[..., Any], consumer: Any, args: Arguments, named: Named
    ) -> Any:
        began = time.perf_counter()
        messages = wrapped(*args, **named)
        self._polled(consumer, messages, began)
        return messages

    async def loop_poll(
        self, wrapped: Callable[..., Any], consumer: Any, args: Arguments, named: Named
    ) -> Any:
        began = time.perf_counter()
        messages = await wrapped(*args, **named)
        self._polled(consumer._client, messages, began)
        return messages

    def _polled(self, consumer: Any, messages: Any, began: float) -> None:
        if messages:
            took_s = time.perf_counter() - began
            address = read_from(consumer, messages)
            self._spans.received(consumer.group, consumer.client_id, messages, took_s, address)

    def call(
        self, wrapped: Callable[..., Any], call: ListenerCall[Any], args: Arguments, named: Named
    ) -> None:
        """Making a ListenerCall is the call."""
        consumer, messages = (
            _argument(args, named, "consumer"),
            _argument(args, named, "messages", 3),
        )
        address = read_from(consumer, messages)  # by the names that brokers know
        consumer.show(messages)
        given = consumer.group, consumer.client_id, messages, address
        with self._spans.process(*given) as processing:
            wrapped(*args, **named)
            if call.problem is not None:
                processing.failed(call.problem)
            elif call.status in REFUSED:
                processing.refused(call.status.name)

    def _sending(self, producer: ProducerImpl, *messages: Any, is_half: bool = False) -> Sending:
        address_of = partial(producer.instance.routes.known_address, purpose=Purpose.WRITE)
        given = producer.group, producer.client_id, messages, address_of
        return self._spans.send(*given, is_half=is_half)

    def _ended(
        self,
        sending: Sending,
        send: Callable[[], Any],
        results: Callable[[Any], list[Any]],
    ) -> Any:
        try:
            result = send()
        except BaseException as error:
            sending.failed(error)
            raise
        sending.stored(results(result))
        return result


# Whose, its name, and what is called in its place.
WRAPPED: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (ProducerImpl, "send", Wrappers.send),
    (ProducerImpl, "send_async", Wrappers.send_async),
    (ProducerImpl, "send_chosen", Wrappers.send_async),  # aio.Producer, by TLS
    (ProducerImpl, "send_oneway", Wrappers.send_oneway),
    (ProducerImpl, "send_batch", Wrappers.send_batch),
    (TransactionProducerImpl, "send_in_transaction", Wrappers.send_in_transaction),
    (PullConsumerImpl, "poll", Wrappers.poll),
    (PopConsumerImpl, "poll", Wrappers.poll),
    (LoopPopConsumer, "poll", Wrappers.loop_poll),
    (ListenerCall, "__init__", Wrappers.call),
)


def _argument(args: Arguments, named: Named, name: str, place: int = 0) -> Any:
    return args[place] if len(args) > place else named.get(name)


def read_from(consumer: Any, messages: Sequence[MessageExt]) -> str | None:
    """Where the messages came from; None of several brokers."""
    routes, namespace = consumer.instance.routes, consumer.parameters.namespace
    found = set()
    for queue in {each.queue for each in messages}:
        wire = queue._replace(topic=wrap(namespace, queue.topic))
        found.add(routes.known_address(wire.broker_name, Purpose.READ, wire))
    return found.pop() if len(found) == 1 else None


def _told(sending: Sending, callback: Callable[[Any, Any], object]) -> Callable[[Any, Any], object]:
    def told(result: Any, error: Exception | None) -> object:
        if error is not None:
            sending.failed(error)
        else:
            sending.stored([result])
        return callback(result, error)

    return told


def _settle(sending: Sending, done: Future[Any]) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None:
        sending.failed(error)
    else:
        sending.stored([] if done.cancelled() else [done.result()])
