"""Metrics: makes Prometheus' text of samples, by RocketMQ 5's names where they exist, else `rmq_`.

    render([sample of shard 0, sample of shard 1]) -> text of /metrics

Every value carries the labels of RocketMQ's own exporter, `cluster`, `node_type` and `node_id` (the
broker's name), and `shard`: sum by (node_id, ..) shows a shard, sum by (topic) the machine.
lag_metrics.py has how far groups are behind, topic_metrics.py the messages in and out of topics,
histogram_metrics.py the histograms with RocketMQ's bounds; all others are below, each with its help
text.
RocketMQ's dashboards work with these metrics. Differences: there is one queue of requests
(rocketmq_processor_watermark, processor "control") where RocketMQ has a pool of threads for each
kind; sizes of messages, open transactions and their time to the end are not split by topic;
one-way requests have no answer and are not in rocketmq_rpc_latency.

Histograms of rmq are in seconds, as is usual with Prometheus, with every fourth bucket of the core,
that is powers of two. RocketMQ's have its units and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmq.observe.exposition import Exposition, flag
from rmq.observe.histogram_metrics import add_steps
from rmq.observe.lag_metrics import add_lags
from rmq.observe.latency import edge
from rmq.observe.sample import Sample
from rmq.observe.topic_metrics import STORAGE, Labels, add_topics

# RocketMQ's name -> the name with the unit, which its exporter writes since 5.3. The time to the
# end of transactions is in seconds there too, in spite of its name.
WITH_UNITS = {
    "rocketmq_consumer_lag_latency": "rocketmq_consumer_lag_latency_milliseconds",
    "rocketmq_consumer_queueing_latency": "rocketmq_consumer_queueing_latency_milliseconds",
    "rocketmq_storage_size": "rocketmq_storage_size_bytes",
    "rocketmq_storage_message_reserve_time": "rocketmq_storage_message_reserve_time_milliseconds",
    "rocketmq_rpc_latency": "rocketmq_rpc_latency_milliseconds",
    "rocketmq_topic_create_execution_time": "rocketmq_topic_create_execution_time_milliseconds",
    "rocketmq_consumer_group_create_execution_time": (
        "rocketmq_consumer_group_create_execution_time_milliseconds"
    ),
    "rocketmq_finish_message_latency": "rocketmq_finish_message_latency_milliseconds",
    "rocketmq_delay_message_latency": "rocketmq_delay_message_latency_seconds",
}

SIZE_EDGES = (7, 8, 9, 10, 11, 12, 14, 16, 19, 20, 21, 22)  # 128 bytes to 4 MiB

# (metric, help, value of a sample); None leaves the shard out
_GAUGES: list[tuple[str, str, Callable[[Sample], int | float | None]]] = [
    ("rocketmq_broker_permission", "2 writable + 4 readable.", lambda s: s.permission),
    ("rocketmq_topic_number", "Topics.", lambda s: s.counters.get("topics")),
    ("rocketmq_consumer_group_number", "Subscription groups.", lambda s: s.groups),
    (
        "rocketmq_storage_size",
        "Bytes of the commit log.",
        lambda s: _difference(s, "log_written", "log_first"),
    ),
    (
        "rocketmq_storage_flush_behind_bytes",
        "Bytes written and not yet synced to disk.",
        lambda s: _difference(s, "log_written", "log_durable"),
    ),
    (
        "rocketmq_storage_dispatch_behind_bytes",
        "Bytes written that consumers can not see yet.",
        lambda s: _difference(s, "log_written", "log_dispatched"),
    ),
    (
        "rmq_storage_commit_behind_bytes",
        "Bytes in the store pool that are not in the file yet.",
        lambda s: _difference(s, "log_appended", "log_written"),
    ),
    (
        "rocketmq_storage_message_reserve_time",
        "Age of the oldest message in ms.",
        lambda s: max(0, s.now_ms - s.oldest_message_ms) if s.oldest_message_ms > 0 else None,
    ),
    (
        "rocketmq_half_messages",
        "Transactions that are open.",
        lambda s: s.half_messages if s.half_messages >= 0 else None,
    ),
    (
        "rocketmq_timer_enqueue_lag",
        "Timed messages that are stored and not among those that wait yet.",
        lambda s: s.timers_behind if s.timers_behind >= 0 else None,
    ),
    ("rmq_memory_arena_bytes", "Address space of all buffers.", lambda s: _counter(s, "bytes")),
    (
        "rmq_memory_arena_used_bytes",
        "What of it was taken at the start.",
        lambda s: _counter(s, "used"),
    ),
    ("rmq_memory_arena_sealed", "1: nothing more is taken.", lambda s: _counter(s, "sealed")),
    (
        "rmq_memory_locked_bytes",
        "Of the arena, kept in memory once touched.",
        lambda s: _counter(s, "locked"),
    ),
    ("rmq_memory_node", "NUMA node of the arena, -1: none.", lambda s: _counter(s, "node")),
    ("rmq_slaves", "Slaves that follow this master.", lambda s: _of(s, "master", len(s.slaves))),
    (
        "rmq_slave_behind_bytes",
        "What the slave that has least lacks of the log.",
        lambda s: max((row.behind_bytes for row in s.slaves), default=None),
    ),
    (
        "rmq_slave_behind_ms",
        "How long ago the slave that is furthest behind had everything.",
        lambda s: max((row.behind_ms for row in s.slaves), default=None),
    ),
    (
        "rmq_in_sync_replicas",
        "Brokers that are in sync with this master and answer it, itself included.",
        lambda s: s.in_sync if s.in_sync >= 0 else None,
    ),
    (
        "rmq_in_sync_replicas_min",
        "With fewer in sync this master refuses sends (minInSyncReplicas).",
        lambda s: s.in_sync_min if s.in_sync >= 0 else None,
    ),
    (
        "rmq_master_epoch",
        "Epoch of the master that this broker is or follows, as the controller has it.",
        lambda s: s.master_epoch or None,
    ),
    (
        "rmq_following",
        "1 while a slave's log comes from its master.",
        lambda s: _of(s, "slave", int(bool(s.follows))),
    ),
    ("rmq_up_seconds", "Since the start of the process.", lambda s: s.uptime_ms / 1000),
    ("rmq_writable", "1 while sends are taken.", lambda s: s.counters.get("writable")),
    (
        "rmq_reactor_standing_seconds",
        "How long the reactor has taken no turn; 0 while it takes some.",
        lambda s: s.reactor_standing_s,
    ),
    ("rmq_poisoned", "1 after a failed write or sync.", lambda s: s.counters.get("poisoned")),
    ("rmq_connections", "Open connections.", lambda s: s.counters.get("connections")),
    ("rmq_pulls_waiting", "Pulls held.", lambda s: s.counters.get("pulls_waiting")),
    ("rmq_resident_memory_bytes", "Of the process.", lambda s: s.rss_bytes),
    ("rmq_open_files", "File descriptors of the process.", lambda s: s.open_files),
    (
        "rmq_disk_used_ratio",
        "Of the file system that holds the log.",
        lambda s: s.disk_ratio if s.disk_ratio >= 0 else None,
    ),
    (
        "rmq_page_cache_resident_bytes",
        "Bytes of the newest log files that are in memory.",
        lambda s: s.page_cache[0],
    ),
    (
        "rmq_page_cache_dirty_bytes",
        "Of them not on the disk yet.",
        lambda s: s.page_cache[1] if s.page_cache[1] >= 0 else None,
    ),
    (
        "rmq_samples_left_out",
        "Topics, lags, and clients' groups beyond the limit.",
        lambda s: s.left_out,
    ),
    (
        "rmq_lags_without_age",
        "Lags whose ages there was no time to look for; the next scrapes begin with them.",
        lambda s: s.lags_without_age,
    ),
]

# metric -> (counter of the core, help)
_COUNTERS = {
    "rmq_memory_refusals_total": (
        "memory_refusals",
        "Memory asked for after the start, and not given.",
    ),
    "rmq_turns_total": ("turns", "Turns of the reactor."),
    "rmq_busy_polls_total": (
        "busy_polls",
        "Turns that would have slept without rmqBusyPollMicros.",
    ),
    "rmq_write_outs_total": ("write_outs", "Turns' writes to the log."),
    "rmq_log_syncs_total": ("log_syncs", "fdatasync calls on the log."),
    "rmq_sends_refused_total": ("sends_refused", "Sends refused, for whatever reason."),
    "rmq_busy_replies_total": ("busy_replies", "Requests answered SYSTEM_BUSY."),
    "rmq_pulls_total": ("pulls", "Pull requests."),
    "rmq_pulls_found_total": ("pulls_found", "Pulls answered with messages."),
    "rmq_pulls_held_total": ("pulls_held", "Pulls that had to wait for a message."),
    "rmq_pulls_empty_total": ("pulls_empty", "Pulls answered without a message."),
    "rmq_pulls_from_disk_total": ("pulls_from_disk", "Pulls that had to wait for the disk."),
    "rmq_pops_hurried_total": (
        "pop_hurried",
        "Pops whose messages came again before all acks were read: too many end at once.",
    ),
    "rmq_control_requests_total": ("control_requests", "Requests for the control thread."),
    "rmq_malformed_frames_total": ("malformed_frames", "Frames that closed a connection."),
    "rmq_corrupt_records_total": ("corrupt_records", "Records that failed their check."),
    "rmq_received_bytes_total": ("received_bytes", "Bytes from sockets."),
    "rmq_sent_bytes_total": ("sent_bytes", "Bytes to sockets."),
    "rmq_socket_stalls_total": ("socket_stalls", "Sockets that did not take a turn's output."),
    "rmq_connections_accepted_total": ("connections_accepted", "Connections accepted."),
    "rmq_connections_closed_slow_total": (
        "connections_closed_slow",
        "Connections closed for the large buffer they held while others waited.",
    ),
    "rmq_connections_closed_deaf_total": (
        "connections_closed_deaf",
        "Connections closed for answers that they did not take while buffers ran out.",
    ),
    "rmq_connections_displaced_total": (
        "connections_displaced",
        "Connections that had asked for nothing, closed for others at a limit.",
    ),
    "rmq_connections_refused_total": ("connections_refused", "Connections beyond the limit."),
    "rmq_accept_failures_total": (
        "accept_failures",
        "Times connections had to wait, as there was no descriptor for one.",
    ),
    "rmq_connections_refused_address_total": (
        "connections_refused_address",
        "Connections beyond the limit of their address.",
    ),
    "rmq_connections_refused_words_total": (
        "connections_refused_words",
        "Connections of balancers that did not say who comes by them.",
    ),
    "rmq_handshakes_refused_address_total": (
        "handshakes_refused_address",
        "TLS handshakes beyond the limits of their address.",
    ),
}

_WATERMARK = (
    "rocketmq_processor_watermark",
    "Requests that wait for the control thread.",
)

ROLES = ("master", "slave")

_POOL_GAUGES = (
    ("rmq_pool_buffers", "gauge", "Buffers of a pool.", 1),
    ("rmq_pool_in_use", "gauge", "Buffers in use.", 2),
    ("rmq_pool_high_water", "gauge", "Most buffers ever in use at once.", 3),
    ("rmq_pool_refusals_total", "counter", "Times a pool was empty.", 4),
)


def render(samples: Sequence[Sample]) -> bytes:
    """The text of /metrics."""
    out = Exposition(WITH_UNITS)
    shards = [(sample, _labels(sample)) for sample in samples]
    for name, text, value_of in _GAUGES:
        out.family(name, "gauge", text)
        own = STORAGE if name.startswith(("rocketmq_storage_", "rocketmq_timer_")) else {}
        for sample, labels in shards:
            value = value_of(sample)
            if value is not None:
                out.value(name, labels | own, value)
    for name, (counter, text) in _COUNTERS.items():
        out.family(name, "counter", text)
        for sample, labels in shards:
            out.value(name, labels, sample.counters.get(counter, 0))
    name, text = _WATERMARK
    out.family(name, "gauge", text)
    for sample, labels in shards:
        waiting = sample.counters.get("control_waiting", 0)
        out.value(name, labels | {"processor": "control"}, waiting)
    out.family("rmq_build_info", "gauge", "Which rmq it is: version (commit). Always 1.")
    for sample, labels in shards:
        if sample.build:
            own = {"version": sample.build, "rocketmq_version": sample.version}
            out.value("rmq_build_info", labels | own, 1)
    out.family("rmq_cpu_seconds_total", "counter", "User and system time of the process.")
    for sample, labels in shards:
        out.value("rmq_cpu_seconds_total", labels, sample.cpu_ms / 1000)
    add_topics(out, shards)
    add_steps(out, shards)
    add_lags(out, shards)
    _sizes(out, shards)
    _clients(out, shards)
    _pools(out, shards)
    _roles(out, shards)
    _latency(out, shards, "append", "rmq_append_latency_seconds",
             "From the turn that brought a message to its write.")  # fmt: skip
    _latency(out, shards, "commit", "rmq_commit_latency_seconds",
             "One write of the store pool to its file.")  # fmt: skip
    _latency(out, shards, "flush", "rmq_flush_latency_seconds", "One fdatasync of the log.")
    return out.text()


def _labels(sample: Sample) -> Labels:
    return {
        "cluster": sample.cluster,
        "node_type": "broker",
        "node_id": sample.broker,
        "shard": str(sample.shard),
    }


def _counter(sample: Sample, what: str) -> int | None:
    return sample.counters.get(f"memory_{what}")


def _of(sample: Sample, role: str, value: int) -> int | None:
    return value if sample.role == role else None


def _roles(out: Exposition, shards: Sequence[tuple[Sample, Labels]]) -> None:
    out.family("rmq_role", "gauge", "1 for the role that a broker with replicas has.")
    for sample, labels in shards:
        for role in ROLES if sample.role else ():
            out.value("rmq_role", labels | {"role": role}, int(sample.role == role))
    out.family("rmq_replication_lag_bytes", "gauge", "What a replica lacks of its master's log.")
    for sample, labels in shards:
        for slave in sample.slaves:
            replica = str(slave.broker_id) if slave.broker_id else slave.address
            out.value("rmq_replication_lag_bytes", labels | {"replica": replica},
                      slave.behind_bytes)  # fmt: skip


def _difference(sample: Sample, upper: str, lower: str) -> int | None:
    if upper not in sample.counters or lower not in sample.counters:
        return None
    return max(0, sample.counters[upper] - sample.counters[lower])


def _sizes(out: Exposition, shards: Sequence[tuple[Sample, Labels]]) -> None:
    name = "rocketmq_message_size"
    out.family(name, "histogram", "Bytes of a stored message.")
    for sample, labels in shards:
        if not sample.sizes:
            continue
        for bits in SIZE_EDGES:
            seen = sum(sample.sizes[: bits + 1])
            out.value(f"{name}_bucket", labels | {"le": f"{1 << bits}.0"}, seen)
        seen = sum(sample.sizes)
        out.value(f"{name}_bucket", labels | {"le": "+Inf"}, seen)
        out.value(f"{name}_sum", labels, sample.counters.get("bytes_in", 0))
        out.value(f"{name}_count", labels, seen)


def _clients(out: Exposition, shards: Sequence[tuple[Sample, Labels]]) -> None:
    out.family("rocketmq_producer_connections", "gauge", "Connections of producers.")
    for sample, labels in shards:
        for (language, version), count in _producers(sample).items():
            own = {"language": language, "version": version, "protocol_type": "remoting"}
            out.value("rocketmq_producer_connections", labels | own, count)
    out.family("rocketmq_consumer_connections", "gauge", "Connections of consumers.")
    for sample, labels in shards:
        for row in sample.consumers:
            own = {
                "consumer_group": row.group, "language": row.language, "version": row.version,
                "consume_mode": row.mode, "protocol_type": "remoting",
                "is_system": flag(row.is_system),
            }  # fmt: skip
            out.value("rocketmq_consumer_connections", labels | own, row.count)


def _producers(sample: Sample) -> dict[tuple[str, str], int]:
    """Connections by language and version, added up over all groups, as no label names a group."""
    counts: dict[tuple[str, str], int] = {}
    for row in sample.producers:
        key = (row.language, row.version)
        counts[key] = counts.get(key, 0) + row.count
    return counts


def _pools(out: Exposition, shards: Sequence[tuple[Sample, Labels]]) -> None:
    for name, kind, text, column in _POOL_GAUGES:
        out.family(name, kind, text)
        for sample, labels in shards:
            for pool, numbers in sample.pools.items():
                out.value(name, labels | {"pool": pool}, numbers[column])


def _latency(
    out: Exposition,
    shards: Sequence[tuple[Sample, Labels]],
    which: str,
    name: str,
    text: str,
) -> None:
    out.family(name, "histogram", text)
    for sample, labels in shards:
        if which not in sample.latencies:
            continue
        counts, sum_of_all = sample.latencies[which]
        seen = 0
        for bucket, count in enumerate(counts):
            seen += count
            if bucket % 4 == 3 and bucket >= 7 and bucket < len(counts) - 1:
                le = f"{(edge(bucket) + 1) / 1e6:.6f}"
                out.value(f"{name}_bucket", labels | {"le": le}, seen)
        out.value(f"{name}_bucket", labels | {"le": "+Inf"}, seen)
        out.value(f"{name}_sum", labels, sum_of_all / 1e6)
        out.value(f"{name}_count", labels, seen)
