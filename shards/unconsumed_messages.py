"""Unconsumed messages: messages that would be out of reach if a shard were removed.

They are counted per topic and group that has offsets on the topic: entries between the group's
offset and the queue's end. A topic that has messages but no group counts whole, under group "", for
example dead letters that nobody has read. Groups that broadcast keep their offsets themselves and
cannot be counted.

What is on its way inside the shard counts under its system topic:

    SCHEDULE_TOPIC_XXXX         messages whose delay level is not over
    rmq_sys_wheel_timer         timed messages; and the check points of pops, with their acks, until
                                the popped messages would be visible again
    rmq_sys_REVIVE_LOG_..       check points whose time is just over: messages that were not
                                acknowledged will come again
    RMQ_SYS_TRANS_HALF_TOPIC    open transactions

Example: {"orders@billing": 17, "%DLQ%billing@": 2, "rmq_sys_wheel_timer@": 1}
"""

from __future__ import annotations

from typing import Protocol

from rmq import names
from rmq.broker.core_seam import StatCalls
from rmq.broker.status.sampler import half_messages
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.delay_levels import DelayLevels
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.topics import TopicTable
from rmq.config import Settings


class UnconsumedContext(Protocol):
    """What is used here of the broker."""

    delays: DelayLevels
    offsets: OffsetTable
    queues: QueueReader
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> StatCalls: ...


def unconsumed(broker: UnconsumedContext) -> dict[str, int]:
    """topic@group -> number of messages; only those that are not zero."""
    offsets: dict[str, dict[str, dict[int, int]]] = {}
    for group, topics in broker.offsets.by_group().items():
        for of_topic, queues in topics.items():
            offsets.setdefault(of_topic, {})[group] = queues
    found = _on_the_way(broker, offsets)
    for name, topic in broker.topics.all().items():
        if broker.topics.is_system(name):
            continue
        groups = offsets.get(name) or {"": {}}
        ranges = broker.queues.ranges(name, topic.queues)
        for group, consumed in groups.items():
            found[f"{name}@{group}"] = sum(
                max(0, end - max(first, consumed.get(queue_id, 0)))
                for queue_id, (first, end) in enumerate(ranges)
            )
    return {what: count for what, count in found.items() if count > 0}


def _on_the_way(
    broker: UnconsumedContext, offsets: dict[str, dict[str, dict[int, int]]]
) -> dict[str, int]:
    found = {names.SCHEDULE_TOPIC: broker.delays.waiting()}
    if not broker.topics.is_copy:  # a slave delivers and ends nothing: its master has all of it
        counters = broker.core.stats()
        revive = names.revive_topic(broker.settings.brokerClusterName)
        done = offsets.get(revive, {}).get(names.REVIVE_GROUP, {})
        found |= {
            names.TIMER_TOPIC: counters.get("timers_waiting", 0) + counters.get("timers_behind", 0),
            revive: _unrevived(broker, revive, done),
            names.HALF_TOPIC: half_messages(broker.queues, counters),
        }
    return {f"{topic}@": count for topic, count in found.items()}


def _unrevived(broker: UnconsumedContext, topic: str, done: dict[int, int]) -> int:
    """How many records of the revive log are still to be done. The offset of the log's group is
    that of the last record that is done, not of the next."""
    config = broker.topics.get(topic)
    ranges = broker.queues.ranges(topic, config.queues) if config is not None else []
    return sum(
        max(0, end - max(first, done.get(queue_id, -1) + 1))
        for queue_id, (first, end) in enumerate(ranges)
    )
