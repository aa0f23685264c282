"""BrokerCalls: requests of brokers to consumers, and the answers.

    40    the group's members have changed        the queues are shared out again; no answer
    220   go to these offsets                     {"offsetTable":{{queue}:offset}}; no answer
    221   how far are you                         {"messageQueueTable":{{queue}:offset}}
    307   what are you doing                      ConsumerRunningInfo, with all stacks if asked
    309   consume this message now                ConsumeMessageDirectlyResult; the body is a record

The thread of notices handles them. Only 309 gets a thread of its own, because it calls a listener,
which may take long.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from cext.client.message import decode_messages
from cext.client.reply import Reply
from rmq.client.connection.caller import Caller
from rmq.client.connection.heartbeats import Heartbeats
from rmq.client.connection.notices import Notices
from rmq.client.parameters import java_name, public_values
from rmq.codes import RequestCode, ResponseCode
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

CLIENT_VERSION = "V5_5_0"


class BrokerCalls:
    """The requests of brokers to one client; its consumers answer, through its notices."""

    def __init__(self, caller: Caller, members: Heartbeats, notices: Notices) -> None:
        self._caller = caller
        self._members = members
        self._notices = notices
        for code, handler in (
            (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._group_changed),
            (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, self._offsets_reset),
            (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._status),
            (RequestCode.GET_CONSUMER_RUNNING_INFO, self._running_info),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume_directly),
        ):
            notices.handle(code, handler)

    def _group_changed(self, request: Reply, address: str) -> None:
        consumer = self._members.consumer(request.fields.get("consumerGroup", ""))
        if consumer is not None:
            consumer.group_changed()
        self._notices.answer(address, request)

    def _offsets_reset(self, request: Reply, address: str) -> None:
        consumer = self._members.consumer(request.fields.get("group", ""))
        if consumer is not None and request.body:
            table = fastjson.loads_object(request.body).get("offsetTable") or {}
            consumer.offsets_reset(
                {queue: int(offset) for queue, offset in table.items()
                 if isinstance(queue, MessageQueue)}
            )  # fmt: skip
        self._notices.answer(address, request)

    def _status(self, request: Reply, address: str) -> None:
        consumer = self._members.consumer(request.fields.get("group", ""))
        topic = request.fields.get("topic", "")
        offsets = consumer.offsets_of(topic) if consumer is not None else {}
        body = fastjson.dumps({"messageQueueTable": offsets})
        self._notices.answer(address, request, body=body)

    def _refuse(self, request: Reply, address: str, group: str) -> None:
        remark = f"the consumer group <{group[:300]}> is not in this client"
        self._notices.answer(address, request, ResponseCode.SYSTEM_ERROR, remark=remark)

    def _running_info(self, request: Reply, address: str) -> None:
        group = request.fields.get("consumerGroup", "")
        consumer = self._members.consumer(group)
        if consumer is None:
            self._refuse(request, address, group)
            return
        info: dict[str, Any] = {
            "properties": {}, "subscriptionSet": [], "mqTable": {}, "mqPopTable": {},
            "statusTable": {}, "userConsumerInfo": {}, **consumer.running_info(),
        }  # fmt: skip
        info["properties"] = {
            **_settings(consumer), "PROP_CLIENT_VERSION": CLIENT_VERSION,
            "PROP_NAMESERVER_ADDR": ";".join(self._caller.name_servers) + ";",
            **info["properties"],
        }  # fmt: skip
        if request.fields.get("jstackEnable") == "true":
            info["jstack"] = stacks()
        self._notices.answer(address, request, body=fastjson.dumps(info))

    def _consume_directly(self, request: Reply, address: str) -> None:
        group = request.fields.get("consumerGroup", "")
        consume = getattr(self._members.consumer(group), "consume_directly", None)
        if consume is None:
            self._refuse(request, address, group)
            return
        (message,) = decode_messages(request, request.fields.get("brokerName", ""))

        def run() -> None:
            try:
                body = fastjson.dumps(consume(message))
            except Exception as error:
                remark = f"{type(error).__name__}: {error}"[:1000]
                self._notices.answer(address, request, ResponseCode.SYSTEM_ERROR, remark=remark)
                return
            self._notices.answer(address, request, body=body)

        threading.Thread(target=run, name="rmq-consume-directly", daemon=True).start()


def _settings(consumer: Any) -> dict[str, str]:
    """The parameters that are plain values, by RocketMQ's names, without secrets: everybody who
    may look at the group sees them."""
    return {
        java_name(name): str(value)
        for name, value in public_values(consumer.parameters).items()
        if isinstance(value, (int, str))
    }


def stacks() -> str:
    """The stack of every thread that holds Python frames."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(number, number)}\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    )
