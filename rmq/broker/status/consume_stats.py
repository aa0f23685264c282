"""Consume stats: compares queues with offsets: 202 topic, 208 group, 303 time span, 317 broker.

    208 body  {"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:
                 {"brokerOffset":17,"consumerOffset":12,"lastTimestamp":1763726400000,
                  "pullOffset":12}}}

brokerOffset minus consumerOffset is the lag; pullOffset minus consumerOffset is what consumers hold
now. pullOffset is the offset up to which they have pulled since the broker's start (208 only), and
never less than the committed one. Time stamps are store times read from the log: of the last
message (202), or of the last consumed one (208). They are read for at most TIMES_MAX queues per
request, and the others get 0, so that a topic of thousands of queues cannot stall the control
thread.
"""

from typing import Any, Protocol

from rmq.base.clock import now_ms
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.name_checks import check_group
from rmq.broker.status.counter_history import CounterHistory, group_counter, topic_counter
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.queue_mappings import QueueMappings
from rmq.broker.tables.topic_config import TopicConfig
from rmq.broker.tables.topics import TopicTable
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.refusal import Refusal

TIMES_MAX = 2048
TPS_S = 60  # rates cover the last minute, beginning with the first question about them


class Context(Protocol):
    """What these handlers use of the broker."""

    consumers: ConsumerTable
    groups: GroupTable
    offsets: OffsetTable
    queue_mappings: QueueMappings
    queues: QueueReader
    samples: CounterHistory
    settings: Settings
    topics: TopicTable

    @property
    def address(self) -> str: ...

    def watch_group(self, topic: str, group: str) -> None: ...

    def watch_topic(self, topic: str) -> None: ...


def get_topic_stats(context: Context, request: Request) -> Reply:
    """Request 202. With rmqDetail=true also queues that hold messages but that the topic does not
    have any more."""
    topic = context.topics.require(request.command.require("topic"))
    table: dict[MessageQueue, Any] = {}
    count = topic.queues
    if request.command.bool_field("rmqDetail", False):
        count = max(count, context.queues.count(topic.name))
    for queue_id, (minimum, maximum) in enumerate(context.queues.ranges(topic.name, count)):
        if queue_id >= topic.queues and minimum == maximum:
            continue
        last = 0
        if maximum > minimum and queue_id < TIMES_MAX:
            last = max(0, context.queues.store_time_at(topic.name, queue_id, maximum - 1))
        table[_queue(context, topic, queue_id)] = {
            "minOffset": minimum,
            "maxOffset": maximum,
            "lastUpdateTimestamp": last,
        }
    context.watch_topic(topic.name)
    tps = context.samples.rate(topic_counter(topic.name, "puts"), TPS_S)
    body = {"offsetTable": table, "topicPutTps": tps}
    return request.command.reply(body=fastjson.dumps(body))


def get_consume_stats(context: Context, request: Request) -> Reply:
    command = request.command
    group = check_group(command.require("consumerGroup"))
    listed = [each for each in (command.text_field("topicList") or "").split(";") if each]
    if listed:
        topics = listed
    else:
        topic = command.text_field("topic")
        topics = [topic] if topic and topic.strip() else context.offsets.topics_of(group)
        topics = _subscribed(context, group, topics)
    table: dict[MessageQueue, Any] = {}
    tps = 0.0
    for each in topics:
        config = context.topics.get(each)
        if config is not None:
            offsets = context.offsets.of(group, each)
            tps += _tps(context, each, group)
            pulled = context.offsets.pulled(group, each)
            table.update(_group_offsets(context, offsets, config, config.read_queues, pulled))
    body = {"consumeTps": tps, "offsetTable": table}
    return command.reply(body=fastjson.dumps(body))


def get_broker_consume_stats(context: Context, request: Request) -> Reply:
    only_ordered = request.command.bool_field("isOrder")
    groups = []
    total = 0
    by_group = context.offsets.by_group()
    for group in context.groups.all():
        stats = []
        offsets_of = by_group.get(group, {})
        for topic in _subscribed(context, group, sorted(offsets_of)):
            config = context.topics.get(topic)
            if config is None or (only_ordered and not config.order):
                continue
            table = _group_offsets(context, offsets_of[topic], config, config.write_queues, {})
            total += sum(
                row["brokerOffset"] - max(0, row["consumerOffset"]) for row in table.values()
            )
            stats.append({"consumeTps": _tps(context, topic, group), "offsetTable": table})
        groups.append({group: stats})
    body = {
        "brokerAddr": context.address,
        "consumeStatsList": groups,
        "totalDiff": total,
        "totalInflightDiff": 0,
    }
    return request.command.reply(body=fastjson.dumps(body))


def query_consume_time_span(context: Context, request: Request) -> Reply:
    command = request.command
    topic = context.topics.require(command.require("topic"))
    group = check_group(command.require("group"))
    if topic.write_queues > TIMES_MAX:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"topic {topic.name} has more than {TIMES_MAX} queues"
        )
    spans = [_time_span(context, group, topic, queue_id) for queue_id in range(topic.write_queues)]
    return command.reply(body=fastjson.dumps({"consumeTimeSpanSet": spans}))


def _time_span(context: Context, group: str, topic: TopicConfig, queue_id: int) -> dict[str, Any]:
    view = context.queues.view(topic.name, queue_id)
    first = last = consumed = -1
    delay = 0
    if view is not None and view.max_offset > view.min_offset:
        offset = context.offsets.query(group, topic.name, queue_id)
        first = context.queues.store_time(view, view.min_offset)
        last = context.queues.store_time(view, view.max_offset - 1)
        consumed = context.queues.store_time(view, offset - 1) if offset > 0 else first
        if offset < view.max_offset:
            waiting = context.queues.store_time(view, max(offset, view.min_offset))
            delay = max(0, now_ms() - waiting) if waiting > 0 else 0
    return {
        "messageQueue": _queue(context, topic, queue_id).members(),
        "minTimeStamp": first,
        "maxTimeStamp": last,
        "consumeTimeStamp": consumed,
        "delayTime": delay,
    }


def _subscribed(context: Context, group: str, topics: list[str]) -> list[str]:
    """Those of these topics that a connected group still subscribes; all when it is offline."""
    consumers = context.consumers.get(group)
    if consumers is None or not consumers.subscriptions:
        return topics
    return [topic for topic in topics if topic in consumers.subscriptions]


def _tps(context: Context, topic: str, group: str) -> float:
    """How many messages the group consumes per second; 0 at the first question about it."""
    context.watch_group(topic, group)
    return context.samples.rate(group_counter(topic, group), TPS_S)


def _group_offsets(
    context: Context, offsets: dict[int, int], topic: TopicConfig, queues: int,
    pulled: dict[int, int],
) -> dict[MessageQueue, dict[str, int]]:  # fmt: skip
    table = {}
    # In a logical queue -1 tells tools that the group has no offset in this item of the chain.
    none = -1 if topic.name in context.queue_mappings else 0
    for queue_id, (_, end) in enumerate(context.queues.ranges(topic.name, queues)):
        consumed = max(none, offsets.get(queue_id, none))
        row = {
            "brokerOffset": end,
            "consumerOffset": consumed,
            "pullOffset": max(consumed, pulled.get(queue_id, -1)),
            "lastTimestamp": 0,
        }
        if consumed > 0 and queue_id < TIMES_MAX:
            stored = context.queues.store_time_at(topic.name, queue_id, consumed - 1)
            row["lastTimestamp"] = max(0, stored)
        table[_queue(context, topic, queue_id)] = row
    return table


def _queue(context: Context, topic: TopicConfig, queue_id: int) -> MessageQueue:
    return MessageQueue(topic.name, context.settings.brokerName, queue_id)


HANDLERS: dict[int, Handler[Context]] = {
    Code.GET_TOPIC_STATS_INFO: get_topic_stats,
    Code.GET_CONSUME_STATS: get_consume_stats,
    Code.GET_BROKER_CONSUME_STATS: get_broker_consume_stats,
    Code.QUERY_CONSUME_TIME_SPAN: query_consume_time_span,
}
