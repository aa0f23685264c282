"""Offsets: handlers of 14 query, 15 update, 43 all, 308 correction, 314 clone.

If a group has no offset on a queue, 14 is answered with 0 when the queue still starts at 0 and its
message 0 is still in memory, whatever the consumer's CONSUME_FROM setting, so that a young topic is
read whole. Otherwise the answer is 22, and the client applies its own setting (last: 30, first: 31,
timestamp: 29). setZeroIfNotFound=false asks for 22 in any case.

The reactor takes commits by itself (cext/flow/tables/offset_commit.pxd) and hands over those that
it cannot judge: with an unknown group or topic, an invalid queue or number, or a logical queue
(logic_queues.py).

Example: 15 with commitOffset 5 where 9 was stored is taken (the offset becomes 5), as in RocketMQ.
"""

from collections.abc import Awaitable
from typing import Protocol

from rmq.auth.permissions import UPDATE
from rmq.broker.access import Access
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.core_seam import LogCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.name_checks import check_group, check_topic
from rmq.broker.requests import logic_queues
from rmq.broker.requests.queries import queue_of
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.offsets import OFFSET_MAX, OffsetTable
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.names import popped_topic, retry_topic
from rmq.refusal import Refusal


class Context(logic_queues.Context, Protocol):
    """What these handlers use of the broker."""

    access: Access
    consumers: ConsumerTable
    groups: GroupTable
    offsets: OffsetTable
    queues: QueueReader
    topics: TopicTable

    @property
    def core(self) -> LogCalls: ...


def query_consumer_offset(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    command = request.command
    group = check_group(command.require("consumerGroup"))
    topic, queue_id = queue_of(command)
    logical = logic_queues.logic_queue(context, command, topic, queue_id)
    if logical is not None:
        if not logical.is_plain:
            return _offset_of(command, logical, group)
        queue_id = logical.leader.queue_id
    offset = context.offsets.query(group, topic, queue_id)
    if offset < 0:
        if command.bool_field("setZeroIfNotFound", True) is False:
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND, "the group has no offset on this queue, as asked"
            )
        if not _starts_in_memory(context, topic, queue_id):
            raise Refusal(
                ResponseCode.QUERY_NOT_FOUND,
                "the group has no offset on this queue: it probably starts for the first time",
            )
        offset = 0
    return command.reply(fields={"offset": offset})


async def _offset_of(command: Command, logical: logic_queues.LogicQueue, group: str) -> Reply:
    offset = await logical.group_offset(group)
    if offset < 0:
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND, "the group has no offset on any part of this queue"
        )
    return command.reply(fields={"offset": offset})


def _starts_in_memory(context: Context, topic: str, queue_id: int) -> bool:
    view = context.queues.view(topic, queue_id)
    if view is None or view.min_offset > 0:
        return False
    entry = context.queues.entry(view, 0)
    return entry is not None and context.core.is_in_memory(entry.physical_offset)


def update_consumer_offset(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    command = request.command
    group = check_group(command.require("consumerGroup"))
    topic, queue_id = queue_of(command)
    offset = command.int_field("commitOffset", minimum=0, maximum=OFFSET_MAX)
    context.groups.require_present(group)
    config = context.topics.require(topic)
    kept = logic_queues.kept_item(context, command, topic, queue_id, offset)
    if kept is not None:
        context.offsets.commit(group, topic, kept.queue_id, kept.physical(offset))
        return command.reply()
    logical = logic_queues.logic_queue(context, command, topic, queue_id)
    if logical is not None:
        return _committed(command, logical, group, offset)
    if queue_id >= max(config.queues, 1):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queueId {queue_id}: topic {topic} has {config.queues} queues",
        )
    context.offsets.commit(group, topic, queue_id, offset)
    return command.reply()


async def _committed(
    command: Command, logical: logic_queues.LogicQueue, group: str, offset: int
) -> Reply:
    await logical.commit(group, offset)
    return command.reply()


def get_all_consumer_offset(context: Context, request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps(context.offsets.members()))


def query_correction_offset(context: Context, request: Request) -> Reply:
    """308: for each queue the lowest offset of all groups except the filtered ones; where the
    compared group is behind that, the largest number there is."""
    command = request.command
    topic = check_topic(command.require("topic"))
    compared = context.offsets.of(command.require("compareGroup"), topic)
    left_out = set((command.text_field("filterGroups") or "").split(","))
    lowest: dict[int, int] = {}
    for group in context.offsets.groups_of(topic):
        if group in left_out:
            continue
        for queue_id, offset in context.offsets.of(group, topic).items():
            lowest[queue_id] = min(offset, lowest.get(queue_id, OFFSET_MAX))
    for queue_id, offset in compared.items():
        if lowest.get(queue_id, OFFSET_MAX) > offset:
            lowest[queue_id] = OFFSET_MAX
    return command.reply(body=fastjson.dumps({"correctionOffsets": lowest}))


async def clone_group_offset(context: Context, request: Request) -> Reply:
    command = request.command
    source = check_group(command.require("srcGroup"))
    target = check_group(command.require("destGroup"))
    topic = command.text_field("topic")
    offline = command.bool_field("offline", False)
    topics = [check_topic(topic)] if topic else context.offsets.topics_of(source)
    group = context.consumers.get(source)
    copied = [
        each
        for each in topics
        if each in context.topics
        and (offline or group is None or not group.subscriptions or each in group.subscriptions)
    ]
    if not topic:  # named topics were judged before; only the source reads its own retry topics
        copied = [each for each in copied if popped_topic(each, source) is None]
        for each in copied:
            if each != retry_topic(source):
                context.access.require(request.asker, each, UPDATE)
    for each in copied:
        context.offsets.copy(source, target, each)
    await context.offsets.save()  # an operator has asked for it, as for a reset
    return command.reply()


HANDLERS: dict[int, Handler[Context]] = {
    Code.QUERY_CONSUMER_OFFSET: query_consumer_offset,
    Code.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    Code.GET_ALL_CONSUMER_OFFSET: get_all_consumer_offset,
    Code.QUERY_CORRECTION_OFFSET: query_correction_offset,
    Code.CLONE_GROUP_OFFSET: clone_group_offset,
}
