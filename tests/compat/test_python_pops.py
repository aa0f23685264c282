"""rmq's pop clients against rmq, and with --target=apache against Apache RocketMQ 5.5.0."""

from __future__ import annotations

from compat.targets import Target
from support.ack_counter import AckCounter
from support.consuming import Kept, create, numbers, once_each, send
from support.waiting import wait_until

from rmq import Admin, PopConsumer, PushConsumer

FIRST = "CONSUME_FROM_FIRST_OFFSET"


def test_messages_are_popped_and_acknowledged_in_batches(target: Target, session_id: str) -> None:
    topic = f"pops-{session_id}"
    create(target.name_server, topic, 4)
    send(target.name_server, numbers(topic, 0, 120))
    counting = AckCounter()
    found: list[int] = []
    with PopConsumer(
        topic, namesrv_addr=target.name_server, consume_from_where=FIRST, rpc_hook=counting
    ) as consumer:
        consumer.subscribe(topic)

        def popped() -> bool:
            messages = consumer.poll(1_000)
            consumer.ack(messages)
            found.extend(int(each.body) for each in messages)
            return len(found) >= 120

        wait_until(popped, 60)
    assert once_each(found, 0, 120)
    assert (counting.messages, counting.refused) == (120, 0)
    assert counting.requests < 120


def test_a_push_consumer_pops_where_the_broker_says_so(target: Target, session_id: str) -> None:
    topic = f"push-pops-{session_id}"
    create(target.name_server, topic, 2)
    with Admin(namesrv_addr=target.name_server) as admin:
        admin.create_group(topic)
        admin.set_consume_mode(topic, topic, "POP")
    kept, counting = Kept(), AckCounter()
    with PushConsumer(
        topic, kept, namesrv_addr=target.name_server, client_rebalance=False,
        consume_from_where=FIRST, rpc_hook=counting,
    ) as consumer:  # fmt: skip
        consumer.subscribe(topic)
        wait_until(lambda: [each.queue_id for each in consumer.assignment()] == [-1], 60)
        send(target.name_server, numbers(topic, 0, 100))
        wait_until(lambda: len(kept.messages) >= 100, 60)
    assert once_each(kept.bodies, 0, 100)
    assert (counting.messages, counting.refused) == (100, 0)
