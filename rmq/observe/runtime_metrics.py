"""Runtime metrics: rocketmq_brokeruntime_.., rocketmq-exporter's metrics of a runtime table (28).

    rocketmq_brokeruntime_put_tps10{cluster="C",brokerIP="10.0.0.5:10911",..} 120.0

Names, labels and their meaning are those of apache/rocketmq-exporter at e1ab2dd
(RMQMetricsCollector and BrokerRuntimeStats), which reads the same table over the network: brokerIP
is the address with its port, brokerHost is empty. For remain_howmanydata_toflush the exporter takes
the number without its unit; here it is in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmq.observe.exposition import Exposition

PREFIX = "rocketmq_brokeruntime_"
Labels = dict[str, str]
Table = Mapping[str, str]

# metric -> key of the table
_PLAIN = {
    "msg_put_total_today_now": "msgPutTotalTodayNow",
    "msg_gettotal_today_now": "msgGetTotalTodayNow",
    "msg_puttotal_todaymorning": "msgPutTotalTodayMorning",
    "msg_gettotal_todaymorning": "msgGetTotalTodayMorning",
    "msg_puttotal_yesterdaymorning": "msgPutTotalYesterdayMorning",
    "msg_gettotal_yesterdaymorning": "msgGetTotalYesterdayMorning",
    "dispatch_behind_bytes": "dispatchBehindBytes",
    "dispatch_maxbuffer": "dispatchMaxBuffer",
    "put_message_size_total": "putMessageSizeTotal",
    "put_message_average_size": "putMessageAverageSize",
    "putmessage_times_total": "putMessageTimesTotal",
    "putmessage_entire_time_max": "putMessageEntireTimeMax",
    "getmessage_entire_time_max": "getMessageEntireTimeMax",
    "put_latency_99": "putLatency99",
    "put_latency_999": "putLatency999",
    "start_accept_sendrequest_time": "startAcceptSendRequestTimeStamp",
    "earliest_message_timestamp": "earliestMessageTimeStamp",
    "remain_transientstore_buffer_numbs": "remainTransientStoreBufferNumbs",
    "pagecache_lock_time_mills": "pageCacheLockTimeMills",
    "commitlog_disk_ratio": "commitLogDiskRatio",
    "consumequeue_disk_ratio": "consumeQueueDiskRatio",
    "commitlog_maxoffset": "commitLogMaxOffset",
    "commitlog_minoffset": "commitLogMinOffset",
    "send_threadpool_queue_size": "sendThreadPoolQueueSize",
    "pull_threadpoolqueue_size": "pullThreadPoolQueueSize",
    "query_threadpoolqueue_size": "queryThreadPoolQueueSize",
    "send_threadpoolqueue_capacity": "sendThreadPoolQueueCapacity",
    "pull_threadpoolqueue_capacity": "pullThreadPoolQueueCapacity",
    "query_threadpool_queue_capacity": "queryThreadPoolQueueCapacity",
    "send_threadpoolqueue_headwait_timemills": "sendThreadPoolQueueHeadWaitTimeMills",
    "pull_threadpoolqueue_headwait_timemills": "pullThreadPoolQueueHeadWaitTimeMills",
    "query_threadpoolqueue_headwait_timemills": "queryThreadPoolQueueHeadWaitTimeMills",
}
# The last 10 s, 1 minute and 10 minutes: metric without its number -> key
_THREE_RATES = {
    "put_tps": "putTps",
    "getfound_tps": "getFoundTps",
    "getmiss_tps": "getMissTps",
    "gettotal_tps": "getTotalTps",
    "gettransfered_tps": "getTransferedTps",
}
_SECONDS = (10, 60, 600)
_SIZES = {"remain_howmanydata_toflush": "remainHowManyDataToFlush"}
# The positions of words with numbers in "Total : 9.5 GiB, Free : 1.0 GiB."
_CAPACITY = {"commitlogdir_capacity_total": 2, "commitlogdir_capacity_free": 6}
# putMessageDistributeTime: metric -> range
_PUT_TIMES = {
    "pmdt_0ms": "<=0ms",
    "pmdt_0to10ms": "0~10ms",
    "pmdt_10to50ms": "10~50ms",
    "pmdt_50to100ms": "50~100ms",
    "pmdt_100to200ms": "100~200ms",
    "pmdt_200to500ms": "200~500ms",
    "pmdt_500to1s": "500ms~1s",
    "pmdt_1to2s": "1~2s",
    "pmdt_2to3s": "2~3s",
    "pmdt_3to4s": "3~4s",
    "pmdt_4to5s": "4~5s",
    "pmdt_5to10s": "5~10s",
    "pmdt_10stomore": "10s~",
}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def rates_of(table: Table, key: str) -> list[float]:
    """The rates of the last 10 s, 1 minute and 10 minutes; empty: the table does not have them."""
    return [float(each) for each in table.get(key, "").split()]


def add_runtime(out: Exposition, tables: Sequence[tuple[str, str, Table]]) -> None:
    """Adds the metrics. tables: (cluster, address, runtime table) of each broker. A value that is
    in no table has no line."""
    read = [(_labels(*each), _values(each[2])) for each in tables]
    for name in dict.fromkeys(name for _, values in read for name in values):
        out.family(PREFIX + name, "gauge", "As mqadmin brokerStatus shows it.")
        for labels, values in read:
            if name in values:
                out.value(PREFIX + name, labels, values[name])


def _labels(cluster: str, address: str, table: Table) -> Labels:
    return {
        "cluster": cluster,
        "brokerIP": address,
        "brokerHost": "",
        "des": table.get("brokerVersionDesc", ""),
        "boottime": table.get("bootTimestamp", ""),
        "broker_version": table.get("brokerVersion", ""),
    }


def _values(table: Table) -> dict[str, float]:
    values = {name: float(table[key]) for name, key in _PLAIN.items() if key in table}
    for name, key in _THREE_RATES.items():
        for seconds, rate in zip(_SECONDS, rates_of(table, key), strict=False):
            values[f"{name}{seconds}"] = rate
    values |= {name: _bytes(table[key].split()) for name, key in _SIZES.items() if key in table}
    words = table.get("commitLogDirCapacity", "").split()
    values |= {name: _bytes(words[place : place + 2]) for name, place in _CAPACITY.items() if words}
    spread = dict(
        each.lstrip("[").rsplit("]:", 1)
        for each in table.get("putMessageDistributeTime", "").split()
    )
    values |= {name: float(spread[key]) for name, key in _PUT_TIMES.items() if key in spread}
    return values


def _bytes(words: Sequence[str]) -> float:
    """The bytes in words like `9.5 GiB,`."""
    return float(words[0]) * 1024.0 ** _UNITS.index(words[1].rstrip(".,"))
