"""Carried settings: settings of the old master that clients notice and the new master gets, too.

    settings = carried(old.settings) | own
    check(settings)                     ConfigError: a broker would not start with them
    left_behind(old.settings, settings) key=value of settings that will differ, for the operator
    write(path, settings)               a property file for `rmq broker -c`

Settings about that machine or that JVM (paths, threads, memory) are not carried, and neither are
settings that an operator may have made for the moment (brokerPermission).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmq import java_properties
from rmq.base import atomic_file
from rmq.config import Settings, load_properties, parse_value
from rmq.errors import ConfigError

CARRIED = (
    # what a slave must have in common with its master
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
# About the machine, decided by the takeover, or with a default in rmq that does the same.
NOT_TOLD = frozenset((
    "brokerId", "brokerRole", "brokerIP1", "brokerIP2", "bindAddress", "listenPort", "haListenPort",
    "haMasterAddress", "rmqMasterAddress", "storePathRootDir", "storePathCommitLog",
    "startAcceptSendRequestTimeStamp", "configBlackList", "enableSingleTopicRegister",
))  # fmt: skip


def carried(theirs: Mapping[str, str]) -> dict[str, str]:
    return {key: theirs[key] for key in CARRIED if theirs.get(key)}


def check(settings: Mapping[str, str]) -> None:
    """Checks the settings while the old master still serves: RocketMQ takes values that rmq does
    not."""
    _loaded(settings)


def left_behind(theirs: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """key=value of the old master's settings that have an effect in rmq and another value at the
    new master."""
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
        except ConfigError:  # a value that rmq does not have
            is_same = False
        if not is_same:
            found.append(f"{key}={text}")
    return found


def _loaded(settings: Mapping[str, str]) -> Settings:
    return load_properties(None, java_properties.parse(java_properties.format(settings.items())))


def write(path: Path, settings: Mapping[str, str]) -> None:
    """Writes a property file, whole or not at all."""
    atomic_file.replace(path, java_properties.format(settings.items()).encode())
