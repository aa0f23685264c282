"""A planned switch, seen from the old master: when it is told what.

Whole clusters switch in tests/process/test_replica_command.py; how long the old master does not
know of it there is some milliseconds.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from rmq.cli import replica_switch
from rmq.cli.replica_switch import acks_of_all
from rmq.client.blocking.replicas import Replica, Replicas, ReplicaSet
from rmq.errors import RmqError

OLD = "10.0.0.1:10911"
FOUND = ReplicaSet(
    "broker-a",
    master_id=1,
    replicas=[Replica(1, OLD, "master", alive=True), Replica(2, "10.0.0.2:10911", alive=True)],
)


class Completion:
    """The old master, which is a slave when it has been asked so often."""

    def __init__(self, slave_after: int, all_ack: bool = False) -> None:
        self.slave_after, self.all_ack = slave_after, all_ack
        self.events: list[str] = []

    def acks_of_all(self, address: str) -> bool:
        return self.all_ack

    def set_setting(self, address: str, key: str, text: str) -> None:
        self.events.append(text)

    def log_end(self, address: str) -> int:
        return 100

    def acked(self, address: str, broker_id: int) -> int:
        return 100

    def is_slave(self, address: str) -> bool:
        self.slave_after -= 1
        self.events.append("slave" if self.slave_after < 0 else "master")
        return self.slave_after < 0


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_switch, "RENEWAL_S", 0)
    monkeypatch.setattr(replica_switch, "LOOK_S", 0)


def switch(told: Any, timeout_s: float = 60) -> None:
    with acks_of_all(cast(Replicas, told), FOUND, 2, timeout_s):
        told.events.append("elected")


def test_it_gets_its_setting_back_when_it_is_a_slave() -> None:
    told = Completion(3)
    switch(told)
    assert told.events == ["true", "elected", *["master"] * 3, "slave", "false"]


def test_it_keeps_what_is_safe_when_it_never_becomes_one() -> None:
    told = Completion(1 << 60)
    with pytest.raises(RmqError, match="waits for all in sync until it is restarted"):
        switch(told, 0.01)
    assert "false" not in told.events


def test_an_election_that_fails_gives_it_back_at_once() -> None:
    told = Completion(0)
    with pytest.raises(RmqError, match="no"), acks_of_all(cast(Replicas, told), FOUND, 2, 60):
        raise RmqError("no")
    assert told.events == ["true", "false"]


def test_one_that_waits_for_all_anyway_is_told_nothing() -> None:
    told = Completion(0, all_ack=True)
    switch(told)
    assert told.events == ["elected"]
