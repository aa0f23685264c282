"""An error that a hook raises ends the request at which it was raised, and nothing that goes on by
itself.

Method: a hook that raises at one request of a code; what follows must come as ever. Not shown here:
a hook that raises at each request, which is sent again and again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.consuming import API_TIMEOUT_MS, Kept, consumer_of, create, numbers, send
from support.scripted_cluster import Cluster, silent, stored
from support.waiting import HANG_S, wait_until

from cext.client.reply import Reply
from rmq import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    PopConsumer,
    Producer,
    PullConsumer,
)
from rmq.codes import RequestCode
from rmq.pytest_plugin import RunningBroker

SOON = {"pull_time_delay_mills_when_exception": 10}


class RaisingOnce:
    """A hook that raises at request `number` of this code (and of this topic, if given)."""

    def __init__(
        self, code: int, number: int = 1, topic: str | None = None,
        error: type[BaseException] = KeyError,
    ) -> None:  # fmt: skip
        self._code, self._number, self._topic, self._error = code, number, topic, error
        self._lock = threading.Lock()
        self._seen = 0

    @property
    def seen(self) -> int:
        return self._seen

    @property
    def has_raised(self) -> bool:
        return self._seen >= self._number

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        if code != self._code or (self._topic is not None and fields.get("topic") != self._topic):
            return
        with self._lock:
            self._seen += 1
            number = self._seen
        if number == self._number:
            raise self._error("of the hook")

    def after_response(self, address: str, code: int, fields: dict[str, str],
                       reply: Reply | None) -> None:  # fmt: skip
        pass


def wait_for(count: Callable[[], int], wanted: int) -> None:
    wait_until(lambda: count() >= wanted)


def one_by_one(address: str, topic: str, count: Callable[[], int]) -> None:
    """Sends four messages, each one when the one before has come."""
    for i in range(4):
        send(address, numbers(topic, i, i + 1))
        wait_for(count, i + 1)


@pytest.mark.parametrize(
    ("code", "number", "error"),
    [
        (RequestCode.PULL_MESSAGE, 3, KeyError),
        (RequestCode.PULL_MESSAGE, 3, SystemExit),
        (RequestCode.QUERY_CONSUMER_OFFSET, 1, KeyError),
        (RequestCode.QUERY_CONSUMER_OFFSET, 1, SystemExit),
    ],
)
def test_a_push_consumer_reads_on(
    broker: RunningBroker, code: int, number: int, error: type[BaseException]
) -> None:
    address, topic = broker.namesrv_addr, f"hook-push-{int(code)}-{error.__name__}"
    create(address, topic)
    hook, kept = RaisingOnce(code, number, topic, error), Kept()
    with consumer_of(address, topic, kept, rpc_hook=hook, **SOON) as consumer:
        consumer.subscribe(topic)
        one_by_one(address, topic, lambda: len(kept.messages))
    assert hook.has_raised
    assert kept.bodies == [0, 1, 2, 3]


def test_in_order_a_queue_is_consumed_on_whose_pull_a_hook_ends(broker: RunningBroker) -> None:
    """The hook raises SystemExit at the pull that follows the end of a listener's call, in one of
    the listener's threads. The queue must be consumed on."""

    class EndingThere(RaisingOnce):
        def before_request(
            self, address: str, code: int, fields: dict[str, str], body: bytes
        ) -> None:
            if threading.current_thread().name.startswith("rmq-consume-"):
                super().before_request(address, code, fields, body)

    address, topic = broker.namesrv_addr, "hook-order-pull"
    create(address, topic)
    send(address, numbers(topic, 0, 2))

    def decide(messages: list[MessageExt], context: Any) -> None:
        if messages[0].body == b"0":  # both messages are here, and a pull waits for room
            wait_until(lambda: any(each.is_waiting for each in consumer._client.process_queues()))

    hook, kept = EndingThere(RequestCode.PULL_MESSAGE, 1, topic, SystemExit), Kept(decide)
    changes = {"pull_threshold_for_queue": 1, **SOON}
    with consumer_of(address, topic, kept, consume_orderly=True, rpc_hook=hook,
                     **changes) as consumer:  # fmt: skip
        consumer.subscribe(topic)
        assert kept.wait(2) == [0, 1]
        send(address, numbers(topic, 2, 4))
        assert kept.wait(4) == [0, 1, 2, 3]
    assert hook.has_raised


@pytest.mark.parametrize(
    ("kind", "code", "number", "error"),
    [
        (PullConsumer, RequestCode.LITE_PULL_MESSAGE, 3, KeyError),
        (PullConsumer, RequestCode.QUERY_CONSUMER_OFFSET, 1, KeyError),
        (PullConsumer, RequestCode.QUERY_CONSUMER_OFFSET, 1, SystemExit),
        (PullConsumer, RequestCode.UPDATE_CONSUMER_OFFSET, 1, KeyError),
        (PullConsumer, RequestCode.UPDATE_CONSUMER_OFFSET, 2, KeyError),
        (PullConsumer, RequestCode.UPDATE_CONSUMER_OFFSET, 2, SystemExit),
        (PopConsumer, RequestCode.POP_MESSAGE, 3, KeyError),
    ],
)
def test_a_consumer_that_polls_reads_on(
    broker: RunningBroker, kind: Any, code: int, number: int, error: type[BaseException]
) -> None:
    address, topic = broker.namesrv_addr, f"hook-poll-{int(code)}-{number}-{error.__name__}"
    create(address, topic)
    hook = RaisingOnce(code, number, topic, error)
    found: list[MessageExt] = []
    with kind(
        topic, namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS, rpc_hook=hook,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET", **SOON,
    ) as consumer:  # fmt: skip
        consumer.subscribe(topic)

        def poll() -> int:
            got = consumer.poll(100)
            found.extend(got)
            if kind is PopConsumer:
                consumer.ack(got)
            return len(found)

        one_by_one(address, topic, poll)
    assert hook.has_raised
    assert [int(each.body) for each in found] == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_push_consumer_pops_on(broker: RunningBroker, error: type[BaseException]) -> None:
    address, topic = broker.namesrv_addr, f"hook-push-pop-{error.__name__}"
    create(address, topic)
    with Admin(namesrv_addr=address) as admin:
        admin.create_group(topic)
        admin.set_consume_mode(topic, topic, "POP", pop_share_queue_num=0)
    hook, kept = RaisingOnce(RequestCode.POP_MESSAGE, 3, topic, error), Kept()
    changes: dict[str, Any] = {"client_rebalance": False, "rpc_hook": hook, **SOON}
    with consumer_of(address, topic, kept, **changes) as consumer:
        consumer.subscribe(topic)
        one_by_one(address, topic, lambda: len(kept.messages))
    assert hook.has_raised
    assert kept.bodies == [0, 1, 2, 3]


def test_what_failed_is_postponed_beside_the_message_that_a_hook_refused(
    broker: RunningBroker,
) -> None:
    address, topic = broker.namesrv_addr, "hook-postpone"
    create(address, topic)
    with Admin(namesrv_addr=address) as admin:
        admin.create_group(topic)
        admin.set_consume_mode(topic, topic, "POP", pop_share_queue_num=0)
    send(address, numbers(topic, 0, 2))
    hook = RaisingOnce(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, 1, topic)
    changes: dict[str, Any] = {
        "client_rebalance": False, "rpc_hook": hook, "consume_message_batch_max_size": 2,
        "pop_invisible_time": 300_000,  # so long that none comes again by itself
    }  # fmt: skip
    kept = Kept(lambda messages, context: ConsumeConcurrentlyStatus.RECONSUME_LATER)
    with consumer_of(address, topic, kept, **changes) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: hook.seen >= 2)
    assert [len(call) for call in kept.calls] == [2]


def test_in_order_a_queue_goes_on_though_a_dead_letter_was_not_sent(broker: RunningBroker) -> None:
    address, topic = broker.namesrv_addr, "hook-order"
    create(address, topic)
    send(address, numbers(topic, 0, 3))

    def decide(messages: list[MessageExt], context: Any) -> Any:
        if messages[0].body == b"1":
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return None

    hook, kept = RaisingOnce(RequestCode.SEND_MESSAGE_V2), Kept(decide)
    changes = {"max_reconsume_times": 1, "suspend_current_queue_time_millis": 10}
    with consumer_of(address, topic, kept, consume_orderly=True, rpc_hook=hook,
                     **changes) as consumer:  # fmt: skip
        consumer.subscribe(topic)
        assert kept.wait(5) == [0, 1, 1, 1, 2]
    assert hook.has_raised


def test_the_other_brokers_hear_of_a_client() -> None:
    class Refusing(RaisingOnce):
        def before_request(
            self, address: str, code: int, fields: dict[str, str], body: bytes
        ) -> None:
            if code == RequestCode.HEART_BEAT and address == cluster.addresses[0]:
                raise KeyError("of the hook")

    with Cluster(stored, stored) as cluster:
        hook = Refusing(RequestCode.HEART_BEAT)
        with cluster.producer(rpc_hook=hook) as producer:
            producer.queues("t")
            wait_until(lambda: any(each.code == RequestCode.HEART_BEAT
                                   for each in cluster.brokers[1].requests))  # fmt: skip


@pytest.mark.parametrize("problem", [KeyError("of the hook"), SystemExit(3)])
def test_a_send_that_waits_for_its_broker_is_tried_again_by_the_route_there_was(
    problem: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook raises whenever the route is read again, which happens before each try. The send
    must then use the route that it had."""
    monkeypatch.setattr("rmq.client.producer.failover_grace.GRACE_MS", 1000 * HANG_S)

    class Refusing(RaisingOnce):
        def before_request(
            self, address: str, code: int, fields: dict[str, str], body: bytes
        ) -> None:
            if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                self._seen += 1
                if self._seen > 1:
                    raise problem

    hook = Refusing(RequestCode.GET_ROUTEINFO_BY_TOPIC, number=2)
    with (
        Cluster(silent) as cluster,
        cluster.producer(rpc_hook=hook, send_msg_timeout=int(1000 * HANG_S)) as producer,
    ):
        future = producer.send_async(Message("t", b"x"))
        wait_until(lambda: cluster.sends(0))
        cluster.brokers[0].__exit__()
        wait_until(lambda: hook.has_raised)
        cluster.reopen(0, stored)
        assert future.result(HANG_S).is_ok
        assert producer.flush(1000 * HANG_S)


def test_a_client_that_cannot_say_that_it_leaves_ends() -> None:
    with Cluster(stored) as cluster:
        hook = RaisingOnce(RequestCode.UNREGISTER_CLIENT)
        producer = cluster.producer(rpc_hook=hook).start()
        instance = producer._client.instance
        assert producer.send(Message("t", b"x")).is_ok
        producer.close()
        assert hook.has_raised
        assert instance.closed
        assert not instance.engine.is_running


def test_a_client_whose_traces_a_hook_refuses_ends(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "hook-traced", 1)
    hook = RaisingOnce(RequestCode.SEND_MESSAGE_V2, number=2)
    with Producer("hook-tracing", namesrv_addr=address, enable_trace=True, rpc_hook=hook) as first:
        first.send(Message("hook-traced", b"0"))
    assert hook.has_raised
    hook = RaisingOnce(RequestCode.SEND_MESSAGE_V2)
    kept = Kept()
    with consumer_of(address, "hook-traced", kept, enable_trace=True, rpc_hook=hook) as consumer:
        consumer.subscribe("hook-traced")
        assert kept.wait(1) == [0]
    assert hook.has_raised
    with Admin(namesrv_addr=address) as admin:
        assert admin.members("hook-traced") is None
