"""What clients refuse before they send or read anything: wrong names, choices and filters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.consuming import Kept, create, send
from support.waiting import wait_until

from rmq import (
    ClosedError,
    ConfigError,
    Message,
    MessageError,
    PopConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    RemoteError,
    TransactionProducer,
    aio,
)
from rmq.client.connection.namespaces import wrap_group
from rmq.pytest_plugin import RunningBroker

WRONG = "n >="  # the error is at position 5, beyond its end
CONSUMERS: list[Any] = [PushConsumer, PullConsumer, PopConsumer]


@pytest.mark.parametrize("kind", [Producer, TransactionProducer, *CONSUMERS])
@pytest.mark.parametrize("group", ["bad group!", "a.b", "", "gruppe-\u00e4", "g" * 121])
def test_groups_have_names_that_brokers_take(kind: Any, group: str) -> None:
    with pytest.raises(ConfigError, match="group"):
        kind(group)


def test_a_namespace_is_part_of_the_groups_name() -> None:
    assert wrap_group("ns", "g" * 117) == "ns%" + "g" * 117
    assert wrap_group(None, "%RETRY%a|b_c-1") == "%RETRY%a|b_c-1"
    for namespace in ("n" * 3, "n!"):
        with pytest.raises(ConfigError, match="group"):
            wrap_group(namespace, "g" * 117)


@pytest.mark.parametrize("topic", ["bad topic!", "a/b", "", "t" * 128])
def test_topics_have_names_that_brokers_take(broker: RunningBroker, topic: str) -> None:
    with pytest.raises(MessageError, match="topic"):
        PushConsumer("names", print, subscription={topic: "*"})
    for kind in (PullConsumer, PopConsumer):
        with (
            kind("names", namesrv_addr=broker.namesrv_addr) as consumer,
            pytest.raises(MessageError, match="topic"),
        ):
            consumer.subscribe(topic)


def test_dead_letters_of_a_long_group_can_be_read(broker: RunningBroker) -> None:
    topic = "%DLQ%" + "g" * 120
    create(broker.namesrv_addr, topic)
    kept = Kept()
    with PushConsumer(
        "dead-long", kept, namesrv_addr=broker.namesrv_addr,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:  # fmt: skip
        consumer.subscribe(topic)
        wait_until(lambda: len(consumer.assignment()) == 1)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"consume_from_where": "FIRST"},
            "consume_from_where='FIRST': one of CONSUME_FROM_LAST_OFFSET, "
            "CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_TIMESTAMP; did you mean "
            "CONSUME_FROM_FIRST_OFFSET?",
        ),
        (
            {"consume_from_where": "consume_from_timestmap"},
            "consume_from_where='consume_from_timestmap': one of CONSUME_FROM_LAST_OFFSET, "
            "CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_TIMESTAMP; did you mean "
            "CONSUME_FROM_TIMESTAMP?",
        ),
        (
            {"message_model": "Broadcast"},
            "message_model='Broadcast': one of CLUSTERING, BROADCASTING; did you mean "
            "BROADCASTING?",
        ),
        ({"message_model": "x"}, "message_model='x': one of CLUSTERING, BROADCASTING"),
    ],
)
def test_a_choice_that_is_none_names_those_there_are(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        PushConsumer("choices", print, **given)
    assert str(refused.value) == text


def test_a_wrong_expression_is_told_when_a_push_consumer_starts(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "wrong-start")
    consumer = PushConsumer("wrong-start", print, namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("wrong-start", sql=WRONG)
    with pytest.raises(RemoteError, match=r"code 23: SQL92 filter 'n >=': character 5: "):
        consumer.start()
    assert not consumer.is_open


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_wrong_expression_is_told_when_it_is_subscribed(broker: RunningBroker, kind: Any) -> None:
    topic = f"wrong-{kind.__name__}"
    (queue,) = create(broker.namesrv_addr, topic)
    listener = [print] if kind is PushConsumer else []
    with kind(topic, *listener, namesrv_addr=broker.namesrv_addr) as consumer:
        consumer.subscribe(topic, sql="n > 5")
        with pytest.raises(RemoteError, match=r"code 23: .*character 5: "):
            consumer.subscribe(topic, sql=WRONG)
        assert consumer._client.subscriptions[topic].text == "n > 5"
        if kind is PullConsumer:
            consumer.unsubscribe(topic)
            with pytest.raises(RemoteError, match=r"code 23: .*character 5: "):
                consumer.assign([queue], sql=WRONG)


def test_a_wrong_expression_is_told_in_an_event_loop(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "wrong-aio")

    async def subscribe(kind: Any, *listener: Any) -> None:
        async with kind("wrong-aio", *listener, namesrv_addr=broker.namesrv_addr) as consumer:
            with pytest.raises(RemoteError, match=r"code 23: .*character 5: "):
                await consumer.subscribe("wrong-aio", sql=WRONG)

    asyncio.run(subscribe(aio.PushConsumer, print))
    asyncio.run(subscribe(aio.PullConsumer))
    asyncio.run(subscribe(aio.PopConsumer))


def test_a_wrong_expression_for_a_topic_of_later_is_told_by_the_pulls(
    broker: RunningBroker,
) -> None:
    with PullConsumer("wrong-late", namesrv_addr=broker.namesrv_addr) as consumer:
        consumer.subscribe("wrong-late", sql=WRONG)
        create(broker.namesrv_addr, "wrong-late")
        send(broker.namesrv_addr, [Message("wrong-late", "1")])
        consumer._client.instance.routes.refresh()

        def is_told() -> bool:
            try:
                consumer.poll(200)
            except RemoteError as error:
                return "character 5" in str(error)
            return False

        wait_until(is_told, 60)


def one(messages: Any) -> None: ...


def three(messages: Any, context: Any, more: Any) -> None: ...


class WithOne:
    def consume_message(self, messages: Any) -> None: ...


async def later(messages: Any) -> None: ...


@pytest.mark.parametrize("listener", [one, three, WithOne()])
def test_a_listener_that_cannot_be_called_is_told_at_the_start(listener: Any) -> None:
    with pytest.raises(ConfigError, match=r"called with \(messages, context\)"):
        PushConsumer("listeners", listener).start()
    with pytest.raises(ConfigError, match=r"called with \(messages, context\)"):
        asyncio.run(aio.PushConsumer("listeners", later).start())


def test_tags_are_text(broker: RunningBroker) -> None:
    tags: Any = ["a", "b"]
    with pytest.raises(ConfigError, match=r"text such as 'a \|\| b'"):
        PushConsumer("tags", print).subscribe("t", tags)


def test_a_queue_is_one_of_the_messages_topic(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "queue-here")
    (elsewhere,) = create(broker.namesrv_addr, "queue-elsewhere")
    number: Any = 5
    nothing: Any = lambda queues, message, arg: None  # noqa: E731
    with Producer("queues", namesrv_addr=broker.namesrv_addr) as producer:
        message = Message("queue-here", "1")
        with pytest.raises(MessageError, match="for a queue of queue-elsewhere"):
            producer.send(message, queue=elsewhere)
        with pytest.raises(MessageError, match="MessageQueue is wanted"):
            producer.send(message, queue=number)
        with pytest.raises(MessageError, match="for a queue of queue-elsewhere"):
            producer.send_async(message, selector=lambda queues, message, arg: elsewhere)
        with pytest.raises(MessageError, match="chose no queue"):
            producer.send(message, selector=nothing)
        assert producer.send(message, queue=producer.queues("queue-here")[0]).is_ok


@pytest.mark.parametrize("kind", [Producer, *CONSUMERS])
def test_a_client_says_what_it_is_and_whether_it_is_open(broker: RunningBroker, kind: Any) -> None:
    listener = [print] if kind is PushConsumer else []
    client = kind("shown", *listener, namesrv_addr=broker.namesrv_addr)
    name = kind.__name__
    assert repr(client) == f"<{name} of group shown, not started>"
    with pytest.raises(ClosedError, match=r"is not started: call start\(\)"):
        _ = client._client.instance
    with client:
        assert repr(client) == f"<{name} of group shown, open>"
    assert repr(client) == f"<{name} of group shown, closed>"
    with pytest.raises(ClosedError, match="is closed"):
        _ = client._client.instance
