"""Goal: a controller of either kind leads brokers of either kind, and nothing acknowledged is lost.

Method: Apache RocketMQ 5.5.0 and rmq as processes: controller, brokers of one name, killed with
SIGKILL. Each acknowledgement needs all who are in sync, two at least. Logs are compared to the byte,
and a push consumer of Java's reads over all of it. Numbers of the wire: tests/unit/controller and
tests/unit/broker. Cannot prove: what several controllers of Apache's do among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compat.controlled_set import ControlledSet, Sender, queue_ends, wait
from compat.runner import ScenarioRunner

COUNT = 200


@contextmanager
def brokers_of(folder: Path, controller: str, *kinds: str, **more: str) -> Iterator[ControlledSet]:
    """All are in sync, and topic t is there."""
    brokers = ControlledSet(folder, controller, **more)
    try:
        for kind in kinds:
            brokers.add(kind)
        everyone = set(brokers.replicas)
        assert everyone == set(range(1, len(kinds) + 1))
        brokers.wait_in_sync(everyone)
        assert brokers.wait_for_master(*everyone) == 1  # the first one that came
        brokers.make_topic("t")
        yield brokers
    finally:
        brokers.end()


def fail_over(brokers: ControlledSet, sender: Sender) -> None:
    """The master is killed, another one leads, and the old one comes back as its slave."""
    everyone = set(brokers.replicas)
    old, epoch = brokers.master_id(), brokers.set_state()["masterEpoch"]
    assert old is not None
    brokers.master.kill()
    new = brokers.wait_for_master(*(everyone - {old}))
    assert brokers.set_state()["masterEpoch"] > epoch
    if len(everyone) > 2:
        brokers.wait_in_sync(everyone - {old})
        sender.more(COUNT)
    brokers.replicas[old].start()
    brokers.wait_in_sync(everyone)
    assert brokers.master_id() == new
    sender.more(COUNT)


@pytest.mark.parametrize(
    ("controller", "kinds"),
    [
        ("apache", ("rmq", "rmq", "rmq")),
        ("rmq", ("apache", "apache")),
        ("rmq", ("rmq", "apache")),
        ("apache", ("apache", "rmq")),
    ],
)
def test_what_was_acknowledged_is_consumed_over_two_failovers(
    java: Callable[[str], ScenarioRunner], tmp_path: Path, controller: str, kinds: tuple[str, ...]
) -> None:
    """There and back: in a mixed set each kind follows the other, and takes over from it."""
    client = java("java-5.5.0-json")
    with brokers_of(tmp_path / "set", controller, *kinds) as brokers:
        reader = {"as": "reader", "run": tmp_path.name, "nameServer": brokers.namesrv}
        client.run("replica_open", group="g", topic="t", **reader)
        try:
            sender = Sender(brokers, "t")
            sender.more(COUNT)
            for _ in range(2):
                fail_over(brokers, sender)
            client.run("replica_wait", count=sender.count, **reader)
        finally:
            found = client.run("replica_close", **reader)
        assert found["numbers"] == sender.count
        epochs = [each.epochs() for each in brokers.replicas.values()]
        assert [epoch for epoch, _ in epochs[0]] == [1, 2, 3]
        assert all(each == epochs[0] for each in epochs)
        brokers.same_log()


@pytest.mark.parametrize("kinds", [("rmq", "apache"), ("apache", "rmq"), ("rmq", "rmq")])
def test_what_only_the_old_master_has_is_cut(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """The slave does not read any more, and the master stores what it cannot acknowledge. Both are
    killed, the slave comes first. It is elected, and the old master cuts its log as it greets."""
    with brokers_of(tmp_path / "set", "rmq", *kinds) as brokers:
        sender = Sender(brokers, "t")
        sender.more(COUNT)
        brokers.replicas[2].pause()
        sender.unheard(20)
        for replica in brokers.replicas.values():
            replica.kill()
        brokers.replicas[2].start()
        brokers.wait_for_master(2)
        brokers.replicas[1].start()
        brokers.wait_in_sync({1, 2})
        sender.more(COUNT)
        brokers.same_log()
        for replica in brokers.replicas.values():
            # A slave hears with what comes next, or 5 s later, that the last one is confirmed.
            wait("queues", lambda at=replica: sum(queue_ends(at.address, "t")) == sender.count)
