"""Goal: what the demo tells about a failover is what happened, and it tells it once, when sends go
on.

Method: looks with given times and counts. Not shown here: processes (tests/process/test_demo).
"""

from __future__ import annotations

from rmq.client.blocking.replicas import Replica, ReplicaSet
from rmq.demo.story import Story


class Counts:
    sent = received = 100
    twice = 0
    last_sent_s = 0.0

    def __init__(self) -> None:
        self.gaps: list[tuple[float, float]] = []

    def on_the_way(self) -> int:
        return self.sent - self.received


def found(master_id: int | None, epoch: int, dead: int = 0) -> ReplicaSet:
    rows = [
        Replica(each, f"127.0.0.1:{each}", alive=each != dead, in_sync=each != dead)
        for each in (1, 2)
    ]
    return ReplicaSet("broker-a", master_id=master_id, master_epoch=epoch, replicas=rows)


def test_a_failover_is_told_when_sends_go_on() -> None:
    counts, told = Counts(), list[str]()
    story = Story(counts, told.append)
    story.look(found(1, 1), 0.0)
    assert told == ["broker 1 is master of epoch 1"] and story.is_calm(found(1, 1))
    story.broker_died(1, 10.0)
    story.look(None, 10.1)
    story.look(found(2, 2, dead=1), 10.4)
    counts.last_sent_s = 10.41  # a send to the old master
    story.look(found(2, 2, dead=1), 10.6)
    assert len(told) == 1 and not story.is_calm(found(2, 2))
    counts.gaps, counts.last_sent_s, counts.sent = [(5.0, 0.2), (10.9, 0.5)], 11.49, 120
    story.look(found(2, 2, dead=1), 11.5)
    assert told[1:] == [
        "broker 1 (master of epoch 1) died; 0.40 s later broker 2 is master of epoch 2; sends "
        "stood still for 0.50 s; nothing lost so far: 120 sent, 100 received, 20 on their way, "
        "0 twice"
    ]
    assert story.failovers == 1
    story.broker_started(1, 12.0)
    assert not story.is_calm(found(2, 2))
    story.look(found(2, 2), 13.5)
    assert told[2:] == ["broker 1 is back, and in sync 1.5 s after its start"]


def test_a_planned_switch_is_no_failover() -> None:
    counts, told = Counts(), list[str]()
    story = Story(counts, told.append)
    story.look(found(1, 1), 0.0)
    story.look(found(2, 2), 5.0)
    counts.last_sent_s = 6.0
    story.look(found(2, 2), 6.05)
    assert told[1].startswith("a planned switch: broker 2 is master of epoch 2; sends went on")
    assert story.failovers == 0


def test_nobody_who_is_master_is_told_after_a_while_and_a_loss_at_the_end() -> None:
    counts, told = Counts(), list[str]()
    story = Story(counts, told.append)
    story.look(found(1, 1), 0.0)
    story.broker_died(2, 1.0)
    assert told[1] == "broker 2 (a slave) died; sends go on while enough are in sync"
    story.broker_died(1, 2.0)
    for now_s in (3.0, 7.5, 8.0):
        story.look(found(None, 2), now_s)
    assert told[2:] == ["broker 1 (master of epoch 1) died; there is no master after 5 s"]
    counts.received = 99
    assert story.balance(is_end=True) == "1 LOST: 100 sent, 99 received, 0 twice"
