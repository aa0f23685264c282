"""Push consumers whose queues are shared out by brokers: pulled or popped, as an operator chose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.ack_counter import AckCounter
from support.consuming import PARAMETERS, Kept, committed, create, numbers, once_each, send
from support.waiting import wait_until

from rmq import Admin, ConsumeConcurrentlyStatus, Message, PushConsumer
from rmq.client.push import pop_service
from rmq.codes import RequestCode
from rmq.format.fastjson import MessageQueue
from rmq.pytest_plugin import RunningBroker

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


def set_mode(broker: RunningBroker, topic: str, group: str, mode: str, share: int = 0) -> None:
    with Admin(namesrv_addr=broker.namesrv_addr) as admin:
        admin.create_group(group)
        admin.set_consume_mode(topic, group, mode, pop_share_queue_num=share)


@contextlib.contextmanager
def consuming(
    broker: RunningBroker, name: str, listener: Any, **changes: Any
) -> Iterator[PushConsumer]:
    changes = {**PARAMETERS, "client_rebalance": False, **changes}
    with PushConsumer(name, listener, namesrv_addr=broker.namesrv_addr, **changes) as consumer:
        consumer.subscribe(name)
        yield consumer


def bodies(kept: Kept) -> list[int]:
    return [int(each.body) for each in kept.messages]


def popped_only(consumer: PushConsumer, topic: str) -> bool:
    """Whether all of the topic's queues are popped, and none is pulled."""
    return [each.queue_id for each in consumer.assignment() if each.topic == topic] == [-1]


def pulls(consumer: PushConsumer, least: int) -> bool:
    """Whether the consumer pulls at least so many queues, and pops none."""
    return not consumer._client.pops.queues and len(consumer.assignment()) >= least


def test_all_members_pop_from_all_queues(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "mode-pop", 2)
    set_mode(broker, "mode-pop", "mode-pop", "POP")

    def decide(*_: Any) -> None:
        wait_until(lambda: one.messages and two.messages)  # so that neither takes all there is

    one, two = Kept(decide), Kept(decide)
    with (
        consuming(broker, "mode-pop", one, pop_batch_nums=8) as first,
        consuming(broker, "mode-pop", two, pop_batch_nums=8) as second,
    ):
        wait_until(lambda: popped_only(first, "mode-pop") and popped_only(second, "mode-pop"))
        send(broker.namesrv_addr, numbers("mode-pop", 0, 600))
        wait_until(lambda: len(one.messages) + len(two.messages) >= 600, 60)
        pops = (first._client.pops, second._client.pops)
        wait_until(lambda: not any(queue.in_hand for each in pops for queue in each.queues))
        assert first._client.running_info()["mqPopTable"]
    assert once_each(bodies(one) + bodies(two), 0, 600)
    assert one.messages and two.messages


def test_what_was_popped_is_acknowledged(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "mode-acks")
    set_mode(broker, "mode-acks", "mode-acks", "POP")
    send(broker.namesrv_addr, numbers("mode-acks", 0, 100))
    kept, counting = Kept(), AckCounter()
    with consuming(broker, "mode-acks", kept, rpc_hook=counting):
        wait_until(lambda: len(kept.messages) == 100)
    assert (counting.messages, counting.refused) == (100, 0)
    assert once_each(bodies(kept), 0, 100)


def test_what_failed_comes_again_after_the_pause_of_its_tries(
    driven_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_service, "DELAYS_S", [1, 2, 7200])
    create(driven_broker.namesrv_addr, "mode-later")
    set_mode(driven_broker, "mode-later", "mode-later", "POP")
    kept = Kept(lambda messages, _: LATER if messages[0].reconsume_times < 2 else None)
    with consuming(driven_broker, "mode-later", kept):
        send(driven_broker.namesrv_addr, numbers("mode-later", 0, 1))
        wait_until(lambda: len(kept.messages) == 3, 60)
        assert [(each.topic, each.reconsume_times) for each in kept.messages] == [
            ("mode-later", 0), ("mode-later", 1), ("mode-later", 2)]  # fmt: skip
        first, second, third = kept.times
        assert second - first > 0.9
        assert third - second > 1.9


def test_of_a_batch_the_rest_behind_the_ack_index_comes_again(
    driven_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pop_service, "DELAYS_S", [1])
    create(driven_broker.namesrv_addr, "mode-index")
    set_mode(driven_broker, "mode-index", "mode-index", "POP")
    send(driven_broker.namesrv_addr, numbers("mode-index", 0, 8))

    def decide(messages: list[Any], context: Any) -> None:
        if messages[0].reconsume_times == 0:
            context.ack_index = 4

    kept = Kept(decide)
    with consuming(driven_broker, "mode-index", kept, consume_message_batch_max_size=8):
        wait_until(lambda: len(kept.messages) >= 11, 60)
        again = [int(each.body) for each in kept.messages if each.reconsume_times]
        assert sorted(again) == [5, 6, 7]


def test_level_minus_one_makes_it_a_dead_letter_at_once(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "mode-dead")
    set_mode(broker, "mode-dead", "mode-dead", "POP")

    def decide(messages: list[Any], context: Any) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = -1
        return LATER

    kept = Kept(decide)
    with consuming(broker, "mode-dead", kept):
        send(broker.namesrv_addr, [Message("mode-dead", b"7", keys="dead-7")])
        with Admin(namesrv_addr=broker.namesrv_addr) as admin:
            dead = MessageQueue("%DLQ%mode-dead", "broker-a", 0)
            wait_until(lambda: "%DLQ%mode-dead" in admin.topics())
            wait_until(lambda: admin.max_offset(dead) == 1)
    assert len(kept.messages) == 1


@pytest.mark.parametrize("raises", [False, True])
def test_a_level_that_is_no_number_postpones_what_failed(
    broker: RunningBroker, raises: bool
) -> None:
    """If the delay level is no number, the failed messages must be postponed by changing their
    invisible time; that is so long here that none comes again by itself."""
    name = f"mode-level-{raises}"
    create(broker.namesrv_addr, name)
    set_mode(broker, name, name, "POP")
    send(broker.namesrv_addr, numbers(name, 0, 2))

    def decide(messages: list[Any], context: Any) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = None
        if raises:
            raise ValueError("of the listener")
        return LATER

    counting, changes = AckCounter(), {"pop_invisible_time": 300_000}
    with consuming(broker, name, Kept(decide), rpc_hook=counting, **changes):
        wait_until(lambda: counting.codes[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] >= 2)


def test_more_is_popped_only_while_little_is_in_hand(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "mode-full")
    set_mode(broker, "mode-full", "mode-full", "POP")
    send(broker.namesrv_addr, numbers("mode-full", 0, 300))
    gate = {"is_open": False}

    def decide(*_: Any) -> None:
        wait_until(lambda: gate["is_open"], 60)

    kept = Kept(decide)
    with consuming(broker, "mode-full", kept, pop_threshold_for_queue=20, pop_batch_nums=10,
                   consume_thread_min=2) as consumer:  # fmt: skip
        (queue,) = consumer._client.pops.queues
        wait_until(lambda: queue.in_hand >= 30)  # above 20 it pops no more
        wait_until(lambda: queue._is_waiting or queue.in_hand > 30)
        assert queue.in_hand == 30
        assert not queue._popping
        gate["is_open"] = True
        wait_until(lambda: len(kept.messages) == 300, 60)
    assert once_each(bodies(kept), 0, 300)


def test_the_mode_may_change_while_it_consumes(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "mode-change", 2)
    set_mode(broker, "mode-change", "mode-change", "PULL")
    kept = Kept()
    with consuming(broker, "mode-change", kept) as consumer:
        for begin, mode in ((0, "PULL"), (100, "POP"), (200, "PULL")):
            set_mode(broker, "mode-change", "mode-change", mode)
            consumer._client.group_changed()
            if mode == "POP":
                wait_until(lambda: popped_only(consumer, "mode-change"))
            else:
                wait_until(lambda: pulls(consumer, 2))
            send(broker.namesrv_addr, numbers("mode-change", begin, begin + 100))
            wait_until(lambda end=begin + 100: len(set(bodies(kept))) == end, 60)
    assert set(bodies(kept)) == set(range(300))


def test_brokers_share_out_what_is_pulled(broker: RunningBroker) -> None:
    """With client_rebalance=False and without a request mode, each queue must have one owner."""
    queues = create(broker.namesrv_addr, "mode-pull", 4)
    one, two = Kept(), Kept()
    with (
        consuming(broker, "mode-pull", one) as first,
        consuming(broker, "mode-pull", two) as second,
    ):

        def owned(consumer: PushConsumer) -> list[MessageQueue]:
            return [each for each in consumer.assignment() if each.topic == "mode-pull"]

        wait_until(lambda: (len(owned(first)), len(owned(second))) == (2, 2), 60)
        assert sorted(owned(first) + owned(second)) == sorted(queues)
        send(broker.namesrv_addr, numbers("mode-pull", 0, 200))
        wait_until(lambda: len(one.messages) + len(two.messages) >= 200, 60)
    assert once_each(bodies(one) + bodies(two), 0, 200)
    assert sum(each or 0 for each in committed(broker.namesrv_addr, "mode-pull", queues)) == 200


def test_members_that_share_by_themselves_do_not_follow_the_mode(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "mode-own", 2)
    set_mode(broker, "mode-own", "mode-own", "POP")
    kept = Kept()
    with consuming(broker, "mode-own", kept, client_rebalance=True) as consumer:
        send(broker.namesrv_addr, numbers("mode-own", 0, 50))
        wait_until(lambda: len(kept.messages) == 50)
        assert not consumer._client.pops.queues
        assert len(consumer.assignment()) == 2
