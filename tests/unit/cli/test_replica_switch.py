"""A planned switch, seen from the old master: what it is told, and when.

Whole clusters switch in tests/process/test_replica_command.py, where the old master is without that
knowledge for only some milliseconds.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from rmq.cli import replica_switch
from rmq.cli.replica_switch import acks_of_all, elect_soon
from rmq.client.blocking.replicas import Replica, Replicas, ReplicaSet
from rmq.codes import ResponseCode
from rmq.errors import RmqError
from rmq.format.remoting import Command

OLD = "10.0.0.1:10911"
FOUND = ReplicaSet(
    "broker-a",
    master_id=1,
    replicas=[Replica(1, OLD, "master", alive=True), Replica(2, "10.0.0.2:10911", alive=True)],
)


class Completion:
    """The old master, which is a slave after it was asked so often."""

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
    monkeypatch.setattr(replica_switch, "POLL_S", 0)


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


class Controller:
    """A controller that elects at once after it was asked so often."""

    def __init__(self, covered_after: int) -> None:
        self.covered_after = covered_after
        self.asked: list[bool] = []

    def elect(self, name: str, broker_id: int, *, at_once: bool = False) -> Command:
        self.asked.append(at_once)
        is_covered = len(self.asked) > self.covered_after
        code = ResponseCode.SUCCESS if is_covered else ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        return Command(code=code)


def test_the_lease_is_asked_for_until_it_says_what_acks_need() -> None:
    controller = Controller(3)
    assert elect_soon(cast(Replicas, controller), "broker-a", 2).code == ResponseCode.SUCCESS
    assert controller.asked == [True] * 4


def test_a_lease_that_never_says_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_switch, "RENEWALS_S", 0)
    controller = Controller(1 << 60)
    reply = elect_soon(cast(Replicas, controller), "broker-a", 2)
    assert reply.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert controller.asked[-1] is False and all(controller.asked[:-1])
