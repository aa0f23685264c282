"""What operators ask of push and pull consumers through the broker: 220, 221, 307, 309."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.consuming import Kept, consumer_of, create, numbers, send
from support.waiting import wait_until

from rmq import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    PullConsumer,
    RemoteError,
)
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.pytest_plugin import RunningBroker


def ask(broker: RunningBroker, code: int, fields: dict[str, Any]) -> dict[str, Any]:
    with Admin(namesrv_addr=broker.namesrv_addr) as admin:
        reply = admin._instance.call(broker.broker_addr, code, fields, b"", 10_000)
        return fastjson.loads_object(reply.body)


@pytest.mark.parametrize("in_order", [False, True])
def test_an_operator_sends_a_group_back(broker: RunningBroker, in_order: bool) -> None:
    address, topic = broker.namesrv_addr, f"calls-reset-{in_order}"
    create(address, topic, 2)
    send(address, numbers(topic, 0, 20))
    kept = Kept()
    with consumer_of(address, topic, kept, consume_orderly=in_order) as consumer:
        consumer.subscribe(topic)
        kept.wait(20)
        consumer.commit(wait=True)
        with Admin(namesrv_addr=address) as admin:
            admin.reset_offset(topic, topic, 0)
        assert sorted(kept.wait(40)[20:]) == list(range(20))
        send(address, numbers(topic, 20, 21))
        assert kept.wait(41)[40] == 20


def test_it_says_how_far_it_is(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    queues = create(address, "calls-status", 2)
    send(address, numbers("calls-status", 0, 11))
    kept = Kept()
    with consumer_of(address, "calls-status", kept) as consumer:
        consumer.subscribe("calls-status")
        kept.wait(11)
        wait_until(lambda: sum(each.count for each in consumer._client.process_queues()) == 0)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        found = ask(broker, code, {"topic": "calls-status", "group": "calls-status"})
        table = found["consumerTable"][consumer.client_id]
        assert sorted(table) == queues
        assert sum(table.values()) == 11


def test_it_says_what_it_does(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "calls-info", 1)
    send(address, numbers("calls-info", 0, 5))
    kept = Kept()
    with consumer_of(address, "calls-info", kept, consume_orderly=True) as consumer:
        consumer.subscribe("calls-info", "*")
        kept.wait(5)
        wait_until(lambda: sum(each.count for each in consumer._client.process_queues()) == 0)
        consumer.commit(wait=True)
        fields = {"consumerGroup": "calls-info", "clientId": consumer.client_id}
        info = ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, {**fields, "jstackEnable": True})
    properties = info["properties"]
    assert properties["PROP_CONSUMEORDERLY"] == "true"
    assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert properties["PROP_NAMESERVER_ADDR"] == f"{address};"
    assert properties["pullBatchSize"] == "32"
    assert "rmq-timers" in info["jstack"]
    assert {each["topic"] for each in info["subscriptionSet"]} == {
        "calls-info", "%RETRY%calls-info",
    }  # fmt: skip
    state = info["mqTable"][queue]
    assert (state["commitOffset"], state["cachedMsgCount"]) == (5, 0)
    assert state["locked"] is True
    assert abs(state["lastConsumeTimestamp"] - time.time() * 1000) < 60_000
    rates = info["statusTable"]["calls-info"]
    assert rates["consumeOKTPS"] > 0
    assert rates["consumeFailedMsgs"] == 0


def test_secrets_are_told_to_nobody(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    create(address, "calls-secret", 1)
    secrets = {
        "secret_key": "wagon-7313", "security_token": "lamp-4471", "tls_key_password": "reed-9028"
    }  # fmt: skip
    with consumer_of(address, "calls-secret", Kept(), access_key="alice", **secrets) as consumer:
        consumer.subscribe("calls-secret")
        fields = {"consumerGroup": "calls-secret", "clientId": consumer.client_id}
        info = ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
    assert info["properties"]["accessKey"] == "alice"
    told = fastjson.dumps(info).decode()
    assert [secret for secret in secrets.values() if secret in told] == []


def test_a_pull_consumer_answers_as_well(broker: RunningBroker) -> None:
    address = broker.namesrv_addr
    (queue,) = create(address, "calls-pull", 1)
    send(address, numbers("calls-pull", 0, 5))
    with PullConsumer("calls-pull", namesrv_addr=address) as consumer:
        consumer.subscribe("calls-pull")
        assert len(consumer.poll(9_000, 5)) > 0
        fields = {"consumerGroup": "calls-pull", "clientId": consumer.client_id}
        info = ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
        assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert list(info["mqTable"]) == [queue]
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        found = ask(broker, code, {"topic": "calls-pull", "group": "calls-pull"})
        assert list(found["consumerTable"][consumer.client_id]) == [queue]


@pytest.mark.parametrize(
    ("in_order", "returned", "expected"),
    [(False, None, "CR_SUCCESS"), (True, None, "CR_SUCCESS"),
     (False, ConsumeConcurrentlyStatus.RECONSUME_LATER, "CR_LATER"),
     (True, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, "CR_LATER"),
     (True, ConsumeOrderlyStatus.ROLLBACK, "CR_ROLLBACK"),
     (False, KeyError("of the user"), "CR_THROW_EXCEPTION")],
)  # fmt: skip
def test_it_deals_with_a_message_when_told(
    broker: RunningBroker, in_order: bool, returned: Any, expected: str
) -> None:
    address = broker.namesrv_addr
    topic = f"calls-direct-{in_order}-{expected}"
    create(address, topic)
    elsewhere = Kept()
    with consumer_of(address, f"{topic}-other", elsewhere) as reader:
        reader.subscribe(topic)
        send(address, numbers(topic, 7, 8))
        elsewhere.wait(1)

    def decide(messages: Any, context: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    kept = Kept(decide)
    create(address, f"{topic}-empty")
    with consumer_of(address, topic, kept, consume_orderly=in_order) as consumer:
        consumer.subscribe(f"{topic}-empty")
        fields = {
            "consumerGroup": topic, "clientId": consumer.client_id, "topic": topic,
            "msgId": elsewhere.messages[0].offset_message_id,
        }  # fmt: skip
        found = ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
        assert kept.bodies == [7]
        assert kept.messages[0].topic == topic
        assert (found["consumeResult"], found["order"]) == (expected, in_order)
        assert ("of the user" in (found.get("remark") or "")) == isinstance(returned, Exception)
        with pytest.raises(RemoteError):
            ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, {**fields, "consumerGroup": "none"})
