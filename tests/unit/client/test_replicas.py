"""Which replica of a broker name is asked: in the orders of RocketMQ's clients, and without those
that are known as gone."""

from __future__ import annotations

import pytest

from rmq.client.connection.replicas import Purpose, Replica, Replicas
from rmq.format.fastjson import MessageQueue

QUEUE, OTHER = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
ALL = {0: "m:1", 1: "s1:1", 2: "s2:1", 5: "s5:1"}
SLAVES = {2: "s2:1", 5: "s5:1"}
READ, STATE, WRITE = Purpose.READ, Purpose.STATE, Purpose.WRITE


@pytest.mark.parametrize(
    ("suggested", "addresses", "chosen"),
    [
        (0, ALL, 0),
        (0, SLAVES, 2),  # no master: a slave, the one with the least id
        (1, ALL, 1),
        (1, SLAVES, 2),  # the next id after the suggested slave's
        (3, ALL, 0),  # neither of the two exists
        (4, SLAVES, 5),
        (7, SLAVES, 2),
    ],
)
def test_a_pull_goes_where_it_was_suggested_or_near_there(
    suggested: int, addresses: dict[int, str], chosen: int
) -> None:
    replicas = Replicas()
    replicas.suggest(QUEUE, suggested)
    assert replicas.choose(addresses, READ, QUEUE) == Replica(chosen, addresses[chosen])
    # The suggestion is only for this queue, and only for reading.
    least = min(addresses)
    for purpose, queue in ((READ, OTHER), (STATE, QUEUE), (READ, None)):
        assert replicas.choose(addresses, purpose, queue) == (least, addresses[least])


def test_only_the_master_is_written_to() -> None:
    replicas = Replicas()
    replicas.gone("m:1")
    found = replicas.choose(ALL, WRITE)
    assert found == (0, "m:1")
    assert found is not None and found.is_master
    assert replicas.choose(SLAVES, WRITE) is None
    assert replicas.choose({}, READ) is None


def test_who_does_not_answer_comes_last_until_it_does() -> None:
    replicas = Replicas()
    replicas.gone("m:1")
    assert replicas.choose(ALL, READ, QUEUE) == (1, "s1:1")
    replicas.gone("s1:1")
    assert replicas.choose(ALL, STATE) == (2, "s2:1")
    replicas.back("m:1")
    assert replicas.choose(ALL, READ, QUEUE) == (0, "m:1")
    for address in ALL.values():
        replicas.gone(address)
    assert replicas.choose(ALL, READ, QUEUE) == (0, "m:1")  # one of them must be asked


def test_a_suggestion_is_taken_back_by_the_master_and_nobody_is_gone_for_ever() -> None:
    replicas = Replicas(gone_s=0)
    replicas.suggest(QUEUE, 2)
    replicas.gone("s2:1")
    assert replicas.choose(ALL, READ, QUEUE) == (2, "s2:1")
    replicas.suggest(QUEUE, 0)
    assert replicas.choose(ALL, READ, QUEUE) == (0, "m:1")
    replicas.suggest(QUEUE, -1)  # not the id of a broker
    assert replicas.choose(ALL, READ, QUEUE) == (0, "m:1")
