"""370 RECALL_MESSAGE that the reactor did not take: it is refused, or the topic is told.

A recall is the reactor's work (cext/flow/delay/recall.pxd). It hands one over while it does not
know the topic, and while recalls are not to be taken. The checks are RocketMQ's, in its order:

    1   recallMessageEnable is false, as it is by default               16
    2   before startAcceptSendRequestTimeStamp; broker not writable
        and allowRecallWhenBrokerNotWriteable is false                  14
    3   topic unknown                                                   17

When none fails the frame goes back; the reactor never hands the same frame over twice, and judges
the handle.
"""

import time
from typing import TYPE_CHECKING

from rmq.broker.dispatch.request import Refusal, Reply, Request
from rmq.broker.tables.topic_config import PERM_WRITE
from rmq.codes import ResponseCode

if TYPE_CHECKING:
    from rmq.broker.broker import Broker


def recall(broker: "Broker", request: Request) -> Reply:
    command, settings = request.command, broker.settings
    topic = command.require("topic")
    if not settings.recallMessageEnable:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    writable = settings.brokerPermission & PERM_WRITE or settings.allowRecallWhenBrokerNotWriteable
    if time.time() * 1000 < settings.startAcceptSendRequestTimeStamp or not writable:
        raise Refusal(
            ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
        )
    if broker.topics.get(topic) is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic:.255}] not exist"
        )
    broker.topics.tell_core(topic)
    broker.core.resubmit(request.connection.number, request.frame)
    return None
