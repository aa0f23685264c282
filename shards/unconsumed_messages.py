"""Unconsumed messages: what would be out of reach if a shard went.

Counted per topic and group that has offsets on the topic: entries between the group's offset and
the queue's end. A topic with messages and without any group counts whole, under group "": dead
letters that nobody read are such. Delayed messages that are not due yet count under their topic of
the system. Groups that broadcast keep their offsets themselves and cannot be counted.

Example: {"orders@billing": 17, "%DLQ%billing@": 2}
"""

from __future__ import annotations

from rmq import names
from rmq.broker.broker import Broker


def unconsumed(broker: Broker) -> dict[str, int]:
    """topic@group -> messages; only those that are not zero."""
    offsets: dict[str, dict[str, dict[int, int]]] = {}
    for group, topics in broker.offsets.by_group().items():
        for of_topic, queues in topics.items():
            offsets.setdefault(of_topic, {})[group] = queues
    found: dict[str, int] = {}
    for name, topic in broker.topics.all().items():
        if broker.topics.is_system(name):
            continue
        groups = offsets.get(name) or {"": {}}
        ranges = broker.queues.ranges(name, topic.queues)
        for group, consumed in groups.items():
            waiting = 0
            for queue_id, (first, end) in enumerate(ranges):
                waiting += max(0, end - max(first, consumed.get(queue_id, 0)))
            if waiting:
                found[f"{name}@{group}"] = waiting
    waiting = broker.delays.waiting()
    if waiting:
        found[f"{names.SCHEDULE_TOPIC}@"] = waiting
    return found
