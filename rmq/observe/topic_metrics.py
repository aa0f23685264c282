"""Topic metrics: messages in and out, transactions, timed messages of each topic.

Messages in carry RocketMQ's message_type (normal, fifo, delay, transaction). As in RocketMQ, a
delayed, timed or half message counts where it is stored first and again where it is delivered.
Messages out carry the group; the group is empty for messages of a group with more topics than are
counted, and for those that message filters let through. Transactions whose topic is gone have an
empty topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmq.names import DLQ_PREFIX, SYSTEM_GROUP_PREFIX
from rmq.observe.exposition import Exposition, flag
from rmq.observe.sample import DeliverySample, Sample, TopicSample

Labels = dict[str, str]
Shards = Sequence[tuple[Sample, Labels]]

STORAGE = {"storage_type": "local", "storage_medium": "disk"}

# metric -> (help, index in (messages, bytes))
_IN = {
    "rocketmq_messages_in_total": ("Messages stored.", 0),
    "rocketmq_throughput_in_total": ("Bytes stored.", 1),
}
_OUT = {
    "rocketmq_messages_out_total": ("Messages handed to consumers.", 0),
    "rocketmq_throughput_out_total": ("Bytes handed to consumers.", 1),
}
# metric -> (help, index in TopicSample.ended, counter of all topics)
_ENDED = {
    "rocketmq_commit_messages_total": ("Transactions committed.", 0, "transactions_committed"),
    "rocketmq_rollback_messages_total": (
        "Transactions rolled back.", 1, "transactions_rolled_back",
    ),
}  # fmt: skip
_TIMED: dict[str, tuple[str, Callable[[TopicSample], int]]] = {
    "rocketmq_timer_enqueue_total": ("Timed messages taken.", lambda t: sum(t.timed[0])),
    "rocketmq_timer_dequeue_total": ("Timed messages delivered.", lambda t: t.timed_out),
}


def add_topics(out: Exposition, shards: Shards) -> None:
    for name, (text, place) in _IN.items():
        out.family(name, "counter", text)
        for sample, labels in shards:
            for topic in sample.topics:
                own = {"topic": topic.name, "is_system": flag(topic.is_system)}
                for kind, counts in topic.kinds.items():
                    out.value(name, labels | own | {"message_type": kind}, counts[place])
    for name, (text, place) in _OUT.items():
        out.family(name, "counter", text)
        for sample, labels in shards:
            _deliveries(out, name, place, sample, labels)
    _dead_letters(out, shards)
    _ended(out, shards)
    for name, (text, value_of) in _TIMED.items():
        out.family(name, "counter", text)
        for sample, labels in shards:
            for topic in sample.topics:
                if topic.numbers and value_of(topic):
                    out.value(name, labels | STORAGE | {"topic": topic.name}, value_of(topic))


def _deliveries(out: Exposition, name: str, place: int, sample: Sample, labels: Labels) -> None:
    rest = {t.name: (t.messages_out, t.bytes_out)[place] for t in sample.topics}
    system = {t.name for t in sample.topics if t.is_system}
    for row in sample.deliveries:
        if row.topic in rest:
            value = (row.messages, row.bytes)[place]
            rest[row.topic] -= value
            is_system = row.topic in system or row.group.upper().startswith(SYSTEM_GROUP_PREFIX)
            out.value(name, labels | _delivery_labels(row, is_system), value)
    groups_of = {row.topic for row in sample.deliveries}
    for topic, value in rest.items():
        # A rest may also be messages delivered between the two reads of counters; their group shows
        # them at the next scrape.
        if value > 0 or topic not in groups_of:
            own = {"topic": topic, "consumer_group": "", "is_system": flag(topic in system)}
            out.value(name, labels | own, max(0, value))


def _delivery_labels(row: DeliverySample, is_system: bool) -> Labels:
    return {"topic": row.topic, "consumer_group": row.group, "is_system": flag(is_system)}


def _dead_letters(out: Exposition, shards: Shards) -> None:
    name = "rocketmq_send_to_dlq_messages_total"
    out.family(name, "counter", "Messages given up: dead letters of a group.")
    for sample, labels in shards:
        for topic in sample.topics:
            if topic.name.startswith(DLQ_PREFIX):
                group = topic.name.removeprefix(DLQ_PREFIX)
                out.value(name, labels | {"consumer_group": group}, topic.messages_in)


def _ended(out: Exposition, shards: Shards) -> None:
    for name, (text, place, counter) in _ENDED.items():
        out.family(name, "counter", text)
        for sample, labels in shards:
            rest = sample.counters.get(counter, 0)
            for topic in sample.topics:
                if topic.ended[place]:
                    rest -= topic.ended[place]
                    out.value(name, labels | {"topic": topic.name}, topic.ended[place])
            out.value(name, labels | {"topic": ""}, max(0, rest))
