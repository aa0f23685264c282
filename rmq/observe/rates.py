"""Rates: the difference of two samples of a shard: rows of `rmq top` and `rmq broker status`.

    row = figures(earlier, later)
    row.in_rate, row.out_mb, row.cpu, row.append_p99_ms      None: not known

Without an earlier sample, and after a restart of the shard, the rates are over the whole life of
the process. A broker that is not rmq gives no sample; from_table() makes one from RocketMQ's
runtime table, as far as possible.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmq.observe.latency import BUCKETS, percentile, since
from rmq.observe.sample import Sample

MB = 1e6


class Figures(msgspec.Struct, frozen=True):
    """One shard over an interval."""

    broker: str
    address: str
    state: str
    version: str
    pid: int
    uptime_s: float | None
    in_rate: float | None  # messages a second
    in_mb: float | None  # MB a second
    out_rate: float | None
    out_mb: float | None
    cpu: float | None  # busy processors: 1.0 is one
    rss_mb: float | None
    connections: int | None
    pool: float | None  # the fullest pool, 0 to 1
    pool_most: float | None  # the highest level that any pool has ever had
    refusals: int | None  # times a pool was empty or a send got SYSTEM_BUSY, in the interval
    lag: int | None  # messages behind, all groups
    unsynced_mb: float | None
    cached: float | None  # part of the newest log files that is in memory, 0 to 1
    append_p99_ms: float | None
    flush_p99_ms: float | None
    disk: float | None  # used part of the file system, 0 to 1
    role: str  # "slave", "master", "master of 2"; empty for a broker without replicas
    behind_mb: float | None  # of a master: how much of the log the slave furthest behind lacks
    epoch: int | None  # of the master, where a controller decides who that is
    in_sync: int | None  # of such a master: brokers that are in sync, itself included
    problem: str  # with its copies, or with being one; why it tells nothing


def figures(earlier: Sample | None, later: Sample) -> Figures:
    """The row of a shard; `earlier` may be missing or from the process before."""
    if earlier is None or earlier.pid != later.pid or earlier.uptime_ms >= later.uptime_ms:
        earlier = Sample()
    seconds = (later.uptime_ms - earlier.uptime_ms) / 1000 or None

    def rate(counter: str) -> float | None:
        if counter not in later.counters or seconds is None:
            return None
        return (later.counters[counter] - earlier.counters.get(counter, 0)) / seconds

    resident, _, looked_at = later.page_cache
    return Figures(
        broker=later.broker,
        address=later.address,
        state=later.state,
        version=f"rmq {later.build}" if later.build else later.version,
        pid=later.pid,
        uptime_s=later.uptime_ms / 1000 if later.uptime_ms else None,
        in_rate=rate("messages_in"),
        in_mb=_scaled(rate("bytes_in"), MB),
        out_rate=rate("messages_out"),
        out_mb=_scaled(rate("bytes_out"), MB),
        cpu=(later.cpu_ms - earlier.cpu_ms) / 1000 / seconds if seconds and later.pid else None,
        rss_mb=_scaled(later.rss_bytes or None, MB),
        connections=later.counters.get("connections"),
        pool=max((row[2] / row[1] for row in later.pools.values() if row[1]), default=None),
        pool_most=max((row[3] / row[1] for row in later.pools.values() if row[1]), default=None),
        refusals=_refusals(later) - _refusals(earlier) if later.pools else None,
        lag=later.lag if later.pid else None,
        unsynced_mb=_unsynced(later),
        cached=min(1.0, resident / looked_at) if looked_at else None,
        append_p99_ms=_p99_ms(earlier, later, "append"),
        flush_p99_ms=_p99_ms(earlier, later, "flush"),
        disk=later.disk_ratio if later.disk_ratio >= 0 else None,
        role=f"master of {len(later.slaves)}" if later.slaves else later.role,
        behind_mb=max((row.behind_bytes / MB for row in later.slaves), default=None),
        epoch=later.master_epoch or None,
        in_sync=later.in_sync if later.in_sync >= 0 else None,
        problem=later.replication_problem,
    )


def unreachable(broker: str, address: str, problem: str = "") -> Figures:
    """The row of a broker that does not answer."""
    return _without_figures(broker, address, "unreachable", problem)


def refused(broker: str, address: str, problem: str) -> Figures:
    """The row of a broker that answers, but does not tell."""
    return _without_figures(broker, address, "refused", problem)


def _without_figures(broker: str, address: str, state: str, problem: str) -> Figures:
    sample = Sample(broker=broker, address=address, state=state, replication_problem=problem)
    return figures(None, sample)


def from_table(broker: str, address: str, table: Mapping[str, str]) -> Sample:
    """A sample made from the runtime table of a broker that gives no samples."""
    names = {
        "messages_in": "msgPutTotalTodayNow",
        "messages_out": "msgGetTotalTodayNow",
        "bytes_in": "putMessageSizeTotal",
    }
    counters = {
        ours: int(table[theirs]) for ours, theirs in names.items()
        if table.get(theirs, "").isdigit()
    }  # fmt: skip
    sample = Sample(broker=broker, address=address, counters=counters)
    sample.version = table.get("brokerVersionDesc", "")
    sample.build = table.get("rmqVersion", "")
    try:
        sample.disk_ratio = float(table["commitLogDiskRatio"])
        sample.uptime_ms = int(table["rmqNowMs"]) - int(table["bootTimestamp"])
    except (KeyError, ValueError):
        pass
    return sample


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _unsynced(sample: Sample) -> float | None:
    counters = sample.counters
    if "log_written" not in counters or "log_durable" not in counters:
        return None
    return max(0, counters["log_written"] - counters["log_durable"]) / MB


def _refusals(sample: Sample) -> int:
    return sample.counters.get("busy_replies", 0) + sum(row[4] for row in sample.pools.values())


def _p99_ms(earlier: Sample, later: Sample, which: str) -> float | None:
    if which not in later.latencies:
        return None
    before = earlier.latencies.get(which, ([], 0))[0]
    counts = since(later.latencies[which][0], before)[:BUCKETS]
    return _scaled(percentile(counts, 0.99), 1000)
