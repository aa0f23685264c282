"""Lag metrics: how far each group is behind on each topic, with RocketMQ's names.

    rocketmq_consumer_lag_messages{consumer_group="billing",topic="orders",..} 42

In flight are messages that were delivered but not committed; ready are those not delivered yet. An
unknown number (-1 in the sample) has no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmq.names import SYSTEM_GROUP_PREFIX, is_retry
from rmq.observe.exposition import Exposition, flag
from rmq.observe.sample import LagSample, Sample
from rmq.observe.topic_metrics import Labels

_LAG_GAUGES: dict[str, tuple[str, Callable[[LagSample], int]]] = {
    "rocketmq_consumer_lag_messages": (
        "Messages behind the consumer's committed offset.", lambda lag: lag.messages,
    ),
    "rocketmq_consumer_lag_latency": (
        "Age in ms of the oldest message above the committed offset.", lambda lag: lag.latency_ms,
    ),
    "rocketmq_consumer_inflight_messages": (
        "Messages handed out and not committed.", lambda lag: lag.inflight,
    ),
    "rocketmq_consumer_ready_messages": (
        "Messages not handed out yet.", lambda lag: lag.ready,
    ),
    "rocketmq_consumer_queueing_latency": (
        "Age in ms of the oldest message not handed out.", lambda lag: lag.queueing_ms,
    ),
}  # fmt: skip


def add_lags(out: Exposition, shards: Sequence[tuple[Sample, Labels]]) -> None:
    for name, (text, value_of) in _LAG_GAUGES.items():
        out.family(name, "gauge", text)
        for sample, labels in shards:
            system = {topic.name for topic in sample.topics if topic.is_system}
            for lag in sample.lags:
                value = value_of(lag)
                if value >= 0:
                    own = {
                        "consumer_group": lag.group,
                        "topic": lag.topic,
                        "is_retry": flag(is_retry(lag.topic)),
                        "is_system": flag(
                            lag.topic in system or lag.group.upper().startswith(SYSTEM_GROUP_PREFIX)
                        ),
                    }
                    out.value(name, labels | own, value)
