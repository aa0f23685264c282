"""A store that an older rmq has written is served by this one, as docs/versions.md promises.

Goal: the broker has every message with its offset, tag, keys and properties, the index of keys,
offsets of groups, delayed, timed and half messages, and nothing more; and queues go on where they
ended. Method: a broker process is started on each store of tests/process/stores, which was written
by the version of rmq in its name (tools/store_keeper.py). Cannot show: what these stores do not
have, such as replicas and static topics.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq
from support.waiting import wait_until

from rmq import (
    Admin,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PullConsumer,
    TransactionProducer,
)

STORES = sorted((Path(__file__).parent / "stores").glob("*.tar.xz"))
# Messages are not deleted for their age. Checks of half messages begin soon, and do not give up
# while there is no producer to ask.
PATIENT_WITH_AGE = {
    "fileReservedTime": 10_000_000, "transactionCheckInterval": 500,
    "transactionCheckMax": 1_000_000,
}  # fmt: skip


class OldStore:
    """An unpacked store, and a broker of the present version on it."""

    def __init__(self, folder: Path, broker: BrokerProcess, expected: dict[str, Any]) -> None:
        self.folder = folder
        self.broker = broker
        self.expected = expected

    def read(self, topic: str, count: int) -> list[MessageExt]:
        """All messages of the topic. Waits until there are at least `count`."""
        found: list[MessageExt] = []
        with PullConsumer(
            f"auditor-of-{topic}", namesrv_addr=self.broker.namesrv, auto_commit=False,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        ) as consumer:  # fmt: skip
            consumer.assign(consumer.queues(topic))
            found += polled(consumer, count)
            while more := consumer.poll(500):
                found += more
        return found


def polled(consumer: PullConsumer, count: int) -> list[MessageExt]:
    """At least `count` messages."""
    found: list[MessageExt] = []
    wait_until(lambda: found.extend(consumer.poll(200)) or len(found) >= count)
    return found


def is_sound(folder: Path) -> None:
    done = rmq("store", "check", "-c", str(folder / "broker.conf"), str(folder / "store"))
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module", params=STORES, ids=lambda path: path.name.partition(".tar")[0])
def old(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OldStore]:
    folder = tmp_path_factory.mktemp("old-store")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder)  # it is trusted; filter= came with Python 3.11.4
    expected = json.loads((folder / "expected.json").read_text())
    settings = {**expected["settings"], **PATIENT_WITH_AGE}
    (folder / "broker.conf").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    is_sound(folder)
    with broker_process(folder, ["-c", str(folder / "broker.conf")]) as broker:
        yield OldStore(folder, broker, expected)
        assert broker.stop() == 0
    is_sound(folder)


def test_there_are_stores() -> None:
    assert STORES


def test_every_message_is_where_it_was(old: OldStore) -> None:
    wanted = old.expected["orders"]
    found = {(each.queue_id, each.queue_offset): each for each in old.read("orders", len(wanted))}
    assert found.keys() == {(each["queue"], each["offset"]) for each in wanted}
    for each in wanted:
        message = found[each["queue"], each["offset"]]
        assert message.body.decode() == each["body"]
        assert (message.tags, message.keys, message.message_id) == (
            each["tags"], each["keys"], each["id"],
        )  # fmt: skip
        assert message.get_property("amount") == each["amount"]


def test_keys_find_it(old: OldStore) -> None:
    with Admin(namesrv_addr=old.broker.namesrv) as admin:
        for each in old.expected["orders"]:
            if each["keys"] is not None:
                [found] = admin.messages("orders", each["keys"])
                assert (found.queue_id, found.queue_offset) == (each["queue"], each["offset"])


def test_groups_go_on_where_they_were(old: OldStore) -> None:
    address = old.broker.namesrv
    with (
        Admin(namesrv_addr=address) as admin,
        PullConsumer("billing", namesrv_addr=address) as consumer,
    ):
        for queue_id, offset in old.expected["committed"].items():
            queue = MessageQueue("orders", "broker-a", int(queue_id))
            assert admin.committed_offset("billing", queue) == offset
            consumer.assign([queue])
            [first] = polled(consumer, 1)[:1]
            assert first.queue_offset == offset


def test_what_was_delayed_comes(old: OldStore) -> None:
    """Each delayed or timed message of the old store comes once, as it was sent."""
    wanted = old.expected["later"]
    found = [each.body.decode() for each in old.read("later", len(wanted))]
    assert sorted(found) == sorted(wanted)


def test_a_half_message_is_asked_about(old: OldStore) -> None:
    """The producer is asked about the open transaction, and not about those that have ended."""

    class Payments:
        def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
            raise AssertionError("none was begun")

        def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            asked.append(message.body.decode())
            return LocalTransactionState.COMMIT

    asked: list[str] = []
    known, still_open = old.expected["payments"], old.expected["open"]
    assert [each.body.decode() for each in old.read("payments", len(known))] == known
    with TransactionProducer("payers", Payments(), namesrv_addr=old.broker.namesrv) as producer:
        producer.queues("payments")  # brokers get to know it
        wait_until(lambda: asked)
        found = [each.body.decode() for each in old.read("payments", len(known) + 1)]
    assert sorted(found) == sorted([*known, still_open])
    assert set(asked) == {still_open}


def test_queues_go_on_behind_their_ends(old: OldStore) -> None:
    ends: dict[int, int] = {}
    for each in old.expected["orders"]:
        ends[each["queue"]] = max(ends.get(each["queue"], 0), each["offset"] + 1)
    with Producer("shop", namesrv_addr=old.broker.namesrv) as producer:
        for queue_id, end in ends.items():
            queue = MessageQueue("orders", "broker-a", queue_id)
            assert producer.send(Message("orders", b"new"), queue=queue).queue_offset == end
