"""Alerts: rules by which Prometheus tells operators that something needs attention.

A rule is a row of RULES. Its text says what happened and what to do; if there is more to say, the
rule names a heading of a page in docs. Metrics are those of rmq/observe, and Prometheus' `up`.
"""

from __future__ import annotations

import json

import msgspec

DOCS = "docs"


class Rule(msgspec.Struct, frozen=True):
    """An alert. wait: how long the expression must be true."""

    name: str
    expression: str
    wait: str
    severity: str  # critical: messages are refused or at stake; warning: they will be
    summary: str
    remedy: str
    heading: str = ""  # "page.md#heading" in DOCS


BROKER = "{{ $labels.node_id }}"
GROUP = "{{ $labels.consumer_group }}"

RULES = (
    Rule(
        "RmqDown", 'up{job="@{job}"} == 0', "1m", "critical",
        "{{ $labels.instance }} gives no metrics",
        "The process is down, or its /metrics cannot be reached: look at its log, then start it.",
    ),
    Rule(
        "RmqLogPoisoned", "rmq_poisoned == 1", "0m", "critical",
        f"a write or a sync of the log of {BROKER} failed",
        "It takes no messages any more. Look at the disk, then restart the broker.",
        "operations.md#a-poisoned-log",
    ),
    Rule(
        "RmqTakesNoSends",
        'rmq_writable == 0 unless on (instance, cluster, node_id, shard) '
        'rmq_role{role="slave"} == 1',
        "1m", "critical",
        f"{BROKER} refuses sends",
        "Its disk is full, its log is poisoned, too few replicas are in sync, or it is drained: "
        "`rmq broker status` says which.",
        "operations.md#the-disk-is-full",
    ),
    Rule(
        "RmqDiskFilling", "rmq_disk_used_ratio > 0.80", "10m", "warning",
        f"the disk of {BROKER} is full to {{{{ $value | humanizePercentage }}}}",
        "At 90 % sends are refused. Keep messages for a shorter time (fileReservedTime), or give "
        "it more room.",
        "operations.md#the-disk-is-full",
    ),
    Rule(
        "RmqSendsRefused",
        "sum by (cluster, node_id) (rate(rmq_sends_refused_total[5m])) > 0", "5m", "warning",
        f"{BROKER} refuses {{{{ $value | humanize }}}} sends a second",
        "Its log and `rmq broker status` say why.",
    ),
    Rule(
        "RmqBusy",
        "sum by (cluster, node_id) (rate(rmq_busy_replies_total[5m])) > 0", "5m", "warning",
        f"{BROKER} answers {{{{ $value | humanize }}}} requests a second with SYSTEM_BUSY",
        "It has more to do than it can: more shards or brokers, or a faster disk.",
        "operations.md#cores",
    ),
    Rule(
        "RmqSyncsSlow",
        "histogram_quantile(0.99, sum by (cluster, node_id, le) "
        "(rate(rmq_flush_latency_seconds_bucket[5m]))) > 1",
        "10m", "warning",
        f"one in a hundred syncs of the log of {BROKER} takes {{{{ $value | humanizeDuration }}}}",
        "The disk is slow or busy with something else. With SYNC_FLUSH sends wait for it.",
    ),
    Rule(
        "RmqUnsynced", "rocketmq_storage_flush_behind_bytes > 1e9", "5m", "warning",
        f"{{{{ $value | humanize1024 }}}}B of {BROKER} are not on its disk",
        "A power cut would take them. The disk is slower than what comes.",
    ),
    Rule(
        "RmqDispatchBehind", "rocketmq_storage_dispatch_behind_bytes > 1e8", "5m", "warning",
        f"consumers of {BROKER} do not see the newest {{{{ $value | humanize1024 }}}}B",
        "Its log says what the queues wait for.",
    ),
    Rule(
        "RmqCorruptRecords", "increase(rmq_corrupt_records_total[1h]) > 0", "0m", "critical",
        f"{BROKER} read damaged records",
        "They are left out, and its log names the places. `rmq store check` finds all of them.",
        "operations.md#damaged-files",
    ),
    Rule(
        "RmqGroupBehind",
        "max by (cluster, consumer_group, topic) "
        '(rocketmq_consumer_lag_latency_milliseconds{is_system="false"}) > 600000',
        "10m", "warning",
        f"{GROUP} is ten minutes behind on {{{{ $labels.topic }}}}",
        "`rmq group describe` shows its members and queues: none runs, they are slow, or one "
        "message fails again and again.",
    ),
    Rule(
        "RmqDeadLetters",
        # The left side of `or` is for the first dead letters of a group: its series begins with
        # them, so increase() on the right side gives 0. If both sides have a series of the group,
        # `or` takes the left one.
        "sum by (cluster, consumer_group) ((rocketmq_send_to_dlq_messages_total unless "
        "rocketmq_send_to_dlq_messages_total offset 15m) or "
        "increase(rocketmq_send_to_dlq_messages_total[15m])) > 0",
        "0m", "warning",
        f"{GROUP} gave up messages",
        "`rmq dlq show` shows them, `rmq dlq resend` sends them again.",
    ),
    Rule(
        "RmqSlaveDetached", "rmq_following == 0", "2m", "critical",
        f"the log does not come to a slave of {BROKER}",
        "`rmq broker status` says why.",
        "replicas.md#replicas",
    ),
    Rule(
        "RmqTooFewInSync", "rmq_in_sync_replicas < rmq_in_sync_replicas_min", "0m", "critical",
        f"{BROKER} refuses sends: too few replicas are in sync",
        "Start those that are down: `rmq replica status` names them.",
        "replicas.md#what-tells-you",
    ),
    Rule(
        "RmqNotOneMaster",
        'sum by (cluster, node_id, shard) (rmq_role{role="master"}) != 1', "1m", "critical",
        f"{BROKER} has {{{{ $value }}}} masters",
        "None: see `rmq replica status` and the controllers' logs. Two: one of them has not heard "
        "of the election yet, and is fenced.",
        "replicas.md#failover",
    ),
    Rule(
        "RmqElections", "changes(rmq_master_epoch[30m]) > 3", "0m", "warning",
        f"{BROKER} had {{{{ $value }}}} elections in half an hour",
        "A machine or a network comes and goes: the controllers' logs have each election's reason.",
        "replicas.md#failover",
    ),
    Rule(
        "RmqReplicaBehind", "rmq_replication_lag_bytes > 1e9", "10m", "warning",
        f"replica {{{{ $labels.replica }}}} of {BROKER} lacks {{{{ $value | humanize1024 }}}}B",
        "It is slower than its master, or the way to it is.",
        "replicas.md#what-tells-you",
    ),
    Rule(
        "RmqConnectionsRefused",
        "sum by (cluster, node_id) (rate(rmq_connections_refused_total[5m]) "
        "+ rate(rmq_accept_failures_total[5m])) > 0",
        "5m", "warning",
        f"{BROKER} refuses connections, or lets them wait",
        "More clients than rmqMaxConnections, or than there are descriptors for.",
        "operations.md#descriptors",
    ),
)  # fmt: skip


def alerts_file(job: str) -> str:
    """YAML of the rules; job: the name of Prometheus' job that scrapes brokers."""
    lines = ["# Rules of Prometheus for brokers of rmq; made by `rmq generate grafana`.",
             "groups:", "  - name: rmq", "    rules:"]  # fmt: skip
    for rule in RULES:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {json.dumps(rule.expression.replace('@{job}', job))}",
            f"        for: {rule.wait}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          description: {json.dumps(rule.remedy)}",
        ]
        if rule.heading:
            lines.append(f"          runbook: {DOCS}/{rule.heading}")
    return "\n".join(lines) + "\n"
