"""Requests of brokers to consumers, and the answers.

    40    the group's members have changed        share the queues anew; no answer
    220   go to these offsets                     {"offsetTable":{{queue}:offset}}; no answer
    221   how far are you                         {"messageQueueTable":{{queue}:offset}}
    307   what are you doing                      ConsumerRunningInfo, with all stacks if asked
    309   deal with this message now              ConsumeMessageDirectlyResult; the body is a record

They come to the thread of notices; 309, whose listener may take its time, has a thread of its own.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from cext.client.message import decode_messages
from cext.client.reply import Reply
from rmq.client.parameters import java_name
from rmq.codes import RequestCode, ResponseCode
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from rmq.client.connecting.instance import ClientInstance

CLIENT_VERSION = "V5_5_0"


def answer_brokers(instance: ClientInstance) -> None:
    """From now on the requests above are handled."""
    for code, function in (
        (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, _group_changed),
        (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, _offsets_reset),
        (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, _status),
        (RequestCode.GET_CONSUMER_RUNNING_INFO, _running_info),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, _consume_directly),
    ):
        # bound here: the loop's name would be the last one's
        def handle(request: Reply, address: str, function: Any = function) -> None:
            function(instance, request, address)

        instance.notices.handle(code, handle)


def _group_changed(instance: ClientInstance, request: Reply, address: str) -> None:
    consumer = instance.heartbeats.consumer(request.fields.get("consumerGroup", ""))
    if consumer is not None:
        consumer.group_changed()
    instance.notices.answer(address, request)


def _offsets_reset(instance: ClientInstance, request: Reply, address: str) -> None:
    consumer = instance.heartbeats.consumer(request.fields.get("group", ""))
    if consumer is not None and request.body:
        table = fastjson.loads_object(request.body).get("offsetTable") or {}
        consumer.offsets_reset(
            {queue: int(offset) for queue, offset in table.items()
             if isinstance(queue, MessageQueue)}
        )  # fmt: skip
    instance.notices.answer(address, request)


def _status(instance: ClientInstance, request: Reply, address: str) -> None:
    consumer = instance.heartbeats.consumer(request.fields.get("group", ""))
    offsets = consumer.offsets_of(request.fields.get("topic", "")) if consumer is not None else {}
    body = fastjson.dumps({"messageQueueTable": offsets})
    instance.notices.answer(address, request, body=body)


def _refuse(instance: ClientInstance, request: Reply, address: str, group: str) -> None:
    remark = f"the consumer group <{group[:300]}> is not in this client"
    instance.notices.answer(address, request, ResponseCode.SYSTEM_ERROR, remark=remark)


def _running_info(instance: ClientInstance, request: Reply, address: str) -> None:
    group = request.fields.get("consumerGroup", "")
    consumer = instance.heartbeats.consumer(group)
    if consumer is None:
        _refuse(instance, request, address, group)
        return
    info: dict[str, Any] = {
        "properties": {}, "subscriptionSet": [], "mqTable": {}, "mqPopTable": {},
        "statusTable": {}, "userConsumerInfo": {}, **consumer.running_info(),
    }  # fmt: skip
    info["properties"] = {
        **_settings(consumer), "PROP_NAMESERVER_ADDR": ";".join(instance.name_servers) + ";",
        "PROP_CLIENT_VERSION": CLIENT_VERSION, **info["properties"],
    }  # fmt: skip
    if request.fields.get("jstackEnable") == "true":
        info["jstack"] = stacks()
    instance.notices.answer(address, request, body=fastjson.dumps(info))


def _settings(consumer: Any) -> dict[str, str]:
    """The parameters that are plain values, by RocketMQ's names."""
    return {
        java_name(name): str(value)
        for name, value in vars(consumer.parameters).items()
        if isinstance(value, (int, str))
    }


def stacks() -> str:
    """The stack of every thread that holds Python frames."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(number, number)}\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    )


def _consume_directly(instance: ClientInstance, request: Reply, address: str) -> None:
    group = request.fields.get("consumerGroup", "")
    consumer = instance.heartbeats.consumer(group)
    consume = getattr(consumer, "consume_directly", None)
    if consume is None:
        _refuse(instance, request, address, group)
        return
    (message,) = decode_messages(request, request.fields.get("brokerName", ""))

    def run() -> None:
        try:
            body = fastjson.dumps(consume(message))
        except Exception as error:
            remark = f"{type(error).__name__}: {error}"[:1000]
            instance.notices.answer(address, request, ResponseCode.SYSTEM_ERROR, remark=remark)
            return
        instance.notices.answer(address, request, body=body)

    threading.Thread(target=run, name="rmq-consume-directly", daemon=True).start()
