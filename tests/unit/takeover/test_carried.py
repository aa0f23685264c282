"""Carried settings: what clients and slaves notice goes along, what the machine needs does not."""

from pathlib import Path

from rmq.config import load_properties
from rmq.takeover.carried import carried, write


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
