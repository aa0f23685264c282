"""Topics: handlers of 17 create or update, 18 many, 21 all, 215 delete, 305 system, 351 one, and
513 create or update a static topic.

Names, permissions and numbers are checked before anything changes: illegal ones get 29 with the
reason, illegal attributes get 1. The reply to a change is sent when topics.json and the name
servers have it (siblings.py), so that the next question for a route gets the right answer.

Example: 17 with topic "a b" is answered with code 29 and
"the topic 'a b' holds characters outside ^[%|a-zA-Z0-9_-]+$".
"""

from collections.abc import Mapping
from typing import Any, Protocol

from rmq import names
from rmq.broker.dispatch.body_cache import BodyCache
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.json_members import list_member
from rmq.broker.name_checks import check_topic
from rmq.broker.tables import attributes
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.queue_mapping import read_mapping
from rmq.broker.tables.queue_mappings import QueueMappings
from rmq.broker.tables.topic_config import (
    FILTER_TYPES,
    PERM_MAX,
    TopicConfig,
)
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.refusal import Refusal

TOPICS_MAX = 10_000  # of one request 18; RocketMQ has no such limit


class Context(Protocol):
    """What these handlers use of the broker."""

    bodies: BodyCache
    groups: GroupTable
    offsets: OffsetTable
    queue_mappings: QueueMappings
    settings: Settings
    topics: TopicTable


async def update_topic(context: Context, request: Request) -> Reply:
    await context.topics.update(_requested(context, request.command))
    return request.command.reply()


async def update_static_topic(context: Context, request: Request) -> Reply:
    """513. The mapping is made first, so that the topic is never visible without its mapping."""
    command = request.command
    config = _requested(context, command)
    mapping = read_mapping(command.body)
    reason = mapping.fault(config.name, context.settings.brokerName)
    if reason:
        raise Refusal(ResponseCode.INVALID_PARAMETER, reason)
    for queue_id, chain in mapping.hosted_queues.items():
        for item in chain:
            if item.bname == mapping.bname and item.queue_id >= config.write_queues:
                raise Refusal(
                    ResponseCode.INVALID_PARAMETER,
                    f"logical queue {queue_id} lies in queue {item.queue_id} of this broker, and "
                    f"writeQueueNums is {config.write_queues}",
                )
    await context.queue_mappings.put(mapping, bool(command.bool_field("force", False)))
    await context.topics.update(config)
    return command.reply()


def _requested(context: Context, command: Command) -> TopicConfig:
    """The topic that a request's fields describe."""
    topic = check_topic(command.require("topic"))
    _refuse_system(context, topic)
    present = context.topics.get(topic)
    filter_type = command.text_field("topicFilterType") or FILTER_TYPES[0]
    if filter_type not in FILTER_TYPES:
        raise ProtocolError(f"topicFilterType is {filter_type[:50]!r}, not SINGLE_TAG or MULTI_TAG")
    return TopicConfig(
        topic,
        _limited(command, "readQueueNums", TOPIC_QUEUES_MAX),
        _limited(command, "writeQueueNums", TOPIC_QUEUES_MAX),
        _limited(command, "perm", PERM_MAX),
        order=command.bool_field("order", False),
        filter_type=filter_type,
        sys_flag=command.int_field("topicSysFlag", 0, -(2**31), 2**31 - 1),
        attributes=_altered(
            context, present, attributes.changes_of_text(command.text_field("attributes") or "")
        ),
    )


async def update_topics(context: Context, request: Request) -> Reply:
    items = list_member(request.json_body(), "topicConfigList")
    if len(items) > TOPICS_MAX:
        raise ProtocolError(f"a request for more than {TOPICS_MAX} topics")
    topics = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ProtocolError("topicConfigList of the body holds something else than topics")
        topic = _with_attributes(context, item)
        _refuse_system(context, topic.name)
        topics.append(topic)
    await context.topics.update(*topics)
    return request.command.reply()


def _with_attributes(context: Context, item: Mapping[str, Any]) -> TopicConfig:
    """A topic of request 18; its attributes are changes ("+key": value), not final values."""
    changes = item.get("attributes") or {}
    if not isinstance(changes, Mapping):
        raise ProtocolError("member attributes of a topic is not an object")
    topic = TopicConfig.of({**item, "attributes": {}})
    texts = {str(key): str(value) for key, value in changes.items()}
    altered = _altered(context, context.topics.get(topic.name), texts)
    return TopicConfig.of({**topic.members(), "attributes": altered})


def _altered(
    context: Context, present: TopicConfig | None, changes: Mapping[str, str]
) -> dict[str, str]:
    if changes.get("+message.type") == "MIXED" and not context.settings.enableMixedMessageType:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            "MIXED message type is not supported: set enableMixedMessageType=true for it",
        )
    current = present.attributes if present is not None else {}
    return attributes.altered(attributes.TOPIC, current, changes, creating=present is None)


async def delete_topic(context: Context, request: Request) -> Reply:
    topic = check_topic(request.command.require("topic"))
    _refuse_system(context, topic)
    for group in context.groups.all():
        for retry in names.pop_retry_topics(group, topic):
            # The retry topic of group eu and topic orders is also that of a group eu_orders.
            if context.groups.get(retry.removeprefix(names.RETRY_PREFIX)) is not None:
                continue
            if await context.topics.delete(retry):
                context.offsets.remove_topic(retry)
    await context.topics.delete(topic)
    await context.queue_mappings.saved()
    context.offsets.remove_topic(topic)
    await context.offsets.save()  # a crash must not give them to a new topic of the same name
    return request.command.reply()


def get_all_topics(context: Context, request: Request) -> Reply:
    """All topics, or with topicSeq and maxTopicNum a slice of them in order of name."""
    command = request.command
    table = context.topics.all()
    first = command.int_field("topicSeq", 0, 0)
    count = command.int_field("maxTopicNum", len(table), 0)
    version = context.topics.version
    mappings = context.queue_mappings
    with_deleted = command.bool_field("rmqDeleted", False)

    def make() -> bytes:
        names = sorted(table)[first : first + count]
        return fastjson.dumps(
            {
                "dataVersion": version.members(),
                "mappingDataVersion": mappings.version.members(),
                "topicConfigTable": {name: table[name].members() for name in names},
                "topicQueueMappingDetailMap": {
                    name: mapping.members()
                    for name in names
                    if (mapping := mappings.get(name)) is not None
                },
                "topicQueueMappingInfoMap": {},
                **({"rmqDeletedTopics": context.topics.deleted()} if with_deleted else {}),
            }
        )

    of = (version.key, mappings.version.key, len(mappings), len(table), first, count)
    if with_deleted:
        of_deleted = (of, context.topics.deletions)
        body = context.bodies.of_version("topics of a slave", of_deleted, make)
    else:
        body = context.bodies.of_version("topics", of, make)
    return command.reply(fields={"totalTopicNum": len(table)}, body=body)


def get_topic(context: Context, request: Request) -> Reply:
    """351: one topic; with lo=true also the mapping of a static topic."""
    command = request.command
    topic = context.topics.require(command.require("topic"))
    members = topic.members()
    mapping = context.queue_mappings.get(topic.name)
    if mapping is not None and command.bool_field("lo", False):
        members = {**members, "mappingDetail": mapping.members()}
    return command.reply(body=fastjson.dumps(members))


def get_system_topics(context: Context, request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps({"topicList": context.topics.system_names()}))


def _refuse_system(context: Context, topic: str) -> None:
    if context.settings.validateSystemTopicWhenUpdateTopic and context.topics.is_system(topic):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"topic {topic} belongs to the system")


def _limited(command: Command, name: str, maximum: int) -> int:
    """A required number from 0 to maximum; outside it the request gets 29, not 1."""
    value = command.int_field(name)
    if not 0 <= value <= maximum:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"{name} is {value}: outside 0..{maximum}")
    return int(value)


HANDLERS: dict[int, Handler[Context]] = {
    Code.UPDATE_AND_CREATE_TOPIC: update_topic,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: update_topics,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: update_static_topic,
    Code.DELETE_TOPIC_IN_BROKER: delete_topic,
    Code.GET_ALL_TOPIC_CONFIG: get_all_topics,
    Code.GET_TOPIC_CONFIG: get_topic,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: get_system_topics,
}
