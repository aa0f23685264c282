"""Handlers 28 (runtime table of mqadmin brokerStatus and clusterList), 315 (stats by name) and 907
(mqadmin haStatus).

    28 body  {"table":{"putTps":"120.000 118.400 97.310","commitLogMaxOffset":"1048576",..}}

With the field rmqDetail=true, which mqadmin does not send, the table has one entry more, rmqSample:
the whole rmq/observe/sample.py as JSON, for `rmq top` and `rmq broker status`; with brief the same
without its tables.

The plain table is made at most five times a second (body_cache.py). All values are text. The
numbers come from the core's counters (COUNTERS names them), from samples of them every 10 s, and
from the file system. Rates are three: last 10 s, 1 minute, 10 minutes.

315 knows what is counted for the whole broker, BROKER_PUT_NUMS and BROKER_GET_NUMS with the cluster
name as key, TOPIC_PUT_NUMS and TOPIC_PUT_SIZE with a topic as key, and GROUP_GET_NUMS with
topic@group: by how much the group's offsets on the topic grew. A topic or group is sampled from the
first question about it on, so that thousands nobody asks about cost nothing. Other names are
answered with code 1, which mqadmin takes.
"""

import os
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from rmq.broker.dispatch.request import Refusal, Reply, Request
from rmq.broker.status.counter_history import group_counter, topic_counter
from rmq.broker.status.put_times import put_times
from rmq.broker.tasks.retention import disk_ratio
from rmq.codes import VERSION, VERSION_TEXT, ResponseCode
from rmq.format import fastjson
from rmq.observe.sample import encode

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

# What this module calls a counter -> the core's name of it.
COUNTERS = {
    "puts": "messages_in",
    "put_bytes": "bytes_in",
    "put_failures": "sends_refused",
    "gets": "messages_out",
    "found": "pulls_found",
    "missed": "pulls_empty",
}
_QUEUES = ("send", "pull", "litePull", "query", "ack")  # thread pools of Apache; none here


def get_runtime_info(broker: "Broker", request: Request) -> "Reply | Awaitable[Reply]":
    """The table of a moment is the same for all who ask within it."""
    detail = request.command.fields.get("rmqDetail")
    if detail == "brief":
        sample = encode(broker.sampler.take(brief=True)).decode()
        return request.command.reply(body=fastjson.dumps({"table": _table(broker, sample)}))
    if detail == "true":
        return _with_all(broker, request)
    body = broker.bodies.of_moment("runtime", lambda: fastjson.dumps({"table": _table(broker)}))
    return request.command.reply(body=body)


async def _with_all(broker: "Broker", request: Request) -> Reply:
    sample = encode(await broker.sampler.take_all()).decode()
    return request.command.reply(body=fastjson.dumps({"table": _table(broker, sample)}))


def _table(broker: "Broker", sample: str | None = None) -> dict[str, str]:
    table = {**_identity(broker), **_rates(broker), **_log(broker), **_pools(), **_later(broker)}
    if sample is not None:
        table["rmqSample"] = sample
    return table


def view_broker_stats(broker: "Broker", request: Request) -> Reply:
    command = request.command
    name, key = command.require("statsName"), command.require("statsKey")
    counter = _counter(broker, name, key)
    if counter is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"no stats are kept under {name[:100]!r} {key[:300]!r}"
        )
    body = {
        part: _stats_item(broker, counter, seconds)
        for part, seconds in (("statsMinute", 60), ("statsHour", 3600), ("statsDay", 86400))
    }
    return command.reply(body=fastjson.dumps(body))


def get_ha_status(broker: "Broker", request: Request) -> Reply:
    """907: a master without slaves."""
    body = {
        "master": True,
        "masterCommitLogMaxOffset": broker.core.log_range()[1],
        "inSyncSlaveNums": 0,
        "haConnectionInfo": [],
        "haClientRuntimeInfo": {
            "maxOffset": 0,
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "transferredByteInSecond": 0,
            "activated": False,
        },
    }
    return request.command.reply(body=fastjson.dumps(body))


def _counter(broker: "Broker", name: str, key: str) -> str | None:
    """What samples call the counter of this name and key; None when nothing is counted there."""
    whole = {"BROKER_PUT_NUMS": "puts", "BROKER_GET_NUMS": "gets"}.get(name)
    if whole is not None and key == broker.settings.brokerClusterName:
        return COUNTERS[whole]
    if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE") and key in broker.topics:
        broker.watch_topic(key)
        return topic_counter(key, "puts" if name == "TOPIC_PUT_NUMS" else "bytes")
    topic, separator, group = key.partition("@")
    if name == "GROUP_GET_NUMS" and separator and broker.offsets.of(group, topic):
        broker.watch_group(topic, group)
        return group_counter(topic, group)
    return None


def _stats_item(broker: "Broker", counter: str, seconds: int) -> dict[str, float]:
    growth, took = broker.samples.over(counter, seconds)
    return {"sum": growth, "tps": growth / took if took else 0.0, "avgpt": 0.0}


def _identity(broker: "Broker") -> dict[str, str]:
    settings = broker.settings
    seconds = int(time.time() - broker.started_at)
    days, seconds = divmod(seconds, 86400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    return {
        "brokerActive": "true",
        "brokerName": settings.brokerName,
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": VERSION_TEXT,
        "bootTimestamp": str(int(broker.started_at * 1000)),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        "startAcceptSendRequestTimeStamp": str(settings.startAcceptSendRequestTimeStamp),
        "connections": str(len(broker.connections)),
    }


def _rates(broker: "Broker") -> dict[str, str]:
    counters = broker.core.stats()
    now = {ours: counters.get(theirs, 0) for ours, theirs in COUNTERS.items()}
    samples = broker.samples
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
        **put_times(broker.core.latencies()["append"][0]),
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


def _log(broker: "Broker") -> dict[str, str]:
    minimum, maximum, durable = broker.core.log_range()
    counters = broker.core.stats()
    waiting = max(0, counters.get("log_appended", 0) - counters.get("log_written", 0))
    directory = broker.commit_log_directory
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
        "remainTransientStoreBufferNumbs": str(_pool_files_left(broker, counters, waiting)),
        "dispatchBehindBytes": "0",
        "dispatchMaxBuffer": "0",  # consumers see a message in the turn that wrote it
        "pageCacheLockTimeMills": "0",
        "commitLogDiskRatio": f"{ratio:.4f}",
        f"commitLogDiskRatio_{directory}": f"{ratio:.4f}",
        "consumeQueueDiskRatio": f"{disk_ratio(broker.consume_queue_directory):.4f}",
        "commitLogDirCapacity": f"Total : {_readable(total)}, Free : {_readable(free)}.",
        "earliestMessageTimeStamp": str(broker.earliest_store_time()),
    }


def _pool_files_left(broker: "Broker", counters: dict[str, int], waiting: int) -> int:
    """Log files' worth of free store pool; Java's largest int where it refuses nobody."""
    if not counters.get("log_pooled") or not broker.settings.fastFailIfNoBufferInStorePool:
        return 2**31 - 1
    left = counters["log_ring_bytes"] - waiting
    return max(0, left) // int(broker.settings.mappedFileSizeCommitLog)


def _pools() -> dict[str, str]:
    """Apache's thread pools have no counterpart: requests are served by one reactor, in order."""
    table = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
    for name in _QUEUES:
        table[f"{name}ThreadPoolQueueSize"] = "0"
        table[f"{name}ThreadPoolQueueCapacity"] = "0"
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


def _later(broker: "Broker") -> dict[str, str]:
    """What waits for its time: timed messages, and how far each delay level has been delivered."""
    counters, samples = broker.core.stats(), broker.samples
    table = {
        "timerReadBehind": str(counters.get("timers_late_ms", 0) // 1000),  # seconds
        "timerOffsetBehind": str(counters.get("timers_behind", 0)),
        "timerCongestNum": str(counters.get("timers_waiting", 0)),
        "timerEnqueueTps": f"{samples.rate('timers_fed', 10):.1f}",
        "timerDequeueTps": f"{samples.rate('timers_delivered', 10):.1f}",
    }
    for level, (offset, end) in broker.delays.progress().items():
        table[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
    return table


def _readable(count: int) -> str:
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"
