"""Heartbeats: handlers of heartbeat 34, unregister 35, member list 38, config check 46.

    34 body  {"clientID":"10.0.0.9@123#456","producerDataSet":[{"groupName":"p"}],
              "consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY",
                "messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet":[{"topic":"t","subString":"*","subVersion":1}],
                "unitMode":false}],
              "heartbeatFingerprint":0,"withoutSub":false}

The reply's field IS_SUPPORT_HEART_BEAT_V2 tells 5.x clients that later heartbeats may leave the
subscriptions out (withoutSub) while the fingerprint stays the same. IS_SUB_CHANGE asks for a full
heartbeat, when another member of the group has sent another fingerprint, or the group's
subscriptions are not known here.

A heartbeat with too many groups, subscriptions, or characters in them is refused.

consumeType, messageModel and consumeFromWhere may also be numbers, as the C++ client sends them.

A group of a heartbeat that is illegal or unknown is skipped with a log line; the others count.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from rmq import names
from rmq.base.clock import now_ms
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.clients import subscription_filters
from rmq.broker.clients.client import Client
from rmq.broker.clients.consumers import (
    CLUSTERING,
    CONSUME_TYPES,
    MESSAGE_MODELS,
    START_POINTS,
    ConsumerTable,
)
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.clients.subscription import TAG, Subscription, tag_codes
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.json_members import bool_member, int_member, list_member, text_member
from rmq.broker.siblings import Siblings
from rmq.broker.tables.groups import GroupConfig, GroupTable
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError, RmqError
from rmq.format import fastjson
from rmq.limits import HEARTBEAT_GROUPS_MAX, HEARTBEAT_SUBSCRIPTIONS_MAX
from rmq.refusal import Refusal

quiet = RateLimitedLog(logging.getLogger("rmq.broker.heartbeats"))

# Of all subscriptions of a heartbeat together. RocketMQ has no such limit, but a frame has room for
# so much SQL92 that it would take a minute to compile, in which nobody else would be served.
EXPRESSION_CHARACTERS_MAX = 1 << 18


class Context(subscription_filters.FilterContext, Protocol):
    """What these handlers use of the broker."""

    consumers: ConsumerTable
    groups: GroupTable
    producers: ProducerTable
    siblings: Siblings
    topics: TopicTable


RetryTopic = tuple[GroupConfig, bool, bool]  # (the group, unit mode, whether the topic exists)


def heart_beat(context: Context, request: Request) -> Awaitable[Reply]:
    body = request.json_body()
    command = request.command
    client_id = text_member(body, "clientID")
    if not names.is_client_id(client_id):
        raise ProtocolError("clientID of the heartbeat is empty, too long or not printable")
    client = Client(
        request.connection, client_id, command.language, command.version, now_ms(),
        request.account,
    )  # fmt: skip
    fingerprint = int_member(body, "heartbeatFingerprint", 0)
    without_subscriptions = fingerprint != 0 and bool_member(body, "withoutSub", False)
    consumers = list_member(body, "consumerDataSet")
    producers = list_member(body, "producerDataSet")
    if len(consumers) + len(producers) > HEARTBEAT_GROUPS_MAX:
        raise ProtocolError(f"a heartbeat of more than {HEARTBEAT_GROUPS_MAX} groups")
    _check_sizes(consumers)
    stale = fingerprint == 0
    retry_topics: list[RetryTopic] = []
    for data in consumers:
        stale |= _consumer(context, client, data, fingerprint, without_subscriptions, retry_topics)
    for data in producers:
        _producer(context, client, data)
    return _finish(context, request, retry_topics, stale)


def _check_sizes(consumers: list[Any]) -> None:
    """Checks the heartbeat's size before anything of it is used. Members of a wrong type are
    refused later, where they are read."""
    count = characters = 0
    for data in consumers:
        items = data.get("subscriptionDataSet") if isinstance(data, Mapping) else None
        if not isinstance(items, list):
            continue
        count += len(items)
        if count > HEARTBEAT_SUBSCRIPTIONS_MAX:
            raise ProtocolError(
                f"a heartbeat of more than {HEARTBEAT_SUBSCRIPTIONS_MAX} subscriptions"
            )
        for item in items:
            text = item.get("subString") if isinstance(item, Mapping) else None
            characters += len(text) if isinstance(text, str) else 0
    if characters > EXPRESSION_CHARACTERS_MAX:
        raise ProtocolError(
            f"a heartbeat whose subscriptions have {characters} characters: at most"
            f" {EXPRESSION_CHARACTERS_MAX} are allowed"
        )


async def _finish(
    context: Context, request: Request, retry_topics: list[RetryTopic], stale: bool
) -> Reply:
    for group, unit_mode, is_there in retry_topics:
        try:
            await context.topics.create_retry(group.name, group.retry_queues, unit_mode)
        except RmqError as error:
            if not is_there:  # it was made because of this heartbeat
                raise
            quiet.warning("retry topic", "retry topic of group %s: %s", group.name, error)
    return request.command.reply(fields={"IS_SUPPORT_HEART_BEAT_V2": True, "IS_SUB_CHANGE": stale})


def _consumer(
    context: Context,
    client: Client,
    data: Any,
    fingerprint: int,
    without_subscriptions: bool,
    retry_topics: list[RetryTopic],
) -> bool:
    """Takes one ConsumerData; True when the client should send its subscriptions in full."""
    if not isinstance(data, Mapping):
        raise ProtocolError("consumerDataSet of the heartbeat holds something else than objects")
    name = text_member(data, "groupName")
    config = context.groups.find_or_create(name)
    if config is None:
        quiet.warning(
            "unknown group",
            "heartbeat of %s: group %.200r is skipped: %s",
            client.connection.address,
            name,
            names.group_fault(name) or "it does not exist and may not be created by consumers",
        )
        return False
    retry = names.retry_topic(name)
    if names.topic_fault(retry) is None and not context.topics.is_made(retry):
        unit_mode = bool_member(data, "unitMode", False)
        retry_topics.append((config, unit_mode, retry in context.topics))
    how = (
        _one_of(CONSUME_TYPES, data, "consumeType", "CONSUME_PASSIVELY"),
        _one_of(MESSAGE_MODELS, data, "messageModel", CLUSTERING),
        _one_of(START_POINTS, data, "consumeFromWhere", START_POINTS[0]),
    )
    subscriptions = None
    if not without_subscriptions:
        items = list_member(data, "subscriptionDataSet")
        subscriptions = _subscriptions(context, client, name, items)
    known = context.consumers.get(name)
    # The group may be known without subscriptions: after a restart a heartbeat without them makes
    # the group before a full one comes.
    stale = without_subscriptions and (known is None or not known.subscriptions)
    stale |= known is not None and known.fingerprint not in (0, fingerprint)
    context.consumers.register(name, client, how, subscriptions)
    known = context.consumers.get(name)
    if known is not None:
        known.fingerprint = fingerprint
    return stale


def _subscriptions(
    context: Context, client: Client, group: str, items: list[Any]
) -> list[Subscription]:
    """The legal subscriptions; the others are logged and left out. A wrong filter is logged but
    kept, so that pulls are answered with what is wrong with it."""
    found = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ProtocolError("subscriptionDataSet of the heartbeat holds other than objects")
        subscription = Subscription.of(item)
        fault = names.topic_fault(subscription.topic)
        if fault is None and subscription.is_tag and not subscription.class_filter:
            try:
                tag_codes(subscription.expression)
            except ValueError as error:
                fault = str(error)
        if fault is None:
            found.append(subscription)
            fault = subscription_filters.fault(context, subscription)
            if fault is not None:
                quiet.warning(
                    f"filter {group} {subscription.topic}",
                    "heartbeat of %s: pulls of group %s from topic %s will be refused: %s",
                    client.connection.address, group, subscription.topic, fault,
                )  # fmt: skip
        else:
            quiet.warning(
                "subscription",
                "heartbeat of %s: a subscription of group %s is skipped: %s",
                client.connection.address, group, fault,
            )  # fmt: skip
    return found


def _one_of(known: tuple[str, ...], data: Mapping[str, Any], name: str, default: str) -> str:
    """The member's value if it is a known name, else the default: every client must be able to read
    it back in code 203. The C++ client sends the position in RocketMQ's enum instead."""
    value = data.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return known[value] if 0 <= value < len(known) else default
    text = text_member(data, name, "")
    return text if text in known else default


def _producer(context: Context, client: Client, data: Any) -> None:
    if not isinstance(data, Mapping):
        raise ProtocolError("producerDataSet of the heartbeat holds something else than objects")
    name = text_member(data, "groupName")
    fault = names.group_fault(name)
    if fault is not None:
        quiet.warning("producer", "heartbeat of %s: %s", client.connection.address, fault)
        return
    context.producers.register(name, client)


def unregister_client(context: Context, request: Request) -> Reply:
    command = request.command
    command.require("clientID")
    producer_group = command.text_field("producerGroup")
    consumer_group = command.text_field("consumerGroup")
    if producer_group:
        context.producers.unregister(producer_group, request.connection)
    if consumer_group:
        context.consumers.unregister(consumer_group, request.connection)
    return command.reply()


def get_consumer_list(context: Context, request: Request) -> Reply:
    name = request.command.require("consumerGroup")
    group = context.consumers.get(name)
    own = [client.client_id for client in group.clients.values()] if group is not None else []
    ids = list(dict.fromkeys([*own, *context.siblings.client_ids(name)]))
    if not ids:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name[:300]}")
    return request.command.reply(body=fastjson.dumps({"consumerIdList": ids}))


def check_client_config(context: Context, request: Request) -> Reply:
    data = request.json_body().get("subscriptionData")
    if not isinstance(data, Mapping):
        return request.command.reply()
    subscription = Subscription.of(data)
    if subscription.class_filter:
        raise subscription_filters.refuse_class_filter()
    if subscription.kind != TAG:
        subscription_filters.check(context, subscription.kind, subscription.expression)
    return request.command.reply()


HANDLERS: dict[int, Handler[Context]] = {
    Code.HEART_BEAT: heart_beat,
    Code.UNREGISTER_CLIENT: unregister_client,
    Code.GET_CONSUMER_LIST_BY_GROUP: get_consumer_list,
    Code.CHECK_CLIENT_CONFIG: check_client_config,
}
