"""Panels: what the dashboard shows; each table here is a row of it.

In an expression {..} stands for the clusters and brokers that are chosen above the dashboard.
Metrics are those of rmq/observe.
"""

from __future__ import annotations

import msgspec

Query = tuple[str, str]  # expression, legend

BROKER = "{{node_id}}"
GROUP = "{{consumer_group}} {{topic}}"
EVERY = "[$__rate_interval]"


class Panel(msgspec.Struct, frozen=True):
    """kind: stat shows the last value, timeseries a line for each series. unit: by Grafana's
    name."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    text: str = ""
    kind: str = "timeseries"


def _sum(metric: str, by: str, labels: str = "{..}", legend: str = "") -> Query:
    """A query for the metric's increase per second."""
    return f"sum by ({by}) (rate({metric}{labels}{EVERY}))", legend or BROKER


def _quantile(share: float, metric: str, by: str, legend: str, labels: str = "{..}") -> Query:
    rate = f"sum by ({by}, le) (rate({metric}_bucket{labels}{EVERY}))"
    return f"histogram_quantile({share}, {rate})", legend


def _quantiles(metric: str) -> tuple[Query, ...]:
    return tuple(
        _quantile(share, metric, "node_id", f"{BROKER} {name}")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    )


def _largest(expression: str, legend: str = GROUP) -> Query:
    return f"topk(10, {expression})", legend


OURS = '{..,is_system="false"}'
PASSED = '{..,is_long_polling="false"}'

OVERVIEW = (
    Panel("Shards", "short", (("count(rmq_up_seconds{..})", ""),), kind="stat"),
    Panel("In", "msg/s", ((f"sum(rate(rocketmq_messages_in_total{OURS}{EVERY}))", ""),),
          kind="stat"),
    Panel("Out", "msg/s", ((f"sum(rate(rocketmq_messages_out_total{OURS}{EVERY}))", ""),),
          kind="stat"),
    Panel("Connections", "short", (("sum(rmq_connections{..})", ""),), kind="stat"),
    Panel("Fullest disk", "percentunit", (("max(rmq_disk_used_ratio{..})", ""),), kind="stat"),
    Panel("Take no sends", "short", (("count(rmq_writable{..} == 0) or vector(0)", ""),),
          "Slaves are among them.", kind="stat"),
)  # fmt: skip
MESSAGES = (
    Panel("Messages in", "msg/s", (_sum("rocketmq_messages_in_total", "node_id"),)),
    Panel("Messages out", "msg/s", (_sum("rocketmq_messages_out_total", "node_id"),)),
    Panel("Bytes in and out", "Bps", (
        _sum("rocketmq_throughput_in_total", "node_id", legend=f"{BROKER} in"),
        _sum("rocketmq_throughput_out_total", "node_id", legend=f"{BROKER} out"),
    )),
    Panel("Topics in", "msg/s", (
        _largest(_sum("rocketmq_messages_in_total", "topic", OURS)[0], "{{topic}}"),
    ), "The ten largest."),
    Panel("Groups out", "msg/s", (
        _largest(_sum("rocketmq_messages_out_total", "consumer_group, topic", OURS)[0]),
    ), "The ten largest. What message filters let through has no group."),
    Panel("Size of a message", "bytes", _quantiles("rocketmq_message_size")),
)  # fmt: skip
TIMES = (
    Panel("Append", "s", _quantiles("rmq_append_latency_seconds"),
          "From the turn that brought a message to its write."),
    Panel("Sync", "s", _quantiles("rmq_flush_latency_seconds"), "One fdatasync of the log."),
    Panel("Requests, p99", "ms", (
        _quantile(0.99, "rocketmq_rpc_latency_milliseconds", "request_code", "{{request_code}}",
                  PASSED),
    ), "Without pulls that wait for messages."),
)  # fmt: skip
LOG = (
    Panel("Not on the disk", "bytes", (("rocketmq_storage_flush_behind_bytes{..}", BROKER),),
          "What a power cut would take with ASYNC_FLUSH."),
    Panel("Not in the queues", "bytes", (
        ("rocketmq_storage_dispatch_behind_bytes{..}", BROKER),
    ), "What is written and consumers cannot see yet."),
    Panel("Log", "bytes", (("rocketmq_storage_size_bytes{..}", BROKER),)),
    Panel("Disk used", "percentunit", (("rmq_disk_used_ratio{..}", BROKER),),
          "At 75 % old files go, at 90 % sends are refused."),
    Panel("Oldest message", "ms", (
        ("rocketmq_storage_message_reserve_time_milliseconds{..}", BROKER),
    )),
    Panel("Page cache", "bytes", (
        ("rmq_page_cache_resident_bytes{..}", f"{BROKER} in memory"),
        ("rmq_page_cache_dirty_bytes{..}", f"{BROKER} not written back"),
    ), "Of the newest files of the log."),
)  # fmt: skip
GROUPS = (
    Panel("Lag", "short", (
        _largest(f"sum by (consumer_group, topic) (rocketmq_consumer_lag_messages{OURS})"),
    ), "Messages behind the committed offset; the ten largest."),
    Panel("Age of the lag", "ms", (
        _largest("max by (consumer_group, topic) "
                 f"(rocketmq_consumer_lag_latency_milliseconds{OURS})"),
    ), "Of the oldest message that is not committed."),
    Panel("In flight", "short", (
        _largest(f"sum by (consumer_group, topic) (rocketmq_consumer_inflight_messages{OURS})"),
    ), "Handed out and not committed."),
    Panel("Dead letters", "short", (
        _largest("sum by (consumer_group) "
                 "((rocketmq_send_to_dlq_messages_total{..} unless "
                 "rocketmq_send_to_dlq_messages_total{..} offset 1h) or "
                 "increase(rocketmq_send_to_dlq_messages_total{..}[1h]))", "{{consumer_group}}"),
    ), "In an hour, a group's first ones too."),
    Panel("Pulls", "reqps", (
        _sum("rmq_pulls_found_total", "node_id", legend=f"{BROKER} with messages"),
        _sum("rmq_pulls_held_total", "node_id", legend=f"{BROKER} that waited"),
        _sum("rmq_pulls_from_disk_total", "node_id", legend=f"{BROKER} from the disk"),
    )),
    Panel("Consumers", "short", (
        _largest("sum by (consumer_group) (rocketmq_consumer_connections{..})",
                 "{{consumer_group}}"),
    )),
)  # fmt: skip
LATER = (
    Panel("Open transactions", "short", (("rocketmq_half_messages{..}", BROKER),)),
    Panel("Ends of transactions", "msg/s", (
        _sum("rocketmq_commit_messages_total", "node_id", legend=f"{BROKER} committed"),
        _sum("rocketmq_rollback_messages_total", "node_id", legend=f"{BROKER} rolled back"),
    )),
    Panel("Timed messages", "msg/s", (
        _sum("rocketmq_timer_enqueue_total", "node_id", legend=f"{BROKER} taken"),
        _sum("rocketmq_timer_dequeue_total", "node_id", legend=f"{BROKER} delivered"),
    )),
)  # fmt: skip
REPLICAS = (
    Panel("In sync", "short", (
        ("rmq_in_sync_replicas{..}", BROKER),
        ("rmq_in_sync_replicas_min{..}", f"{BROKER} needed"),
    ), "Those that answer their master, itself included."),
    Panel("Behind the master", "bytes", (
        ("rmq_replication_lag_bytes{..}", f"{BROKER} {{{{replica}}}}"),
    )),
    Panel("Epoch", "short", (("max by (node_id, shard) (rmq_master_epoch{..})", BROKER),),
          "It grows with each election."),
)  # fmt: skip
REFUSALS = (
    Panel("Sends refused, busy", "reqps", (
        _sum("rmq_sends_refused_total", "node_id", legend=f"{BROKER} sends"),
        _sum("rmq_busy_replies_total", "node_id", legend=f"{BROKER} busy"),
    )),
    Panel("Connections refused", "cps", (
        _sum("rmq_connections_refused_total", "node_id", legend=BROKER),
        _sum("rmq_connections_refused_address_total", "node_id",
             legend=f"{BROKER} of one address"),
        _sum("rmq_handshakes_refused_address_total", "node_id", legend=f"{BROKER} handshakes"),
        _sum("rmq_accept_failures_total", "node_id", legend=f"{BROKER} without descriptors"),
    )),
    Panel("Malformed frames, corrupt records", "short", (
        ("sum by (node_id) (increase(rmq_malformed_frames_total{..}[1h]))", f"{BROKER} frames"),
        ("sum by (node_id) (increase(rmq_corrupt_records_total{..}[1h]))", f"{BROKER} records"),
    ), "In an hour."),
)  # fmt: skip
PROCESSES = (
    Panel("Processor", "percentunit", (
        (f"rate(rmq_cpu_seconds_total{{..}}{EVERY})", f"{BROKER} {{{{shard}}}}"),
    ), "Of one core."),
    Panel("Memory", "bytes", (("rmq_resident_memory_bytes{..}", f"{BROKER} {{{{shard}}}}"),)),
    Panel("Descriptors", "short", (("rmq_open_files{..}", f"{BROKER} {{{{shard}}}}"),)),
    Panel("Buffers in use", "percentunit", (
        ("max by (node_id, pool) (rmq_pool_in_use{..} / rmq_pool_buffers{..})",
         f"{BROKER} {{{{pool}}}}"),
    )),
    Panel("Waiting for the control thread", "short", (
        ("rocketmq_processor_watermark{..}", BROKER),
    )),
    Panel("Version", "short", (
        ("count by (version) (rmq_build_info{..})", "{{version}}"),
    ), kind="stat"),
)  # fmt: skip

ROWS = {
    "Overview": OVERVIEW,
    "Messages": MESSAGES,
    "Times": TIMES,
    "Log and disk": LOG,
    "Consumers": GROUPS,
    "Transactions and timers": LATER,
    "Replicas": REPLICAS,
    "Refusals": REFUSALS,
    "Processes": PROCESSES,
}
