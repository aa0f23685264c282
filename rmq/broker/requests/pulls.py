"""Pulls: the handler of pulls that the reactor passes on to control: 11, 361.

It passes on pulls whose topic, group or subscription it does not know or must not serve; pulls of a
logical queue whose messages are on another broker, which is asked for them (logic_queues.py); and
pulls with more header fields than it reads (64), which it refuses with 1 when they come back. The
checks are RocketMQ's, in its order:

    1   broker not readable                                               16
    2   361 with litePullMessageEnable=false                              16
    3   group unknown and may not be made                                 26
    4   group may not consume                                             16
    5   topic unknown                                                     17
    6   topic not readable                                                16
    6b  a logical queue that another broker leads                         501
    7   queueId beyond the read queues                                    29
    8   a class filter (sysFlag bit 8)                                    23
        with subscription text (sysFlag bit 4): not readable as tags      23
        not readable as SQL92, or of an unknown type                      23
        SQL92, and enablePropertyFilter=false                             1
    8b  without: no consumer of the group has sent a heartbeat            24
        broadcasting, and the group may not                               16
        the group is forbidden to read the topic                          16
        the group does not subscribe the topic                            24
        the subscription known here is older than the request's           25
        its SQL92 expression is wrong, or of an unknown type              27
        SQL92, and enablePropertyFilter=false                             1

When none applies, the reactor gets topic, group and subscriptions, and the pull goes back to it; it
never passes the same frame on twice.

Example: a pull before the group's first heartbeat gets 24; the Java client asks again in 3 s.
"""

from collections.abc import Awaitable
from typing import Protocol

from rmq.broker.clients import subscription_filters
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.clients.subscription import TAG, tag_codes
from rmq.broker.core_seam import ConnectionCalls, GroupCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.requests import logic_queues
from rmq.broker.tables.groups import GroupConfig, GroupTable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import FLAG_CLASS_FILTER, FLAG_SUBSCRIPTION, PERM_READ, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.limits import I32_MAX, I32_MIN, PULL_EXPRESSION_BYTES_MAX
from rmq.refusal import Refusal

_REQUIRED = ("queueOffset", "maxMsgNums", "commitOffset", "suspendTimeoutMillis")


class CoreCalls(ConnectionCalls, GroupCalls, Protocol):
    """What is used here of the core."""


class Context(subscription_filters.FilterContext, logic_queues.Context, Protocol):
    """What these handlers use of the broker."""

    consumers: ConsumerTable
    groups: GroupTable
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...


def pull(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    command = request.command
    group_name, topic_name = command.require("consumerGroup"), command.require("topic")
    queue_id = command.int_field("queueId", minimum=I32_MIN, maximum=I32_MAX)
    sys_flag = command.int_field("sysFlag", minimum=I32_MIN, maximum=I32_MAX)
    version = command.int_field("subVersion")
    for name in _REQUIRED:
        command.int_field(name)
    _check_broker(context, request)
    group = context.groups.require(group_name)
    if not group.consume_enable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"subscription group {group_name} may not consume"
        )
    topic = _readable(context, topic_name)
    logical = logic_queues.logic_queue(context, command, topic_name, queue_id)
    if logical is not None:
        item = logical.item_of(command.int_field("queueOffset"))
        if not logical.is_here(item):
            return logical.pull(command)
        queue_id = item.queue_id
    if not 0 <= queue_id < topic.read_queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal: topic[{topic_name}] has "
            f"{topic.read_queues} read queues",
        )
    if sys_flag & FLAG_CLASS_FILTER:
        raise subscription_filters.refuse_class_filter()
    if sys_flag & FLAG_SUBSCRIPTION:
        _check_text(context, request)
    else:
        _check_registered(context, group, topic_name, version)
    context.topics.put_in_core(topic_name)
    context.groups.put_in_core(group_name)
    context.consumers.push_again(group_name)
    context.core.resubmit(request.connection.number, request.frame)
    return None


def _check_broker(context: Context, request: Request) -> None:
    settings = context.settings
    if not settings.brokerPermission & PERM_READ:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{settings.brokerIP1}] does not serve pulls at present",
        )
    lite = request.command.code == Code.LITE_PULL_MESSAGE
    if lite and not settings.litePullMessageEnable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, "lite pull consumers are switched off on this broker"
        )


def _readable(context: Context, topic_name: str) -> TopicConfig:
    topic = context.topics.require(topic_name)
    if not topic.perm & PERM_READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic[{topic_name}] may not be read")
    return topic


def _check_text(context: Context, request: Request) -> None:
    command = request.command
    kind = command.text_field("expressionType") or TAG
    text = command.text_field("subscription") or ""
    if kind != TAG:
        program, function = subscription_filters.check(context, kind, text)
        plain = text.encode()
        if len(plain) > PULL_EXPRESSION_BYTES_MAX:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"a pull may bring an expression of {PULL_EXPRESSION_BYTES_MAX} bytes, this one "
                f"has {len(plain)}; subscribe to it",
            )
        context.core.put_expression(plain, program, function)
        return
    try:
        tag_codes(text)
    except ValueError as error:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"subscription: {error}") from None


def _check_registered(context: Context, group: GroupConfig, topic_name: str, version: int) -> None:
    members = context.consumers.get(group.name)
    if members is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"no consumer of group {group.name} has sent a heartbeat yet",
        )
    if members.broadcasting and not group.consume_broadcast_enable:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"group {group.name} may not consume by broadcasting"
        )
    if not context.groups.may_read(group.name, topic_name):
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"group {group.name} is forbidden to read topic[{topic_name}]",
        )
    subscription = members.subscriptions.get(topic_name)
    if subscription is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"group {group.name} does not subscribe topic[{topic_name}]",
        )
    if subscription.version < version:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            f"the subscription of topic[{topic_name}] known here is of {subscription.version}, "
            f"the request's of {version}",
        )
    if subscription.class_filter:
        raise subscription_filters.refuse_class_filter()
    if not subscription.is_tag:
        subscription_filters.check(
            context, subscription.kind, subscription.expression, ResponseCode.FILTER_DATA_NOT_EXIST
        )


HANDLERS: dict[int, Handler[Context]] = {
    Code.PULL_MESSAGE: pull,
    Code.LITE_PULL_MESSAGE: pull,
}
