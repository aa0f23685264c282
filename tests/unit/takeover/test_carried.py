"""Carried settings: those that clients and slaves notice are taken along, those for the machine are
not."""

from pathlib import Path

import pytest

from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.takeover.carried import carried, check, left_behind, write


def test_slaves_are_let_in_as_before_and_the_role_is_not_the_old_one(tmp_path: Path) -> None:
    theirs = {
        "brokerName": "b", "brokerRole": "SYNC_MASTER", "rmqReplicaAddresses": "10.0.0.7",
        "sendMessageThreadPoolNums": "9", "storePathRootDir": "/elsewhere", "regionId": "",
    }  # fmt: skip
    found = carried(theirs)
    assert found == {"brokerName": "b", "rmqReplicaAddresses": "10.0.0.7"}
    path = tmp_path / "takeover.conf"
    write(path, found)
    settings = load_properties(path)
    assert (settings.brokerName, settings.rmqReplicaAddresses) == ("b", "10.0.0.7")
    assert settings.brokerRole == "ASYNC_MASTER"


def test_what_a_property_file_would_read_otherwise_is_escaped(tmp_path: Path) -> None:
    path, root = tmp_path / "takeover.conf", "/data\\new#1=\u4e2d"
    check({"storePathRootDir": root})
    write(path, {"storePathRootDir": root, "brokerName": "b"})
    settings = load_properties(path)
    assert (settings.storePathRootDir, settings.brokerName) == (root, "b")


def test_values_with_which_no_broker_starts_are_named() -> None:
    with pytest.raises(ConfigError, match="transactionCheckMax=0"):
        check({"brokerName": "b", "transactionCheckMax": "0"})


def test_what_clients_notice_goes_along() -> None:
    theirs = {
        "recallMessageEnable": "true", "enableRetryTopicV2": "true", "timerMaxDelaySec": "60",
        "defaultMessageRequestMode": "POP", "storeReplyMessageEnable": "false",
        "enableMixedMessageType": "true",
    }  # fmt: skip
    assert carried(theirs) == theirs
    assert left_behind(theirs, carried(theirs)) == []


def test_what_will_be_otherwise_is_named() -> None:
    theirs = {
        "brokerName": "b", "recallMessageEnable": "true", "brokerPermission": "4",
        "diskMaxUsedSpaceRatio": "88", "fileReservedTime": "48", "brokerRole": "SYNC_MASTER",
        "storePathRootDir": "/elsewhere", "sendMessageThreadPoolNums": "9", "listenPort": "1",
        "maxTransferCountOnMessageInMemory": "4000", "longPollingEnable": "true", "none": "1",
        "initAuthenticationUser": "geheim",
    }  # fmt: skip
    settings = carried(theirs) | {"fileReservedTime": "72"}
    assert left_behind(theirs, settings) == [
        "brokerPermission=4", "diskMaxUsedSpaceRatio=88", "fileReservedTime=48",
        "maxTransferCountOnMessageInMemory=4000",
    ]  # fmt: skip
    assert "brokerPermission=4" not in left_behind(theirs, {**settings, "brokerPermission": "4"})
