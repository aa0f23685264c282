"""Goal: what OpenTelemetry is told of sends, polls and listeners' calls, and that a trace goes from
one to the other by the message. Method: its SDK, which keeps spans and metrics in memory, and a
broker that runs."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.certificates import Authority
from support.consuming import PARAMETERS, create
from support.scripted_cluster import Cluster, stored
from support.waiting import HANG_S, until, wait_until

from rmq import (
    LocalTransactionState,
    Message,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionListener,
    TransactionProducer,
    aio,
)
from rmq.client.producer.producer import ProducerImpl
from rmq.client.pull.consumer import PullConsumerImpl
from rmq.errors import MessageError, UnreachableError
from rmq.pytest_plugin import RunningBroker
from rmq.telemetry import RmqInstrumentor
from rmq.telemetry.instrumentor import read_from

FIRST = "CONSUME_FROM_FIRST_OFFSET"


class Told:
    """What the SDK was told."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    def spans(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name == name]

    def one(self, name: str) -> ReadableSpan:
        wait_until(lambda: self.spans(name))
        (found,) = self.spans(name)
        return found

    def points(self) -> Iterator[tuple[str, Any]]:
        """The name of the metric and the point, for all points of all metrics."""
        data = self.reader.get_metrics_data()
        assert data is not None
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        yield metric.name, point

    def counts(self, name: str) -> dict[str, float]:
        """By operation: a counter's value, or how many values a histogram got."""
        return {
            str(point.attributes["messaging.operation.name"]): getattr(
                point, "count", getattr(point, "value", None)
            )
            for metric, point in self.points() if metric == name
        }  # fmt: skip

    def servers(self) -> dict[str, set[tuple[Any, Any]]]:
        """{metric: the brokers that its points name}"""
        found: dict[str, set[tuple[Any, Any]]] = {}
        for metric, point in self.points():
            named = tuple(point.attributes.get(key) for key in ("server.address", "server.port"))
            found.setdefault(metric, set()).add(named)
        return found


def server_of(broker: RunningBroker) -> dict[str, Any]:
    """The attributes of spans and metrics that name it."""
    host, _, port = broker.broker_addr.rpartition(":")
    return {"server.address": host, "server.port": int(port)}


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    instrumentor = RmqInstrumentor()
    instrumentor.instrument(tracer_provider=made.tracers, meter_provider=made.meters)
    yield made
    instrumentor.uninstrument()


def test_a_trace_goes_from_the_send_to_the_listener(rmq_broker: RunningBroker, told: Told) -> None:
    address, topic = rmq_broker.namesrv_addr, "traced-push"
    create(address, topic)
    tracer = told.tracers.get_tracer("test")
    inside: list[int] = []

    def listen(messages: Any, context: Any) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)
        if messages[0].reconsume_times == 0:
            context.delay_level_when_next_consume = 1
            raise ValueError("not now")

    with Producer("g", namesrv_addr=address) as producer:
        with tracer.start_as_current_span("order") as order:
            result = producer.send(Message(topic, b"12345", tags="paid", keys=["a", "b"]))
        order_id = order.get_span_context()
        assert trace.get_current_span() is trace.INVALID_SPAN
    sent = told.one(f"send {topic}")
    assert sent.kind == SpanKind.PRODUCER and sent.parent is not None
    assert (sent.parent.span_id, sent.context.trace_id) == (order_id.span_id, order_id.trace_id)
    attributes = dict(sent.attributes or {})
    assert attributes.pop("messaging.client.id")
    assert attributes == {
        "messaging.system": "rocketmq", "messaging.operation.name": "send",
        "messaging.operation.type": "send", "messaging.destination.name": topic,
        "messaging.rocketmq.client_group": "g", "messaging.message.body.size": 5,
        "messaging.rocketmq.message.type": "normal", "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("a", "b"), "messaging.message.id": result.message_id,
        "messaging.destination.partition.id": f"{result.broker_name}:{result.queue_id}",
        **server_of(rmq_broker),
    }  # fmt: skip
    with PushConsumer("traced", listen, namesrv_addr=address, **PARAMETERS) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: len(told.spans(f"process {topic}")) == 2)
    failed, done = told.spans(f"process {topic}")
    for span, code, problem in (
        (failed, StatusCode.ERROR, "ValueError"), (done, StatusCode.UNSET, None)
    ):  # fmt: skip
        assert span.kind == SpanKind.CONSUMER and span.parent is not None
        assert span.parent.span_id == sent.context.span_id
        assert span.status.status_code == code
        assert (span.attributes or {}).get("error.type") == problem
        assert (span.attributes or {})["messaging.consumer.group.name"] == "traced"
        assert server_of(rmq_broker).items() <= dict(span.attributes or {}).items()
    assert [failed.events[0].name] == ["exception"]
    assert inside == [failed.context.span_id, done.context.span_id], "the listener runs in it"
    assert told.counts("messaging.client.sent.messages") == {"send": 1}
    assert told.counts("messaging.client.operation.duration") == {"send": 1}
    metrics = ("messaging.client.sent.messages", "messaging.client.operation.duration",
               "messaging.client.consumed.messages", "messaging.process.duration")  # fmt: skip
    server = tuple(server_of(rmq_broker).values())
    assert told.servers() == {name: {server} for name in metrics}


def test_the_server_is_the_replica_that_was_asked_and_none_of_several(
    rmq_broker: RunningBroker, told: Told
) -> None:
    """A slave that is suggested for a queue under the name that brokers know it by."""
    address, topic = rmq_broker.namesrv_addr, "traced-slave"
    create(address, f"ns%{topic}", 2)
    given: Any = {"namesrv_addr": address, "namespace": "ns", "consume_from_where": FIRST}
    with Producer("g", namesrv_addr=address, namespace="ns") as producer:
        for queue in producer.queues(topic):
            producer.send(Message(topic, b"1"), queue=queue)
    with PullConsumer("traced-slave", **given) as consumer:
        consumer.subscribe(topic)
        seen: list[Any] = []
        wait_until(lambda: seen.extend(consumer.poll(100)) or len(seen) == 2)
        impl = consumer._client
        routes = impl.instance.routes
        first, second = (each.queue for each in seen)
        assert first.topic == topic and first != second
        assert read_from(impl, seen) == rmq_broker.broker_addr
        entry = routes.brokers()[first.broker_name]
        slave = {**entry.addresses, 1: "10.0.0.8:10911"}
        routes._brokers[entry.name] = replace(entry, addresses=slave)
        assert read_from(impl, seen) == rmq_broker.broker_addr
        routes.replicas.suggest(first._replace(topic=f"ns%{topic}"), 1)
        assert read_from(impl, seen[:1]) == "10.0.0.8:10911"
        assert read_from(impl, seen) is None, "two were asked"
        routes._brokers.clear()
        assert read_from(impl, seen) is None, "and nobody is asked for it"


def kept(results: list[Any]) -> Callable[[Any, Any], object]:
    return lambda result, error: results.append(result or error)


def test_every_way_of_sending_is_a_span(rmq_broker: RunningBroker, told: Told) -> None:
    address, topic = rmq_broker.namesrv_addr, "traced-sends"
    create(address, topic)
    results: list[Any] = []

    async def in_loop() -> None:
        async with aio.Producer("g", namesrv_addr=address) as producer:
            results.append(await producer.send(Message(topic, b"aio")))

    with Producer("g", namesrv_addr=address) as producer:
        producer.send_async(Message(topic, b"callback"), kept(results))
        results.append(producer.send_async(Message(topic, b"future")).result(60))
        producer.send_oneway(Message(topic, b"oneway", sharding_key="k"))
        many = [Message(topic, b"of a batch") for _ in range(3)]
        results += producer.send_batch(iter(many))
        assert len({each.get_property("traceparent") for each in many}) == 1
        wait_until(lambda: len(results) == 5)
        with pytest.raises(MessageError):
            producer.send(
                Message(topic, b"too large", delay_level=1, properties={"k": "v" * 40_000})
            )
    asyncio.run(in_loop())
    wait_until(lambda: len(told.spans(f"send {topic}")) == 6)
    spans = told.spans(f"send {topic}")
    kinds = [(each.attributes or {}).get("messaging.rocketmq.message.type") for each in spans]
    assert sorted(map(str, kinds)) == ["None", "delay", "fifo", "normal", "normal", "normal"]
    ids = {(each.attributes or {}).get("messaging.message.id") for each in spans}
    assert {results[0].message_id, results[1].message_id, results[-1].message_id} <= ids
    batch = next(
        each for each in spans if "messaging.batch.message_count" in (each.attributes or {})
    )
    assert (batch.attributes or {})["messaging.batch.message_count"] == 3
    assert server_of(rmq_broker).items() <= dict(batch.attributes or {}).items()
    failed = [each for each in spans if each.status.status_code == StatusCode.ERROR]
    assert "server.address" not in (failed[0].attributes or {}), "no broker was asked"
    assert [(each.attributes or {})["error.type"] for each in failed] == ["MessageError"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the key")
def test_a_send_of_a_loop_by_tls_is_one_span(told: Told, tmp_path: Path) -> None:
    """The send must be one span, whether its connection was made before, or cannot be made."""
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    message = Message("t", b"1")

    async def main() -> None:
        with Cluster(stored, context=context) as cluster:
            async with aio.Producer(
                "g", namesrv_addr=cluster.name_server.address, use_tls=True,
                tls_ca_file=str(authority.certificate), send_msg_timeout=int(1000 * HANG_S),
            ) as producer:  # fmt: skip
                await producer.send(message)
                (queue,) = await producer.queues("t")
                cluster.brokers[0].__exit__()
                instance = producer._client.instance
                await until(lambda: not instance.is_linked(cluster.addresses[0]))
                with pytest.raises(UnreachableError):
                    await producer.send(Message("t", b"2"), queue=queue)

    asyncio.run(main())
    kinds = [(each.attributes or {}).get("error.type") for each in told.spans("send t")]
    assert kinds == [None, "UnreachableError"]
    assert message.get_property("traceparent") is not None


def test_a_half_message_is_a_span_around_the_local_transaction(
    rmq_broker: RunningBroker, told: Told
) -> None:
    address, topic = rmq_broker.namesrv_addr, "traced-transaction"
    create(address, topic)
    inside: list[int] = []

    class Listener(TransactionListener):
        def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
            inside.append(trace.get_current_span().get_span_context().span_id)
            return LocalTransactionState.COMMIT

        def check_local_transaction(self, message: Any) -> LocalTransactionState:
            return LocalTransactionState.COMMIT

    with TransactionProducer("tg", Listener(), namesrv_addr=address) as producer:
        result = producer.send_in_transaction(Message(topic, b"half"))
    span = told.one(f"send {topic}")
    assert (span.attributes or {})["messaging.rocketmq.message.type"] == "transaction"
    assert (span.attributes or {})["messaging.message.id"] == result.message_id
    assert inside == [span.context.span_id]


@pytest.mark.parametrize("kind", [PullConsumer, PopConsumer])
def test_a_poll_that_brings_something_is_a_span_linked_to_the_sends(
    rmq_broker: RunningBroker, told: Told, kind: Any
) -> None:
    address, topic = rmq_broker.namesrv_addr, f"traced-{kind.__name__}"
    create(address, topic)
    with Producer("g", namesrv_addr=address) as producer:
        for body in (b"1", b"2"):
            producer.send(Message(topic, body))
    sends = {each.context.span_id for each in told.spans(f"send {topic}")}
    seen: list[Any] = []
    with kind(f"g-{kind.__name__}", namesrv_addr=address, consume_from_where=FIRST) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: seen.extend(consumer.poll(100)) or len(seen) == 2)
    spans = told.spans(f"receive {topic}")
    assert {link.context.span_id for each in spans for link in each.links} == sends
    assert all(each.kind == SpanKind.CLIENT for each in spans)
    assert told.counts("messaging.client.consumed.messages") == {"receive": 2}
    for each in spans:
        assert server_of(rmq_broker).items() <= dict(each.attributes or {}).items()
    assert set().union(*told.servers().values()) == {tuple(server_of(rmq_broker).values())}


def test_taken_off_it_leaves_nothing(rmq_broker: RunningBroker) -> None:
    told, instrumentor = Told(), RmqInstrumentor()
    plain = ProducerImpl.send, PullConsumerImpl.poll
    instrumentor.instrument(tracer_provider=told.tracers, meter_provider=told.meters)
    assert ProducerImpl.send is not plain[0] and PullConsumerImpl.poll is not plain[1]
    instrumentor.uninstrument()
    assert ProducerImpl.send is plain[0] and PullConsumerImpl.poll is plain[1]
    create(rmq_broker.namesrv_addr, "untraced")
    message = Message("untraced", b"1")
    with Producer("g", namesrv_addr=rmq_broker.namesrv_addr) as producer:
        producer.send(message)
        assert producer.send_async(message).result(60).is_ok
    assert message.get_property("traceparent") is None
    assert told.exporter.get_finished_spans() == ()
