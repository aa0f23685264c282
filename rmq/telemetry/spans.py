"""Spans of sends, polls and listeners' calls, with what they measure.

    sending = spans.send(group, client_id, [message], address_of)
                                                # begins, and puts its context into the message
    sending.stored(results)                     # or sending.failed(error): it ends

    spans.received(group, client_id, messages, took_s, address)
    with spans.process(group, client_id, messages, address) as processing: ...

address, address_of(broker_name): of the broker that was asked; None where it is not known.

A send is the parent of what consumers do with its message where they are given it alone; of a
batch each message's sender is linked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from cext.client.message import Message, MessageExt
from cext.client.result import SendResult
from rmq.telemetry.attributes import (
    CLIENT_ID,
    ERROR,
    GROUP,
    Attributes,
    of_operation,
    of_received,
    of_sent,
    of_server,
    of_stored,
)
from rmq.telemetry.measures import Measures
from rmq.telemetry.propagation import extract, inject

AddressOf = Callable[[str], str | None]  # of a broker's name
LINKS_MAX = 128  # that a span of the SDK keeps unless it is told otherwise


class Spans:
    """Any thread."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self._tracer = tracer
        self._measures = Measures(meter)

    def send(
        self, group: str, client_id: str, messages: Sequence[Message], address_of: AddressOf, *,
        is_half: bool = False,
    ) -> Sending:  # fmt: skip
        """messages: at least one, all of one topic."""
        topic = messages[0].topic
        common = of_operation("send", topic, group)
        span = self._tracer.start_span(
            f"send {topic}", kind=SpanKind.PRODUCER,
            attributes={**common, CLIENT_ID: client_id, **of_sent(messages, is_half=is_half)},
        )  # fmt: skip
        context = trace.set_span_in_context(span)
        sending = Sending(span, common, len(messages), self._measures, address_of)
        try:
            for message in messages:
                inject(message, context)
        except BaseException as error:  # properties have no room for it
            sending.failed(error)
            raise
        return sending

    def received(
        self, group: str, client_id: str, messages: Sequence[MessageExt], took_s: float,
        address: str | None,
    ) -> None:  # fmt: skip
        """A poll of so long has brought these, at least one."""
        common = {
            **of_operation("receive", messages[0].topic, group), GROUP: group, **of_server(address)
        }  # fmt: skip
        span = self._tracer.start_span(
            f"receive {messages[0].topic}", kind=SpanKind.CLIENT,
            attributes={**common, **of_received(messages, client_id)},
            start_time=time.time_ns() - int(took_s * 1e9),
        )  # fmt: skip
        _link(span, messages)
        span.end()
        counts = Counter(each.topic for each in messages)
        self._measures.received(common, counts, took_s)

    @contextmanager
    def process(
        self, group: str, client_id: str, messages: Sequence[MessageExt], address: str | None
    ) -> Iterator[Processing]:
        """A listener is called with these, at least one."""
        common = {
            **of_operation("process", messages[0].topic, group), GROUP: group, **of_server(address)
        }  # fmt: skip
        processing = Processing(common)
        began = time.perf_counter()
        # The sender's context, with its baggage, where there is one sender.
        token = attach(extract(messages[0]) if len(messages) == 1 else Context())
        try:
            with self._tracer.start_as_current_span(
                f"process {messages[0].topic}", kind=SpanKind.CONSUMER,
                attributes={**common, **of_received(messages, client_id)},
            ) as span:  # fmt: skip
                if len(messages) > 1:
                    _link(span, messages)
                processing.span = span
                yield processing
        finally:
            detach(token)
        took_s = time.perf_counter() - began
        self._measures.processed(processing.common, len(messages), took_s)


class Sending:
    """One send from its beginning to its end."""

    def __init__(
        self, span: Span, common: Attributes, count: int, measures: Measures, address_of: AddressOf
    ) -> None:
        self.span = span
        self._common, self._count, self._measures = common, count, measures
        self._address_of = address_of
        self._began = time.perf_counter()

    def stored(self, results: Sequence[SendResult] = ()) -> None:
        """`results`: none of a send that nobody answers."""
        if len(results) == 1:
            self.span.set_attributes(of_stored(results[0]))
        brokers = {each.broker_name for each in results}
        if len(brokers) == 1:
            server = of_server(self._address_of(brokers.pop()))
            self.span.set_attributes(server)
            self._common.update(server)
        self._end()

    def failed(self, error: BaseException) -> None:
        _fail(self.span, self._common, error)
        self._end()

    def _end(self) -> None:
        self.span.end()
        self._measures.sent(self._common, self._count, time.perf_counter() - self._began)


class Processing:
    """One call of a listener."""

    span: Span

    def __init__(self, common: Attributes) -> None:
        self.common = common

    def failed(self, error: BaseException) -> None:
        _fail(self.span, self.common, error)

    def refused(self, status: str) -> None:
        """The listener wants the messages again."""
        self.common[ERROR] = status
        self.span.set_attribute(ERROR, status)
        self.span.set_status(Status(StatusCode.ERROR, status))


def _fail(span: Span, common: Attributes, error: BaseException) -> None:
    common[ERROR] = type(error).__qualname__
    span.set_attribute(ERROR, type(error).__qualname__)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _link(span: Span, messages: Sequence[MessageExt]) -> None:
    """To the sends of the messages, where somebody keeps it."""
    for each in messages[:LINKS_MAX] if span.is_recording() else ():
        sent = trace.get_current_span(extract(each)).get_span_context()
        if sent.is_valid:
            span.add_link(sent)
