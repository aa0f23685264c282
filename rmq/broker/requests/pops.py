"""Handler of what consumers that pop ask and the reactor hands over: 200050, -52, -54, -55.

That is: a topic or group unknown to it or not to be consumed, or an SQL92 expression it has not
seen. The checks are RocketMQ's, in its order:

    broker not readable                                     16
    topic unknown                                           17
    topic not readable                                      16
    queueId beyond the read queues                          29
    group unknown and not to be made                        26
    group may not consume                                   16
    expression not readable, or of an unknown type          23
    SQL92, and enablePropertyFilter=false                   1
    a message filter of the broker's owner                  23

When none applies the reactor is told topic, group and expression, and the request goes back; the
reactor never hands the same frame over twice. A binary header has no room for these codes (wire.md
1.4), so dispatch knows them by their last 16 bits as well.

Example: the first pop of a group that nobody made: the group is made and the pop served.
"""

from typing import TYPE_CHECKING

from rmq.broker.clients import subscription_filters
from rmq.broker.clients.subscription import TAG, tag_codes
from rmq.broker.dispatch.request import Refusal, Reply, Request
from rmq.broker.tables.topic_config import PERM_READ
from rmq.codes import ResponseCode

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

EXPRESSION_BYTES_MAX = 10_000
_I32 = (-(2**31), 2**31 - 1)


def pop(broker: "Broker", request: Request) -> Reply:
    command = request.command
    group_name, topic_name = command.require("consumerGroup"), command.require("topic")
    queue_id = command.int_field("queueId", minimum=_I32[0], maximum=_I32[1])
    settings = broker.settings
    if not settings.brokerPermission & PERM_READ:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{settings.brokerIP1}] does not serve pops at present",
        )
    topic = broker.topics.require(topic_name)
    if not topic.perm & PERM_READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic[{topic_name}] may not be read")
    if queue_id >= topic.read_queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal: topic[{topic_name}] has "
            f"{topic.read_queues} read queues",
        )
    group = broker.groups.require(group_name)
    if not group.consume_enable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"subscription group {group_name} may not consume"
        )
    _check_expression(broker, request)
    broker.topics.tell_core(topic_name)
    broker.groups.tell_core(group_name)
    broker.core.resubmit(request.connection.number, request.frame)
    return None


def again(broker: "Broker", request: Request) -> Reply:
    """What came before topics and offsets were loaded, which they are now."""
    broker.core.resubmit(request.connection.number, request.frame)
    return None


def _check_expression(broker: "Broker", request: Request) -> None:
    kind = request.command.text_field("expType") or TAG
    text = request.command.text_field("exp") or ""
    if not text:
        return
    if kind == TAG:
        try:
            tag_codes(text)
        except ValueError as error:
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"exp: {error}") from None
        return
    program, function = subscription_filters.check(broker, kind, text)
    plain = text.encode()
    if function or len(plain) > EXPRESSION_BYTES_MAX:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "a pop may not name a message filter" if function else
            f"a pop may bring an expression of {EXPRESSION_BYTES_MAX} bytes, this one has "
            f"{len(plain)}",
        )  # fmt: skip
    broker.core.put_expression(plain, program, function)
