"""Pops: handlers of pops that the reactor passes on to control: 200050, -52, -54, -55.

It passes on pops whose topic or group it does not know or must not serve, and those with an SQL92
expression that it has not seen. The checks are RocketMQ's, in its order:

    broker not readable                                     16
    topic unknown                                           17
    topic not readable                                      16
    queueId beyond the read queues                          29
    group unknown and may not be made                       26
    group may not consume                                   16
    expression not readable, or of an unknown type          23
    SQL92, and enablePropertyFilter=false                   1
    a message filter of the broker's owner                  23

When none applies, the reactor gets topic, group and expression, and the request goes back; the
reactor never hands the same frame over twice.

Example: the first pop of a new group: the group is made and the pop is served.
"""

from typing import Protocol

from rmq.broker.clients import subscription_filters
from rmq.broker.clients.subscription import TAG, tag_codes
from rmq.broker.core_seam import ConnectionCalls, GroupCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.topics import TopicTable
from rmq.codes import PERM_READ, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.limits import I32_MAX, I32_MIN, PULL_EXPRESSION_BYTES_MAX
from rmq.refusal import Refusal


class CoreCalls(ConnectionCalls, GroupCalls, Protocol):
    """What is used here of the core."""


class Context(subscription_filters.FilterContext, Protocol):
    """What these handlers use of the broker."""

    groups: GroupTable
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...


def pop(context: Context, request: Request) -> Reply:
    command = request.command
    group_name, topic_name = command.require("consumerGroup"), command.require("topic")
    queue_id = command.int_field("queueId", minimum=I32_MIN, maximum=I32_MAX)
    settings = context.settings
    if not settings.brokerPermission & PERM_READ:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{settings.brokerIP1}] does not serve pops at present",
        )
    topic = context.topics.require(topic_name)
    if not topic.perm & PERM_READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic[{topic_name}] may not be read")
    if queue_id >= topic.read_queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal: topic[{topic_name}] has "
            f"{topic.read_queues} read queues",
        )
    group = context.groups.require(group_name)
    if not group.consume_enable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"subscription group {group_name} may not consume"
        )
    _check_expression(context, request)
    context.topics.put_in_core(topic_name)
    context.groups.put_in_core(group_name)
    context.core.resubmit(request.connection.number, request.frame)
    return None


def again(context: Context, request: Request) -> Reply:
    """Sends back pops that came before topics and offsets were loaded: they can be served now."""
    context.core.resubmit(request.connection.number, request.frame)
    return None


def _check_expression(context: Context, request: Request) -> None:
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
    program, function = subscription_filters.check(context, kind, text)
    plain = text.encode()
    if function or len(plain) > PULL_EXPRESSION_BYTES_MAX:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "a pop may not name a message filter" if function else
            f"a pop may bring an expression of {PULL_EXPRESSION_BYTES_MAX} bytes, this one has "
            f"{len(plain)}",
        )  # fmt: skip
    context.core.put_expression(plain, program, function)


HANDLERS: dict[int, Handler[Context]] = {
    Code.POP_MESSAGE: pop,
    Code.PEEK_MESSAGE: pop,
    Code.NOTIFICATION: pop,
    Code.POLLING_INFO: pop,
    Code.ACK_MESSAGE: again,
    Code.BATCH_ACK_MESSAGE: again,
    Code.CHANGE_MESSAGE_INVISIBLETIME: again,
}
