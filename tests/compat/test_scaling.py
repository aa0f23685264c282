"""Goal: `rmq cluster apply` works with clusters of Apache RocketMQ 5.5.0, and with mixed ones.

Method: a broker of each kind at Apache's name server. The broker of rmq is added to Apache's
cluster, then the other way round. Apache's broker is drained while it has every kind of work, and
taken back. Not shown here: a load (tests/process/test_cluster_plan.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.both_brokers import Both
from support.waiting import wait_until

from rmq import Message, Producer, PullConsumer
from rmq.client.blocking.cluster import Cluster
from rmq.codes import PERM_READ, RequestCode
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.names import ORDER_TOPIC_NAMESPACE
from rmq.scaling.survey import Survey
from rmq.scaling.unconsumed import DELAYED, TIMED

QUEUE = MessageQueue("t", "broker-a", 0)
ORDER = {"namespace": ORDER_TOPIC_NAMESPACE, "key": "pay"}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def create(view: Cluster, broker: str, topic: str, queues: int, **more: Any) -> None:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
              "writeQueueNums": queues, "perm": 6, "topicFilterType": "SINGLE_TAG",
              "topicSysFlag": 0, "order": False, **more}  # fmt: skip
    view.call(view.address_of(broker), RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def group(view: Cluster, broker: str, name: str, **more: Any) -> None:
    body = fastjson.dumps({"groupName": name, **more})
    address = view.address_of(broker)
    view.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def perms(view: Cluster, topic: str) -> dict[str, int]:
    return {each.broker_name: each.perm for each in view.route(topic).entries}


def test_brokers_of_both_kinds_are_added_drained_and_taken_back(both: Both) -> None:
    with Cluster(both.namesrv) as view:
        wait_until(lambda: len(view.brokers()) == 2)
        _added_to_apaches(both, view)
        _added_to_ours(both, view)
        _drained(both, view)
        both.apply("undrain", "broker-a")
        wait_until(lambda: perms(view, "pay") == {"broker-a": 6, "broker-b": 6})
        reply = view.name_server_call(RequestCode.GET_KV_CONFIG, ORDER)
        assert reply.fields["value"] == "broker-a:2;broker-b:2"


def _added_to_apaches(both: Both, view: Cluster) -> None:
    create(view, "broker-a", "pay", 2, order=True, attributes="+message.type=FIFO")
    create(view, "broker-a", "t", 1)
    group(view, "broker-a", "billing", retryMaxTimes=3)
    at_a = view.address_of("broker-a")
    mode = {"topic": "t", "consumerGroup": "billing", "mode": "POP", "popShareQueueNum": 1}
    view.call(at_a, RequestCode.SET_MESSAGE_REQUEST_MODE, body=fastjson.dumps(mode))
    forbidden = {"group": "billing", "topic": "pay", "readable": False}
    view.call(at_a, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbidden)
    view.name_server_call(RequestCode.PUT_KV_CONFIG, {**ORDER, "value": "broker-a:2"})
    assert both.steps("add", "broker-b") == [
        ("group billing", "as broker-a has it"),
        ("group billing on pay", "may not"),
        ("topic pay", "2 queues rw, order, message.type=FIFO"),
        ("topic t", "1 queue rw"),
        ("mode of billing on t", "POP, share 1"),
        ("order of pay", "broker-a:2;broker-b:2"),
    ]
    both.apply("add", "broker-b")
    assert both.steps("add", "broker-b") == both.steps("add", "broker-a") == []


def _added_to_ours(both: Both, view: Cluster) -> None:
    create(view, "broker-b", "u", 3, attributes="+message.type=DELAY")
    group(view, "broker-b", "late", retryMaxTimes=4)
    group(view, "broker-b", "billing", retryMaxTimes=5)
    both.apply("add", "broker-a")
    assert both.steps("add", "broker-a") == both.steps("add", "broker-b") == []
    state = Survey(view).state()
    a = state.brokers["broker-a"]
    assert a.topics["u"] == state.brokers["broker-b"].topics["u"]
    assert (a.groups["late"]["retryMaxTimes"], a.groups["billing"]["retryMaxTimes"]) == (4, 5)


def _drained(both: Both, view: Cluster) -> None:
    survey = Survey(view)
    system = survey.state().system
    with Producer("P", namesrv_addr=both.namesrv) as producer:
        for level, timed in ((None, None), (1, None), (None, "3")):
            message = Message("t", b"x", delay_level=level or 0)
            if timed is not None:
                message.put_property("TIMER_DELAY_SEC", timed)
            assert producer.send(message, queue=QUEUE).is_ok
    offset = {"consumerGroup": "billing", "topic": "t", "queueId": 0, "commitOffset": 0}
    view.call(view.address_of("broker-a"), RequestCode.UPDATE_CONSUMER_OFFSET, offset)
    left = survey.unconsumed("broker-a", system)
    assert left.by_group == {("t", "billing"): 1}
    assert (left.internal[DELAYED], left.internal[TIMED]) == (1, 1)
    late = both.run("apply", "drain", "broker-a", "--yes", "--wait", "1")
    assert late.returncode == 1 and "not drained yet: broker-a: billing" in late.stderr
    wait_until(lambda: perms(view, "pay") == {"broker-a": PERM_READ, "broker-b": 6})
    # Also after a restart.
    assert "brokerPermission=4" in (both.folder / "conf/broker.conf").read_text()
    assert "is not drained" in both.run("plan", "remove", "broker-a").stderr

    with PullConsumer("billing", namesrv_addr=both.namesrv) as consumer:
        consumer.assign([QUEUE])
        consumer.seek(QUEUE, 0)
        found = 0
        until = time.monotonic() + 60
        while found < 3 and time.monotonic() < until:
            found += len(consumer.poll(1000))
        assert found == 3
        consumer.commit()
    both.apply("drain", "broker-a", "--quiet", "3", "--wait", "60")
    assert survey.unconsumed("broker-a", system).text() == "nothing"
    assert both.run("plan", "remove", "broker-a").returncode == 0
