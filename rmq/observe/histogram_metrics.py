"""Histogram metrics: the histograms of /metrics that have RocketMQ's bounds and units.

rocketmq_rpc_latency                       ms, from the turn that brought a request to its answer
rocketmq_topic_create_execution_time       ms, for requests that make or change topics
rocketmq_consumer_group_create_execution_time
rocketmq_finish_message_latency            s, from a half message's send to its end
rocketmq_delay_message_latency             s that timed messages will wait, by topic
"""

from __future__ import annotations

from collections.abc import Sequence

from rmq.codes import RequestCode, ResponseCode
from rmq.observe.exposition import Exposition, flag
from rmq.observe.sample import (
    CREATE_STEPS_MS,
    FINISH_STEPS_S,
    RPC_STEPS_MS,
    WAIT_STEPS_S,
    StepCounts,
)
from rmq.observe.topic_metrics import STORAGE, Labels, Shards

_REQUESTS = {code.value: code.name.lower() for code in RequestCode}
_RESPONSES = {code.value: code.name.lower() for code in ResponseCode}

_CREATED = {
    "topic": ("rocketmq_topic_create_execution_time", "Making or changing topics, in ms."),
    "group": (
        "rocketmq_consumer_group_create_execution_time",
        "Making or changing subscription groups, in ms.",
    ),
}


def add_steps(out: Exposition, shards: Shards) -> None:
    _requests(out, shards)
    _created(out, shards)
    name = "rocketmq_finish_message_latency"
    out.family(
        name,
        "histogram",
        "From a half message's birth to its end, in s, "
        "also where the name says milliseconds, as RocketMQ's does.",
    )
    for sample, labels in shards:
        if "finish" in sample.steps:
            _histogram(out, name, labels, FINISH_STEPS_S, sample.steps["finish"])
    name = "rocketmq_delay_message_latency"
    out.family(name, "histogram", "How long timed messages are to wait, in s.")
    for sample, labels in shards:
        for topic in sample.topics:
            if sum(topic.timed[0]):
                own = labels | STORAGE | {"topic": topic.name}
                _histogram(out, name, own, WAIT_STEPS_S, topic.timed)


def _requests(out: Exposition, shards: Shards) -> None:
    name = "rocketmq_rpc_latency"
    out.family(name, "histogram", "From the turn that brought a request to its answer, in ms.")
    for sample, labels in shards:
        for row in sample.rpc:
            own = {
                "protocol_type": "remoting",
                "request_code": _REQUESTS.get(row.request, str(row.request)),
                "response_code": _RESPONSES.get(row.response, str(row.response)),
                "is_long_polling": flag(row.held),
                "result": "success",
            }
            _histogram(out, name, labels | own, RPC_STEPS_MS, row.times)


def _created(out: Exposition, shards: Shards) -> None:
    for what, (name, text) in _CREATED.items():
        out.family(name, "histogram", text)
        for sample, labels in shards:
            for row in sample.created:
                if row.what == what:
                    own = {"invocation_status": "success" if row.done else "failure"}
                    if what == "topic":
                        own["is_system"] = flag(row.is_system)
                    _histogram(out, name, labels | own, CREATE_STEPS_MS, row.times)


def _histogram(
    out: Exposition, name: str, labels: Labels, bounds: Sequence[int], times: StepCounts
) -> None:
    counts, total = times
    seen = 0
    for bound, count in zip(bounds, counts, strict=False):
        seen += count
        out.value(f"{name}_bucket", labels | {"le": f"{bound}.0"}, seen)
    seen = sum(counts)
    out.value(f"{name}_bucket", labels | {"le": "+Inf"}, seen)
    out.value(f"{name}_sum", labels, total)
    out.value(f"{name}_count", labels, seen)
