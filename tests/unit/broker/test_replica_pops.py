"""Goal: a slave knows which batches that were popped in order at its master are still held, so that
their holders can go on with them when the slave leads.

Method: two live brokers in this process, joined by real sockets; one goes away, and the other's
store is started as a master. With an election: tests/ha/test_failover.py.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.fake_core import control
from support.live_broker import live_broker
from support.live_replicas import MASTER, TOPIC, slave_of, until_same_log
from support.name_server import in_loop
from support.popping import ack, pop
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.broker.replication.metadata_copy import MetadataCopy, Unreached
from rmq.broker.tables import pop_orders
from rmq.format.remoting import Command

IN_ORDER = {"order": "true", "maxMsgNums": 3, "queueId": 0, "invisibleTime": 3_600_000}


def out(broker: Broker) -> dict[str, dict[str, dict[str, Any]]]:
    """The batches that are held: topic@group -> queue -> batch."""
    table: dict[str, dict[str, dict[str, Any]]]
    table = pop_orders.members(broker.core.pop_orders(open_only=True))["table"]
    return table


def offsets(row: dict[str, Any]) -> list[int]:
    first, *behind = row["o"]
    return [first, *(first + each for each in behind)]


async def fill(client: BrokerClient, count: int = 8) -> None:
    await client.call(17, topic="t", **TOPIC)
    for number in range(count):
        assert (await client.send("t", b"%d" % number)).code == 0


async def until_copied(master: Broker, slave: Broker) -> None:
    """Waits until the slave has everything as it is now, so that no later copy disturbs the
    test."""
    await until_same_log(master, slave)
    exchange = master.replication.exchange
    await until(lambda: exchange.has(1, exchange.counts(("offsets", "orders"))))


async def in_order(client: BrokerClient, group: str = "g", **fields: Any) -> list[Any]:
    return await pop(client, group, "t", **{**IN_ORDER, **fields})


@in_loop
async def test_a_slave_has_the_batches_that_are_out_at_its_master(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client)
        some = await in_order(client, attemptId="A")
        other = await in_order(client, "h", maxMsgNums=1)
        await until(lambda: out(slave) == out(master))
        assert out(slave).keys() == {"t@g", "t@h"}
        row = out(slave)["t@g"]["0"]
        assert (offsets(row), row["cm"], row["a"]) == ([0, 1, 2], 0, "A")
        await ack(client, "g", some[1])
        await until(lambda: out(slave)["t@g"]["0"]["cm"] == 0b10)
        await ack(client, "h", *other)
        await until(lambda: out(slave).keys() == {"t@g"})
        await ack(client, "g", some[0], some[2])
        again = await in_order(client)
        await until(lambda: "t@g" in out(slave) and offsets(out(slave)["t@g"]["0"]) == [3, 4, 5])
        assert slave.offsets.query("g", "t", 0) == 3, "offsets come before"
        await ack(client, "g", *again)
        await until(lambda: slave.core.pop_orders() == [])
        await client.call(215, topic="t")
        await until(lambda: "t" not in slave.topics)


@in_loop
async def test_the_holder_of_a_batch_goes_on_with_it_at_the_next_master(tmp_path: Path) -> None:
    """The holder of a batch must be able to go on with it at the next master: acknowledged messages
    do not come again, and the others go to nobody else meanwhile."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client)
        some = await in_order(client)
        await ack(client, "g", some[0], some[2])
        await until_same_log(master, slave)
        await until(lambda: out(slave) == out(master) != {})
        await until(lambda: slave.offsets.query("g", "t", 0) == 1)
    async with (
        live_broker(tmp_path / "s", **MASTER) as promoted,
        BrokerClient(promoted.core.port) as client,
    ):
        assert await in_order(client) == [], "1 is in somebody's hands"
        await ack(client, "g", some[1])
        assert promoted.offsets.query("g", "t", 0) == 3
        assert [each.body for each in await in_order(client)] == [b"3", b"4", b"5"]


@in_loop
async def test_batches_of_a_slave_that_its_master_does_not_have_are_over(tmp_path: Path) -> None:
    """A slave must drop batches that its master does not have: they are of a time when it was
    master itself, and its consumers went on at another one."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client)
        await until_same_log(master, slave)
        block = pop_orders.packed({"o": [0], "popTime": 2**60})
        slave.core.put_pop_order(b"t", b"old", 0, block)
        await in_order(client)
        await until(lambda: out(slave) == out(master) != {})
        assert len(slave.core.pop_orders()) == 1


@in_loop
async def test_what_is_no_batch_is_left_out_and_the_others_are_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = {"o": [0, 1], "popTime": 5, "i": 60_000}
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client, 1)
        await until_copied(master, slave)
        table = {
            "t@a": {"0": {**good, "o": []}, "1": {**good, "o": [2**70]}, "x": good, "-1": good},
            "t": {"0": good}, "t@../b": {"0": good}, "gone@g": {"0": good}, "t@b": [good],
            "t@g": {"0": good},
        }  # fmt: skip
        for _ in range(3):
            await slave.pop_orders.copy(table, "h:1")
        assert out(slave).keys() == {"t@g"}
        assert offsets(out(slave)["t@g"]["0"]) == [0, 1]

        def said() -> list[str]:
            return [each.message for each in caplog.records if each.message.startswith("h:1: ")]

        (line,) = said()
        assert line.startswith("h:1: batches skipped: 8, as a of t queue '0': ValueError("), line
        del table["t"]
        await slave.pop_orders.copy(table, "h:1")
        assert [each[:23] for each in said()[1:]] == ["h:1: batches skipped: 7"]


@in_loop
async def test_what_a_slave_cannot_read_of_the_batches_stays_as_it_is_there(tmp_path: Path) -> None:
    """A batch that a slave cannot read must keep its former copy there: the master has this batch,
    and its holder's acks would be lost without it."""
    good = {"o": [0, 1], "popTime": 5, "i": 60_000}
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client, 1)
        await until_copied(master, slave)
        whole = {f"t@{group}": {"0": good, "1": good} for group in ("g", "h", "i")}
        await slave.pop_orders.copy(whole, "h:1")
        assert out(slave).keys() == whole.keys()
        table = {"t@g": {"0": {**good, "o": 5}, "2": good}, "t@h": "later"}
        await slave.pop_orders.copy(table, "h:1")
        assert {pair: rows.keys() for pair, rows in out(slave).items()} == {
            "t@g": {"0", "2"}, "t@h": {"0", "1"},
        }  # fmt: skip


@in_loop
async def test_a_reset_that_a_slave_takes_ends_the_batches_of_its_queues(tmp_path: Path) -> None:
    """A reset that a slave copies must end the batches of its queues at once, even if the master is
    gone before the slave asks for batches: the holder of an older batch would move the offset
    forward again."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client)
        await until_copied(master, slave)

        def take(offsets: dict[str, int], resets: dict[str, int]) -> bool:
            pairs = {"offsetTable": {"t@g": offsets}, "resetOffsetTable": {"t@g": resets}}
            return slave.offsets.take(pairs, "h:1")

        assert not take({"0": 5, "1": 5, "2": 5, "3": 5}, {"2": 5, "3": 5})
        batch = {"o": [5, 1], "popTime": 5, "i": 60_000}
        await slave.pop_orders.copy({"t@g": dict.fromkeys("0123", batch)}, "h:1")
        assert take({"0": 2, "1": 6, "2": 5, "3": 5}, {"3": 5})
        assert out(slave)["t@g"].keys() == {"1", "3"}, "0 fell, 2 was taken by a pop"
        slave.offsets.take({"offsetTable": {"gone@g": {"0": 5}}}, "h:1")
        slave.offsets.take({"offsetTable": {"gone@g": {"0": 4}}}, "h:1")
        assert slave.offsets.query("g", "gone", 0) == 4, "whatever is known of the topic"


@in_loop
async def test_a_batch_that_a_master_has_still_comes_again_behind_an_offset_that_fell(
    tmp_path: Path,
) -> None:
    """An offset that fell by a commit (15) ends no batch at the master, where batches do not change
    by it. So the slave, which dropped the batch, must get it again."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client)
        await ack(client, "g", *await in_order(client))
        await in_order(client)
        await until_copied(master, slave)
        batches, version = out(master), master.core.pop_orders_version
        assert out(slave) == batches != {}
        master.offsets.commit("g", "t", 0, 1)
        await until(lambda: slave.offsets.query("g", "t", 0) == 1)
        await until(lambda: out(slave) == batches)
        assert (out(master), master.core.pop_orders_version) == (batches, version)


@in_loop
async def test_others_have_their_turn_while_a_slave_takes_many_batches(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        good = {"o": [0, 1], "popTime": 5, "i": 60_000}
        rows = {str(queue): good for queue in range(5 * pop_orders.PUT_BLOCKS)}
        copying = asyncio.ensure_future(broker.pop_orders.copy({"t@g": rows}, "h:1"))
        seen = set()
        while not copying.done():
            seen.add(len(broker.core.pop_orders()))
            await asyncio.sleep(0)
        assert {each // pop_orders.PUT_BLOCKS for each in seen} >= {0, 1, 2, 3, 4}
        assert len(broker.core.pop_orders()) == len(rows)


@in_loop
async def test_slaves_share_what_a_master_makes_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[pop_orders.Blocks] = []
    members = pop_orders.members

    def noted(blocks: pop_orders.Blocks) -> dict[str, Any]:
        made.append(blocks)
        return members(blocks)

    monkeypatch.setattr(pop_orders, "members", noted)
    async with control(tmp_path) as broker:
        block = pop_orders.packed({"o": [0], "popTime": 5})
        for count in (1, 2):
            broker.core.put_pop_order(b"t", b"g%d" % count, 0, block)
            bodies = await asyncio.gather(*(broker.pop_orders.body() for _ in range(3)))
            assert len(set(bodies)) == 1 and len(json.loads(bodies[0])["table"]) == count
            assert len(made) == count


class Link:
    """A master from which a slave takes one round of tables."""

    address = "h:1"
    tables = ("topics", "groups", "modes", "offsets", "delays", "timers", "accounts")

    def __init__(self, log_end: int | None) -> None:
        """log_end None: a master of RocketMQ's, which says nothing of its tables."""
        self.log_end = log_end
        self.codes: list[int] = []
        self.asked: list[dict[str, str]] = []  # the fields of each 906

    async def call(self, command: Command, timeout_s: float) -> Command:
        self.codes.append(command.code)
        if command.code != 906:
            return command.reply(16)
        self.asked.append(dict(command.fields))
        if self.log_end is None:
            return command.reply()
        fields = {"rmqLogEnd": str(self.log_end), "rmqLogWritten": str(self.log_end)}
        if "rmqSlave" in command.fields:
            versions = dict.fromkeys(self.tables, "") | {"orders": "1763726400.5 1"}
            fields |= {"rmqVersions": json.dumps(versions), "rmqLogWritten": "0"}
        body = b'{"table":{"t@g":{"0":{"o":[9],"popTime":1}}}}'
        return command.reply(fields=fields, body=body if "rmqOrders" in command.fields else b"")


async def one_round(slave: Broker, link: Link) -> None:
    copy = MetadataCopy(slave, slave.core, slave.replication._search)
    await copy._round(link, link.log_end is not None)  # type: ignore[arg-type]


@in_loop
async def test_a_batch_is_taken_when_the_log_has_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch must be taken only when the slave's log has its messages. Otherwise other messages
    that are stored there next would be acknowledged by the holder of the batch."""
    monkeypatch.setattr("rmq.broker.replication.metadata_copy.REACH_S", 0.05)
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await fill(client, 1)
        await until_copied(master, slave)
        end = slave.core.log_range()[1]
        with pytest.raises(Unreached, match=f"does not come up to {end + 1}"):
            await one_round(slave, Link(end + 1))
        assert out(slave) == {}
        await one_round(slave, Link(end))
        assert offsets(out(slave)["t@g"]["0"]) == [9]


@in_loop
async def test_a_master_of_rocketmqs_is_asked_for_what_it_knows_and_is_of_use(
    tmp_path: Path,
) -> None:
    """A master of RocketMQ's must be asked neither for batches, which it does not know, nor how
    many timed messages wait (61), which nothing here reads."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s", syncControllerMetadataPeriod=1) as slave,
    ):
        await until_same_log(master, slave)
        link = Link(None)
        await one_round(slave, link)
        assert len(link.asked) == 1 and "rmqOrders" not in link.asked[0]
        assert link.codes == [906, 21, 201, 402, 43, 45, 60]
