"""Offset resets: 222 INVOKE_BROKER_TO_RESET_OFFSET moves a group to a time or an offset.

    useServerSideResetOffset=true (as in RocketMQ 5)
        the offsets are stored and marked; the group's next pull of each queue is answered 21 with
        the new offset, and commits of its consumers until then do not count. Held pulls are
        answered at once. It makes no difference whether consumers are connected, and the reset
        survives a restart of the broker
    false (as in RocketMQ 4)
        220 goes to every connected consumer, which moves there and commits. If none is connected,
        the answer is 206, and mqadmin then sets the offsets itself. Without force no offset is
        moved forward

Time -1 is the end of the queue (skipAccumulatedMessage). queueId and offset name one queue and its
new offset (5.x); queueId without offset names one queue, which is moved by time.

Example: group g has read queue 0 of t up to 17. 222 with timestamp 20 finds offset 5 there; the
answer is {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:5}}.
"""

import logging
from typing import Any, Protocol

from rmq.broker.clients.broker_to_client import BrokerToClient
from rmq.broker.clients.client import Client
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.name_checks import check_group
from rmq.broker.requests.consumer_diagnosis import refuse_old
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command
from rmq.refusal import Refusal

log = logging.getLogger("rmq.broker.offset_resets")

ABSENT = -1


class Context(Protocol):
    """What these handlers use of the broker."""

    broker_to_client: BrokerToClient
    consumers: ConsumerTable
    groups: GroupTable
    offsets: OffsetTable
    queues: QueueReader
    settings: Settings
    topics: TopicTable


async def reset_offset(context: Context, request: Request) -> Reply:
    command = request.command
    topic = context.topics.require(command.require("topic"))
    group = check_group(command.require("group"))
    context.groups.require_present(group)
    time_ms = command.int_field("timestamp")
    force = command.bool_field("isForce")
    if context.settings.useServerSideResetOffset:
        table = _wanted(context, command, topic, time_ms)
        await context.offsets.reset(group, topic.name, table)
    else:
        table = _by_clients(context, topic, group, time_ms, force)
    log.info("offsets of group %s on topic %s are reset: %s", group, topic.name, table)
    return command.reply(body=fastjson.dumps({"offsetTable": _queues(context, topic, table)}))


def _by_clients(
    context: Context, topic: TopicConfig, group: str, time_ms: int, force: bool
) -> dict[int, int]:
    """Tells the group's consumers where to go on (220); returns queue id -> offset."""
    table = {}
    for queue_id in range(topic.write_queues):
        known = context.offsets.query(group, topic.name, queue_id)
        if known < 0:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR, f"the consumer group <{group}> has no offset to reset"
            )
        wanted = _offset_at(context, topic.name, queue_id, time_ms)
        table[queue_id] = wanted if force or wanted < known else known
    members = context.consumers.get(group)
    clients = list(members.clients.values()) if members is not None else []
    if not clients:
        raise Refusal(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"no consumer of group {group} is online: nobody to tell the new offsets of "
            f"topic {topic.name}",
        )
    for client in clients:
        refuse_old(client)
    queues = _queues(context, topic, table)
    fields = {"topic": topic.name, "group": group, "timestamp": str(time_ms), "isForce": "true"}
    for client in clients:
        call = Command(
            code=Code.RESET_CONSUMER_CLIENT_OFFSET,
            fields=dict(fields),
            body=_reset_body(client, queues),
        )
        context.broker_to_client.one_way(client.connection, call)
    return table


def _queues(context: Context, topic: TopicConfig, table: dict[int, int]) -> dict[MessageQueue, int]:
    name = context.settings.brokerName
    return {MessageQueue(topic.name, name, queue): offset for queue, offset in table.items()}


def _wanted(context: Context, command: Command, topic: TopicConfig, time_ms: int) -> dict[int, int]:
    """queue id -> new offset: for one queue as requested, or for one or all queues by time."""
    queue_id = command.int_field("queueId", ABSENT)
    requested = command.int_field("offset", ABSENT)
    if queue_id >= topic.queues:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"queueId {queue_id}: topic {topic.name} has {topic.queues} queues",
        )
    if queue_id >= 0 and requested != ABSENT:
        minimum, maximum = context.queues.range(topic.name, queue_id)
        if not minimum <= requested <= maximum + 1:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"offset {requested} is outside {minimum}..{maximum} of queue {queue_id}",
            )
        return {queue_id: requested}
    chosen = [queue_id] if queue_id >= 0 else range(topic.read_queues)
    if not chosen:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"topic {topic.name} has no queue to reset")
    return {each: _offset_at(context, topic.name, each, time_ms) for each in chosen}


def _offset_at(context: Context, topic: str, queue_id: int, time_ms: int) -> int:
    if time_ms < 0:
        return context.queues.range(topic, queue_id)[1]
    return context.queues.search(topic, queue_id, time_ms)


def _reset_body(client: Client, queues: dict[MessageQueue, int]) -> bytes:
    """The body of 220: a list for C++ clients, a map for all others."""
    if client.language != "CPP":
        return fastjson.dumps({"offsetTable": queues})
    rows: list[dict[str, Any]] = [
        {**queue.members(), "offset": offset} for queue, offset in queues.items()
    ]
    return fastjson.dumps({"offsetTable": rows})


HANDLERS: dict[int, Handler[Context]] = {
    Code.INVOKE_BROKER_TO_RESET_OFFSET: reset_offset,
}
