"""Rows of reads: a consumer has one connection, whatever is read on it.

Goal: pulls of all queues go over the group's connection, and NATS' program is told to do the same.
Method: a scripted broker that notes which connection pulls which queue, and a program that only
takes its options. Not shown here: what NATS makes of them (tests/compat/test_bench_peers.py).
"""

import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from nats_peer import NatsPeer
from peer import Shape
from peer_rows import SHAPES
from rocketmq_loads import Pulls
from rows import Bench
from support.scripted_broker import ScriptedBroker
from support.stored_records import record
from support.waiting import HANG_S

from rmq.codes import RequestCode
from rmq.load.frames import Queue

MESSAGES = 40  # messages in each queue
QUEUES = [Queue("t", number) for number in range(8)]


class Queues:
    """Answers requests; each connection has a thread."""

    def __init__(self) -> None:
        self.pulled: set[tuple[int, str, int]] = set()

    def __call__(self, command):
        if command.code != RequestCode.PULL_MESSAGE:
            offset = 0 if command.code == RequestCode.GET_MIN_OFFSET else MESSAGES
            return [command.reply(fields={"offset": offset})]
        group, first = command.fields["consumerGroup"], command.int_field("queueOffset")
        self.pulled.add((threading.get_ident(), group, command.int_field("queueId")))
        end = min(first + command.int_field("maxMsgNums"), MESSAGES)
        fields = {"nextBeginOffset": end, "minOffset": 0, "maxOffset": MESSAGES}
        return [command.reply(fields=fields, body=b"".join(map(record, range(first, end))))]


@pytest.mark.parametrize("groups", [1, 3])
def test_a_group_pulls_all_queues_on_a_connection_of_its_own(groups: int) -> None:
    script = Queues()
    shape = Shape(name="x", title="X", kind="pull", groups=groups, batch=32, once=True)
    with ScriptedBroker(script) as broker:
        peer = SimpleNamespace(address=broker.address, pids=list, resident=int)
        turn = Pulls(peer, shape, QUEUES).turn(HANG_S, 0.0)
    assert (turn.messages, turn.failures) == (groups * len(QUEUES) * MESSAGES, {})
    places = Counter((thread, group) for thread, group, _ in script.pulled)
    assert list(places.values()) == [len(QUEUES)] * groups
    assert len({thread for thread, _ in places}) == len({group for _, group in places}) == groups


@pytest.mark.parametrize(
    ("row", "connections", "consumers"),
    [
        ("pull-256", 1, 8),
        ("read-1024", 1, 8),
        ("fan-out", 4, 1),
        ("cold", 1, 1),
        ("pop", 8, 1),
        ("many-256", 64, 1),
    ],
)
def test_nats_has_a_consumer_for_each_queue_on_one_connection(
    row: str, connections: int, consumers: int, tmp_path: Path
) -> None:
    told: dict[str, int | str] = {}
    peer = NatsPeer(Bench(tmp_path), False)
    peer.program = SimpleNamespace(load=lambda stream, **given: told.update(given))
    shape = SHAPES[row]
    if shape.kind == "cold":  # as bench/cold.py has it read
        shape = msgspec.structs.replace(shape, kind="pull", once=True)
    peer.load(shape)
    assert (told["connections"], told["consumers"]) == (connections, consumers)
