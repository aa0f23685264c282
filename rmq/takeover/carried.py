"""Carried settings: those of the old master that its clients notice, for the new one's file.

    settings = carried(old.settings)
    write(path, settings | own)         a property file for `rmq broker -c`

What says how that machine or that JVM works (paths, threads, memory) stays behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmq.base import atomic_file

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


def write(path: Path, settings: Mapping[str, str]) -> None:
    """A property file, whole or not at all."""
    lines = [f"{key}={text}\n" for key, text in settings.items()]
    atomic_file.replace(path, "".join(lines).encode())
