"""Recalls: requests 370 RECALL_MESSAGE that the reactor passes on; refused, or sent back to it.

The reactor does recalls (cext/flow/send/recall.pxd). It passes one on when it does not know the
topic, and while recalls must not be taken. The checks are RocketMQ's, in its order:

    1   recallMessageEnable is false, as it is by default               16
    2   before startAcceptSendRequestTimeStamp; broker not writable
        and allowRecallWhenBrokerNotWriteable is false                  14
    3   topic unknown                                                   17

When none fails, the reactor gets the topic and the frame goes back; it never hands the same frame
over twice, and judges the handle.
"""

from typing import Protocol

from rmq.base import clock
from rmq.broker.core_seam import ConnectionCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.tables.topics import TopicTable
from rmq.codes import PERM_WRITE, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.refusal import Refusal


class Context(Protocol):
    """What these handlers use of the broker."""

    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> ConnectionCalls: ...


def recall(context: Context, request: Request) -> Reply:
    command, settings = request.command, context.settings
    topic = command.require("topic")
    if not settings.recallMessageEnable:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    writable = settings.brokerPermission & PERM_WRITE or settings.allowRecallWhenBrokerNotWriteable
    if clock.wall() * 1000 < settings.startAcceptSendRequestTimeStamp or not writable:
        raise Refusal(
            ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
        )
    if context.topics.get(topic) is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic:.255}] not exist"
        )
    context.topics.put_in_core(topic)
    context.core.resubmit(request.connection.number, request.frame)
    return None


HANDLERS: dict[int, Handler[Context]] = {
    Code.RECALL_MESSAGE: recall,
}
