"""Exporter metrics: metrics for dashboards made for rocketmq-exporter (rmqMetricsNames=exporter).

    render_exporter([Looked(sample, rates, table), ..])     text of /metrics; one for each shard

        rocketmq_producer_tps{cluster="C",broker="broker-a",topic="orders"} 120.0

Names, labels and their meaning are those of apache/rocketmq-exporter at e1ab2dd:
RMQMetricsCollector has the names, MetricsCollectTask shows where each value comes from. All are
gauges there. Rates are of the last minute (minute.py). Values that the exporter gets from clients
(rocketmq_client_..) are missing here, and so are rocketmq_send_back_nums, which rmq does not count
by topic, and those that the exporter never fills: rocketmq_group_consume_tps,
rocketmq_group_consume_total_offset.

Labels are bounded like all labels of rmq: at most metricsOtelCardinalityLimit topics, groups and
pairs of them. So in rocketmq_group_count caddr and localaddr are empty: in the exporter they have
the addresses of all members in one text, which changes with each start of a client. Numbers of
whole groups (rocketmq_group_..) have no label of a broker: the shards of this machine are added up,
and other machines have another `instance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from rmq.names import DLQ_PREFIX, is_dead_letter, is_retry
from rmq.observe.exposition import Exposition
from rmq.observe.minute import Rates
from rmq.observe.runtime_metrics import Labels, Table, add_runtime, rates_of
from rmq.observe.sample import LagSample, Sample, TopicSample

CLUSTERING = "1"  # RocketMQ's MessageModel; groups that broadcast do not commit here


class Looked(msgspec.Struct, frozen=True):
    """What a look at a shard has shown."""

    sample: Sample
    rates: Rates
    table: Table  # its runtime table (28)


Shards: TypeAlias = Sequence[Looked]


def render_exporter(shards: Shards) -> bytes:
    """The text of /metrics, by the exporter's names."""
    out = Exposition()
    _groups(out, shards)
    _producers(out, shards)
    _topics(out, shards)
    _consumers(out, shards)
    _brokers(out, shards)
    add_runtime(out, [(each.sample.cluster, each.sample.address, each.table) for each in shards])
    return out.text()


def _broker(sample: Sample) -> Labels:
    return {"cluster": sample.cluster, "broker": sample.broker}


def _is_plain(topic: str) -> bool:
    return not is_retry(topic) and not is_dead_letter(topic)


# ---- groups, over all shards


def _groups(out: Exposition, shards: Shards) -> None:
    online = _online(shards)
    behind: dict[tuple[str, str], int] = {}
    for each in shards:
        for lag in each.sample.lags:
            key = (lag.group, lag.topic)
            behind[key] = behind.get(key, 0) + lag.messages
    families: dict[str, tuple[str, Callable[[str], bool]]] = {
        "rocketmq_group_diff": ("Messages that a group has still to consume.", _is_plain),
        "rocketmq_group_retrydiff": ("Retries that it has still to consume.", is_retry),
        "rocketmq_group_dlqdiff": (
            "Dead letters that it has still to read.",
            is_dead_letter,
        ),
    }
    for name, (text, belongs) in families.items():
        out.family(name, "gauge", text)
        for (group, topic), messages in behind.items():
            if belongs(topic):
                labels = {
                    "group": group,
                    "topic": topic,
                    "countOfOnlineConsumers": str(online.get(group, 0)),
                    "msgModel": CLUSTERING,
                }
                out.value(name, labels, messages)
    name = "rocketmq_group_count"
    out.family(name, "gauge", "Consumers that are connected.")
    for group in dict.fromkeys([*online, *(group for group, _ in behind)]):
        labels = {"caddr": "", "localaddr": "", "group": group}
        out.value(name, labels, online.get(group, 0))


def _online(shards: Shards) -> dict[str, int]:
    """How many consumers each group has; a consumer is connected to every shard."""
    found: dict[str, int] = {}
    for each in shards:
        counts: dict[str, int] = {}
        for row in each.sample.consumers:
            counts[row.group] = counts.get(row.group, 0) + row.count
        for group, count in counts.items():
            found[group] = max(found.get(group, 0), count)
    return found


# ---- each shard, which is a broker of its own


def _producers(out: Exposition, shards: Shards) -> None:
    name = "rocketmq_producer_count"
    out.family(name, "gauge", "Producers that are connected.")
    for each in shards:
        counts: dict[str, int] = {}
        for row in each.sample.producers:
            counts[row.group] = counts.get(row.group, 0) + row.count
        for group, count in counts.items():
            out.value(name, _broker(each.sample) | {"group": group}, count)


def _topics(out: Exposition, shards: Shards) -> None:
    offsets: dict[str, tuple[Callable[[str], bool], Callable[[str], Labels]]] = {
        "rocketmq_producer_offset": (_is_plain, lambda name: {"topic": name}),
        "rocketmq_topic_retry_offset": (is_retry, lambda name: {"topic": name}),
        "rocketmq_topic_dlq_offset": (
            is_dead_letter, lambda name: {"group": name.removeprefix(DLQ_PREFIX)},
        ),
    }  # fmt: skip
    for name, (belongs, own) in offsets.items():
        out.family(name, "gauge", "Messages ever stored: the ends of all queues.")
        for each in shards:
            for topic in each.sample.topics:
                if belongs(topic.name):
                    out.value(name, _broker(each.sample) | own(topic.name), topic.end)
    for place, name, text in (
        (0, "rocketmq_producer_tps", "Messages stored a second."),
        (1, "rocketmq_producer_message_size", "Bytes stored a second."),
    ):
        out.family(name, "gauge", text)
        for each in shards:
            for topic in _plain_topics(each):
                rate = each.rates.stored[topic.name][place]
                out.value(name, _broker(each.sample) | {"topic": topic.name}, round(rate, 2))


def _plain_topics(looked: Looked) -> list[TopicSample]:
    return [topic for topic in looked.sample.topics if _is_plain(topic.name)]


def _consumers(out: Exposition, shards: Shards) -> None:
    for place, name, text in (
        (0, "rocketmq_consumer_tps", "Messages handed to a group a second."),
        (1, "rocketmq_consumer_message_size", "Bytes handed to a group a second."),
    ):
        out.family(name, "gauge", text)
        for each in shards:
            for (group, topic), rate in each.rates.delivered.items():
                if _is_plain(topic):
                    out.value(name, _pair(each.sample, topic, group), round(rate[place], 2))
    lags: dict[str, tuple[str, Callable[[LagSample], int]]] = {
        "rocketmq_consumer_offset": (
            "What a group has committed, of all queues added up.", lambda lag: lag.committed,
        ),
        "rocketmq_group_get_latency_by_storetime": (
            "Age in ms of the oldest message that a group has not consumed.",
            lambda lag: lag.latency_ms,
        ),
    }  # fmt: skip
    for name, (text, value_of) in lags.items():
        out.family(name, "gauge", text)
        for each in shards:
            for lag in each.sample.lags:
                if not is_dead_letter(lag.topic) and value_of(lag) >= 0:
                    out.value(name, _pair(each.sample, lag.topic, lag.group), value_of(lag))


def _pair(sample: Sample, topic: str, group: str) -> Labels:
    return _broker(sample) | {"topic": topic, "group": group}


def _brokers(out: Exposition, shards: Shards) -> None:
    rates: Mapping[str, tuple[str, str]] = {
        "rocketmq_broker_tps": ("Messages stored a second.", "putTps"),
        "rocketmq_broker_qps": ("Messages handed to consumers a second.", "getTransferredTps"),
    }
    for name, (text, key) in rates.items():
        out.family(name, "gauge", text)
        for each in shards:
            for rate in rates_of(each.table, key)[1:2]:  # of the last minute
                out.value(name, _address(each.sample, each.sample.address), round(rate, 2))
    name = "rocketmq_broker_commitlog_diff"
    out.family(name, "gauge", "Bytes of the log that a slave lacks; brokerIP is the slave's.")
    for each in shards:
        for slave in each.sample.slaves:
            out.value(name, _address(each.sample, slave.address), slave.behind_bytes)


def _address(sample: Sample, address: str) -> Labels:
    return {"cluster": sample.cluster, "brokerIP": address, "broker": sample.broker}
