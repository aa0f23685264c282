"""Carried settings: those of the old master that its clients notice, for the new one's file.

    settings = carried(old.settings) | own
    check(settings)                     ConfigError: a broker would not start with them
    write(path, settings)               a property file for `rmq broker -c`

What says how that machine or that JVM works (paths, threads, memory) stays behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmq import java_properties
from rmq.base import atomic_file
from rmq.config import load_properties

CARRIED = (
    # what a slave has in common with it
    "brokerName", "brokerClusterName", "mappedFileSizeCommitLog", "maxMessageSize", "namesrvAddr",
    "messageDelayLevel",
    # who may copy its log
    "rmqReplicaAddresses",
    # what an acknowledgement promises, and how long messages are kept
    "flushDiskType", "fileReservedTime", "deleteWhen", "mappedFileSizeConsumeQueue",
    # topics and groups
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "defaultTopicQueueNums",
    "brokerTopicEnable", "clusterTopicEnable", "traceTopicEnable", "msgTraceTopicName",
    # filters, transactions, timed messages
    "enablePropertyFilter", "filterSupportRetry", "rejectTransactionMessage", "transactionTimeOut",
    "transactionCheckMax", "transactionCheckInterval", "timerWheelEnable", "timerMaxDelaySec",
    "timerPrecisionMs", "regionId",
)  # fmt: skip


def carried(theirs: Mapping[str, str]) -> dict[str, str]:
    return {key: theirs[key] for key in CARRIED if theirs.get(key)}


def check(settings: Mapping[str, str]) -> None:
    """While the old master still serves: RocketMQ's takes values that rmq does not."""
    load_properties(None, java_properties.parse(java_properties.format(settings.items())))


def write(path: Path, settings: Mapping[str, str]) -> None:
    """A property file, whole or not at all."""
    atomic_file.replace(path, java_properties.format(settings.items()).encode())
