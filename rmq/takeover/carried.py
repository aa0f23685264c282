"""Carried settings: those of the old master that its clients notice, for the new one's file.

    settings = carried(old.settings) | own
    check(settings)                     ConfigError: a broker would not start with them
    left_behind(old.settings, settings) key=value of what will be otherwise, for the operator
    write(path, settings)               a property file for `rmq broker -c`

What says how that machine or that JVM works (paths, threads, memory) stays behind, and so does what
an operator may have set for the moment (brokerPermission).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmq import java_properties
from rmq.base import atomic_file
from rmq.config import Settings, load_properties, parse_value
from rmq.errors import ConfigError

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
    "timerPrecisionMs", "regionId", "recallMessageEnable", "allowRecallWhenBrokerNotWriteable",
    # pops, replies, and what a topic may have
    "enableRetryTopicV2", "popResponseReturnActualRetryTopic", "defaultMessageRequestMode",
    "storeReplyMessageEnable", "enableMixedMessageType",
)  # fmt: skip
# Of the machine, settled by the takeover, or with a default of ours that does the same.
NOT_TOLD = frozenset((
    "brokerId", "brokerRole", "brokerIP1", "brokerIP2", "bindAddress", "listenPort", "haListenPort",
    "haMasterAddress", "rmqMasterAddress", "storePathRootDir", "storePathCommitLog",
    "startAcceptSendRequestTimeStamp", "configBlackList", "enableSingleTopicRegister",
))  # fmt: skip


def carried(theirs: Mapping[str, str]) -> dict[str, str]:
    return {key: theirs[key] for key in CARRIED if theirs.get(key)}


def check(settings: Mapping[str, str]) -> None:
    """While the old master still serves: RocketMQ's takes values that rmq does not."""
    _loaded(settings)


def left_behind(theirs: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """key=value of the old master's for what counts here, and has another value at the new one."""
    new = _loaded(settings)
    found = []
    for key, text in sorted(theirs.items()):
        if key in NOT_TOLD or key not in new:
            continue
        row = new.setting(key)
        if not row.acted or row.secret:
            continue
        try:
            is_same = parse_value(row, text) == getattr(new, key)
        except ConfigError:  # a value that there is not here
            is_same = False
        if not is_same:
            found.append(f"{key}={text}")
    return found


def _loaded(settings: Mapping[str, str]) -> Settings:
    return load_properties(None, java_properties.parse(java_properties.format(settings.items())))


def write(path: Path, settings: Mapping[str, str]) -> None:
    """A property file, whole or not at all."""
    atomic_file.replace(path, java_properties.format(settings.items()).encode())
