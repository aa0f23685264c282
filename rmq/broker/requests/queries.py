"""Queries: handlers that read queues and messages: 12, 29, 30, 31, 32, 33, 321.

Example: SEARCH_OFFSET_BY_TIMESTAMP (29) with topic t, queueId 0, timestamp 20 is answered with the
field offset: the first message stored at or after ms 20. For an empty queue the answer is 0.
"""

from collections.abc import Awaitable
from typing import Any, Protocol

from rmq.auth.permissions import GET
from rmq.broker.access import Access
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.core_seam import LogCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.name_checks import check_topic
from rmq.broker.requests import logic_queues
from rmq.broker.store.key_index import Found, IndexQueries
from rmq.broker.store.queue_reader import QueueReader
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.refusal import Refusal

ENTRIES_MAX = 10_000  # in one answer to 321; RocketMQ has no such limit
ANY_KEY, TAG_KEY = 0, 1  # kinds of keys in the index (cext/store/index/index_key)
_I64_MAX = 2**63 - 1


class Context(logic_queues.Context, Protocol):
    """What these handlers use of the broker."""

    access: Access
    consumers: ConsumerTable
    index_queries: IndexQueries
    queues: QueueReader
    settings: Settings

    @property
    def core(self) -> LogCalls: ...


def queue_of(command: Command) -> tuple[str, int]:
    """The topic and queue id of a request, checked."""
    topic = check_topic(command.require("topic"))
    queue_id = command.int_field("queueId")
    if not 0 <= queue_id <= TOPIC_QUEUES_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"queueId {queue_id} of topic {topic} is out of range"
        )
    return topic, queue_id


async def _told(command: Command, name: str, number: Awaitable[int]) -> Reply:
    """The answer about a logical queue, whose number may come from another broker."""
    return command.reply(fields={name: await number})


def search_offset(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    command = request.command
    topic, queue_id = queue_of(command)
    time_ms = command.int_field("timestamp")
    boundary = command.text_field("boundaryType")
    logical = logic_queues.logic_queue(context, command, topic, queue_id)
    if logical is not None:
        return _told(command, "offset", logical.search(time_ms, boundary))
    upper = (boundary or "").lower() == "upper"
    return command.reply(fields={"offset": context.queues.search(topic, queue_id, time_ms, upper)})


def get_max_offset(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    topic, queue_id = queue_of(request.command)
    logical = logic_queues.logic_queue(context, request.command, topic, queue_id)
    if logical is not None:
        return _told(request.command, "offset", logical.maximum())
    return request.command.reply(fields={"offset": context.queues.range(topic, queue_id)[1]})


def get_min_offset(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    topic, queue_id = queue_of(request.command)
    logical = logic_queues.logic_queue(context, request.command, topic, queue_id)
    if logical is not None:
        return _told(request.command, "offset", logical.minimum())
    return request.command.reply(fields={"offset": context.queues.range(topic, queue_id)[0]})


def get_earliest_store_time(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    topic, queue_id = queue_of(request.command)
    logical = logic_queues.logic_queue(context, request.command, topic, queue_id)
    if logical is not None:
        return _told(request.command, "timestamp", logical.earliest_store_time())
    minimum, maximum = context.queues.range(topic, queue_id)
    time_ms = -1
    if minimum < maximum:
        time_ms = context.queues.store_time_at(topic, queue_id, minimum)
    return request.command.reply(fields={"timestamp": time_ms})


def view_message(context: Context, request: Request) -> Reply:
    offset = request.command.int_field("offset", minimum=0, maximum=_I64_MAX)
    record = context.core.read_record(offset)
    if record is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"no message starts at offset {offset} of the commit log"
        )
    context.access.require_record(request.asker, record, GET)
    return request.command.reply(body=record)


async def query_message(context: Context, request: Request) -> Reply:
    """12: finds messages by unique key or key, or by tag (indexType T), in the order of the log.

    The index says where a message may be, and the record itself shows whether it is the right one:
    a message that only has the same hash is not returned. Messages that do not fit into one frame
    are left out, the oldest first.
    """
    command = request.command
    topic = check_topic(command.require("topic")).encode()
    key = command.require("key").encode("utf-8", "replace")
    begin_ms = command.int_field("beginTimestamp", minimum=-_I64_MAX - 1, maximum=_I64_MAX)
    end_ms = command.int_field("endTimestamp", minimum=-_I64_MAX - 1, maximum=_I64_MAX)
    count = command.int_field("maxNum")
    if (command.text_field("_UNIQUE_KEY_QUERY") or "").lower() == "true":
        count = context.settings.defaultQueryMaxNum
    kind = TAG_KEY if command.text_field("indexType") == "T" else ANY_KEY
    count = min(count, context.settings.maxMsgsNumBatch)
    found: Found | None = ([], 0, 0)
    if count > 0:
        found = await context.index_queries.find(topic, key, kind, count, begin_ms, end_ms)
    if found is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "messageIndexEnable=false: there is no index")
    records, last_ms, last_offset = found
    fields = {"indexLastUpdateTimestamp": last_ms, "indexLastUpdatePhyoffset": last_offset}
    if not records:
        return command.reply(
            ResponseCode.QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
            fields=fields,
        )
    return command.reply(fields=fields, body=b"".join(reversed(records)))


def query_consume_queue(context: Context, request: Request) -> Reply:
    command = request.command
    topic, queue_id = queue_of(command)
    index = command.int_field("index", minimum=0, maximum=_I64_MAX)
    count = command.int_field("count", minimum=0, maximum=_I64_MAX)
    group = command.text_field("consumerGroup")
    view = context.queues.view(topic, queue_id)
    if view is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"queue {queue_id} of topic {topic} does not exist"
        )
    body: dict[str, Any] = {"maxQueueIndex": view.max_offset, "minQueueIndex": view.min_offset}
    if group:
        subscription = context.consumers.subscription(group, topic)
        if subscription is None:
            body["filterData"] = f"{group}@{topic} is not online!"
        else:
            body["subscriptionData"] = subscription.members()
            body["filterData"] = "null"
    if not view.min_offset <= index < max(view.max_offset, 1):
        return command.reply(
            remark=f"index {index} is outside {view.min_offset}..{view.max_offset} of the queue",
            body=fastjson.dumps(body),
        )
    body["queueData"] = [
        {
            "physicOffset": entry.physical_offset,
            "physicSize": entry.size,
            "tagsCode": entry.tags_code,
            "eval": False,
        }
        for entry in context.queues.entries(view, index, min(count, ENTRIES_MAX))
    ]
    return command.reply(body=fastjson.dumps(body))


HANDLERS: dict[int, Handler[Context]] = {
    Code.QUERY_MESSAGE: query_message,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    Code.GET_MAX_OFFSET: get_max_offset,
    Code.GET_MIN_OFFSET: get_min_offset,
    Code.GET_EARLIEST_MSG_STORETIME: get_earliest_store_time,
    Code.VIEW_MESSAGE_BY_ID: view_message,
    Code.QUERY_CONSUME_QUEUE: query_consume_queue,
}
