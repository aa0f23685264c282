"""Runtime info: handlers of 28 (the runtime table of mqadmin brokerStatus and clusterList) and 315
(stats by name).

    28 body  {"table":{"putTps":"120.000 118.400 97.310","commitLogMaxOffset":"1048576",..}}

With the field rmqDetail=true, which mqadmin does not send, the table has one more entry, rmqSample:
the whole rmq/observe/sample.py as JSON. With rmqDetail=tables it lacks the ages of waiting
messages, which are read from the log; with rmqDetail=brief, for `rmq top` and `rmq broker status`,
it also lacks its tables.

The plain table is made at most five times a second (body_cache.py). All values are text. The
numbers come from the core's counters (COUNTERS names them), from samples of them every 10 s, and
from the file system. There are three rates each: last 10 s, 1 minute, 10 minutes.

315 knows counts of the whole broker, BROKER_PUT_NUMS and BROKER_GET_NUMS with the cluster name as
key, TOPIC_PUT_NUMS and TOPIC_PUT_SIZE with a topic as key, and GROUP_GET_NUMS with topic@group: by
how much the group's offsets on the topic grew. A topic or group is sampled only after the first
question about it, so that thousands nobody asks about cost nothing. Other names are answered with
code 1, which mqadmin accepts.
"""

import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol

from rmq.base import clock
from rmq.base.build import build_text
from rmq.broker.clients.connections import Connections
from rmq.broker.core_seam import LogCalls, StatCalls
from rmq.broker.dispatch.body_cache import BodyCache
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.status.counter_history import CounterHistory, group_counter, topic_counter
from rmq.broker.status.put_times import put_times
from rmq.broker.status.sampler import Sampler
from rmq.broker.tables.delay_levels import DelayLevels
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.topics import TopicTable
from rmq.broker.tasks.retention import disk_ratio
from rmq.codes import VERSION, VERSION_TEXT, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.format import fastjson
from rmq.observe.sample import RPC_STEPS_MS, encode
from rmq.refusal import Refusal

# This module's name of a counter -> the core's.
COUNTERS = {
    "puts": "messages_in",
    "put_bytes": "bytes_in",
    "put_failures": "sends_refused",
    "gets": "messages_out",
    "found": "pulls_found",
    "missed": "pulls_empty",
}
_GETS = (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.POP_MESSAGE)
_QUEUES = ("send", "pull", "litePull", "query", "ack")  # thread pools of Apache's broker only


class CoreCalls(LogCalls, StatCalls, Protocol):
    """What is used here of the core."""


class Context(Protocol):
    """What these handlers use of the broker."""

    bodies: BodyCache
    commit_log_directory: Path
    consume_queue_directory: Path
    connections: Connections
    delays: DelayLevels
    offsets: OffsetTable
    sampler: Sampler
    samples: CounterHistory
    settings: Settings
    started_at: float
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...

    def earliest_store_time(self) -> int: ...

    def watch_group(self, topic: str, group: str) -> None: ...

    def watch_topic(self, topic: str) -> None: ...


def get_runtime_info(context: Context, request: Request) -> "Reply | Awaitable[Reply]":
    """The table is made once for all requests of the same moment."""
    detail = request.command.fields.get("rmqDetail")
    if detail in ("brief", "tables"):
        sample = encode(context.sampler.take(brief=detail == "brief")).decode()
        return request.command.reply(body=_body(context, sample))
    if detail == "true":
        return _with_all(context, request)
    body = context.bodies.of_moment("runtime", lambda: _body(context))
    return request.command.reply(body=body)


async def _with_all(context: Context, request: Request) -> Reply:
    sample = encode(await context.sampler.take_all()).decode()
    return request.command.reply(body=_body(context, sample))


def _body(context: Context, sample: str | None = None) -> bytes:
    return fastjson.dumps({"table": runtime_table(context, sample)})


def runtime_table(context: Context, sample: str | None = None) -> dict[str, str]:
    table = {
        **_identity(context),
        **_rates(context),
        **_log(context),
        **_pools(),
        **_later(context),
    }
    if sample is not None:
        table["rmqSample"] = sample
    return table


def view_broker_stats(context: Context, request: Request) -> Reply:
    command = request.command
    name, key = command.require("statsName"), command.require("statsKey")
    counter = _counter(context, name, key)
    if counter is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"no stats are kept under {name[:100]!r} {key[:300]!r}"
        )
    body = {
        part: _stats_item(context, counter, seconds)
        for part, seconds in (("statsMinute", 60), ("statsHour", 3600), ("statsDay", 86400))
    }
    return command.reply(body=fastjson.dumps(body))


def _counter(context: Context, name: str, key: str) -> str | None:
    """The samples' name of the counter for this name and key; None when there is none."""
    whole = {"BROKER_PUT_NUMS": "puts", "BROKER_GET_NUMS": "gets"}.get(name)
    if whole is not None and key == context.settings.brokerClusterName:
        return COUNTERS[whole]
    if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE") and key in context.topics:
        context.watch_topic(key)
        return topic_counter(key, "puts" if name == "TOPIC_PUT_NUMS" else "bytes")
    topic, separator, group = key.partition("@")
    if name == "GROUP_GET_NUMS" and separator and context.offsets.of(group, topic):
        context.watch_group(topic, group)
        return group_counter(topic, group)
    return None


def _stats_item(context: Context, counter: str, seconds: int) -> dict[str, float]:
    growth, took = context.samples.over(counter, seconds)
    return {"sum": growth, "tps": growth / took if took else 0.0, "avgpt": 0.0}


def _identity(context: Context) -> dict[str, str]:
    settings = context.settings
    seconds = int(clock.wall() - context.started_at)
    days, seconds = divmod(seconds, 86400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    return {
        "brokerActive": "true",
        "brokerName": settings.brokerName,
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": VERSION_TEXT,
        "rmqVersion": build_text(),
        "bootTimestamp": str(int(context.started_at * 1000)),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        "startAcceptSendRequestTimeStamp": str(settings.startAcceptSendRequestTimeStamp),
        "connections": str(len(context.connections)),
    }


def _rates(context: Context) -> dict[str, str]:
    counters = context.core.stats()
    now = {ours: counters.get(theirs, 0) for ours, theirs in COUNTERS.items()}
    samples = context.samples
    rates = {ours: samples.three_rates(theirs) for ours, theirs in COUNTERS.items()}
    midnight = {o: samples.at_midnight.get(t, 0) for o, t in COUNTERS.items()}
    before = {o: samples.at_midnight_before.get(t, 0) for o, t in COUNTERS.items()}
    total_gets = [
        samples.rate(COUNTERS["found"], seconds) + samples.rate(COUNTERS["missed"], seconds)
        for seconds in (10, 60, 600)
    ]
    return {
        "putTps": rates["puts"],
        "getTransferedTps": rates["gets"],
        "getTransferredTps": rates["gets"],
        "getFoundTps": rates["found"],
        "getMissTps": rates["missed"],
        "getTotalTps": " ".join(f"{rate:.3f}" for rate in total_gets),
        **put_times(context.core.latencies()["append"][0]),
        "getMessageEntireTimeMax": str(_slowest_get_ms(context)),
        "putMessageTimesTotal": str(now["puts"]),
        "putMessageFailedTimes": str(now["put_failures"]),
        "putMessageSizeTotal": str(now["put_bytes"]),
        "putMessageAverageSize": f"{now['put_bytes'] / now['puts'] if now['puts'] else 0.0:.1f}",
        "msgPutTotalTodayNow": str(now["puts"]),
        "msgGetTotalTodayNow": str(now["gets"]),
        "msgPutTotalTodayMorning": str(midnight["puts"]),
        "msgGetTotalTodayMorning": str(midnight["gets"]),
        "msgPutTotalYesterdayMorning": str(before["puts"]),
        "msgGetTotalYesterdayMorning": str(before["gets"]),
    }


def _slowest_get_ms(context: Context) -> int:
    """The bound that no answer with messages has exceeded; longer times count as the last bound.
    rocketmq-exporter does not accept a table without this number."""
    slowest = 0
    for (code, _, held), (counts, _) in context.core.rpc_times().items():
        if code in _GETS and not held:
            for bound, count in zip((*RPC_STEPS_MS, RPC_STEPS_MS[-1]), counts, strict=True):
                slowest = max(slowest, bound if count else 0)
    return slowest


def _log(context: Context) -> dict[str, str]:
    minimum, maximum, durable = context.core.log_range()
    counters = context.core.stats()
    waiting = max(0, counters.get("log_appended", 0) - counters.get("log_written", 0))
    directory = context.commit_log_directory
    ratio = disk_ratio(directory)
    try:
        space = os.statvfs(directory)
        total, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    except OSError:
        total = free = 0
    return {
        "commitLogMinOffset": str(minimum),
        "commitLogMaxOffset": str(maximum),
        "remainHowManyDataToFlush": _readable(maximum - durable),
        "remainHowManyDataToCommit": _readable(waiting),
        "remainTransientStoreBufferNumbs": str(_pool_files_left(context, counters, waiting)),
        "dispatchBehindBytes": "0",
        "dispatchMaxBuffer": "0",  # consumers see a message in the turn that wrote it
        "pageCacheLockTimeMills": "0",
        "commitLogDiskRatio": f"{ratio:.4f}",
        f"commitLogDiskRatio_{directory}": f"{ratio:.4f}",
        "consumeQueueDiskRatio": f"{disk_ratio(context.consume_queue_directory):.4f}",
        "commitLogDirCapacity": f"Total : {_readable(total)}, Free : {_readable(free)}.",
        "earliestMessageTimeStamp": str(context.earliest_store_time()),
    }


def _pool_files_left(context: Context, counters: dict[str, int], waiting: int) -> int:
    """How many log files would fit into the free store pool; Java's largest int where a full pool
    refuses no sends."""
    if not counters.get("log_pooled") or not context.settings.fastFailIfNoBufferInStorePool:
        return 2**31 - 1
    left = counters["log_ring_bytes"] - waiting
    return max(0, left) // int(context.settings.mappedFileSizeCommitLog)


def _pools() -> dict[str, str]:
    """Apache's thread pools have no counterpart: requests are served by one reactor, in order."""
    table = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
    for name in _QUEUES:
        table[f"{name}ThreadPoolQueueSize"] = "0"
        table[f"{name}ThreadPoolQueueCapacity"] = "0"
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


def _later(context: Context) -> dict[str, str]:
    """Timed messages that wait, and how far each delay level has been delivered."""
    counters, samples = context.core.stats(), context.samples
    table = {
        "timerReadBehind": str(counters.get("timers_late_ms", 0) // 1000),  # seconds
        "timerOffsetBehind": str(counters.get("timers_behind", 0)),
        "timerCongestNum": str(counters.get("timers_waiting", 0)),
        "timerEnqueueTps": f"{samples.rate('timers_fed', 10):.1f}",
        "timerDequeueTps": f"{samples.rate('timers_delivered', 10):.1f}",
    }
    for level, (offset, end) in context.delays.progress().items():
        table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
    return table


def _readable(count: int) -> str:
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


HANDLERS: dict[int, Handler[Context]] = {
    Code.GET_BROKER_RUNTIME_INFO: get_runtime_info,
    Code.VIEW_BROKER_STATS_DATA: view_broker_stats,
}
