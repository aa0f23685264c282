"""An empty log of a slave begins where its master's log begins.

Goal: whatever was begun before the slave knew its master, the slave then takes the master's log,
and a restart finds it; of half messages the slave has those that are in this log. It is refused,
and nothing happens, if the log has a byte in it, if the core is a master, or if no segment begins
at the place. Method: a real master whose oldest segments are gone; its bytes are fed by hand.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.fed_slaves import FedSlave, fed_slave, log_of, queues_of
from support.live_broker import SMALL, fill_log, live_broker, records
from support.live_replicas import TOPIC
from support.name_server import in_loop
from support.waiting import until

from rmq.base import clock
from rmq.broker.replication.bootstrap import begin_at
from rmq.config import Settings, load_properties
from rmq.errors import ConfigError, StoreError
from rmq.format.remoting import Command
from rmq.node.truncation import begin_elsewhere

SEGMENT = int(SMALL["mappedFileSizeCommitLog"])
HALF = b"RMQ_SYS_TRANS_HALF_TOPIC"
MARKS = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02"
COMMIT = 8
# No producer is asked about its transaction.
CALM: dict[str, object] = {"transactionCheckInterval": 3_600_000, "transactionTimeOut": 3_600_000}


async def masters_log(directory: Path) -> tuple[int, bytes]:
    """The offset at which the log of a master begins, and the whole log. The master is stopped."""
    async with live_broker(directory) as master, BrokerClient(master.core.port) as client:
        await client.call(17, topic="t", **TOPIC)
        await fill_log(master, client, "t", SEGMENT + SEGMENT // 2)
        await until(lambda: master.core.drop_segments(2**62, 1, 1) or master.core.log_range()[0])
        start, end, _ = master.core.log_range()
        await master.offsets.save()
    assert start == SEGMENT
    return start, log_of(directory, end - start)


async def commit(client: BrokerClient, half: Command) -> None:
    reply = await client.call(
        37, producerGroup="P", tranStateTableOffset=half.fields["queueOffset"],
        commitLogOffset=int(half.fields["msgId"][-16:], 16), commitOrRollback=COMMIT,
        fromTransactionCheck=False, msgId="U",
    )  # fmt: skip
    assert reply.code == 0


async def log_with_halves(directory: Path) -> tuple[int, bytes]:
    """A master's log without its first segment. That segment had the half messages 0 to 4, of which
    1 was committed later. The rest of the log has 5, 6 and 7, of which 6 is committed."""
    async with (
        live_broker(directory, **CALM) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="t", **TOPIC)
        # A half message older than the time for which the log is kept is given up.
        born = int(clock.wall() * 1000)
        older = [await client.send("t", b"half", i=MARKS, g=born) for _ in range(5)]
        await fill_log(master, client, "t", SEGMENT + (1 << 20))
        await commit(client, older[1])
        newer = [await client.send("t", b"half", i=MARKS, g=born) for _ in range(3)]
        await commit(client, newer[1])
        assert master.core.open_halves(0, 10) == (0, 8, [0, 2, 3, 4, 5, 7])
        await until(lambda: master.core.drop_segments(2**62, 1, 1) or master.core.log_range()[0])
        start, end, _ = master.core.log_range()
        await master.offsets.save()
    assert start == SEGMENT
    return start, log_of(directory, end - start)


def settings_of(store: Path) -> Settings:
    return load_properties(None, {**SMALL, "storePathRootDir": str(store)})


async def take(one: FedSlave, start: int, log: bytes) -> None:
    end = start
    while end < start + len(log):
        at = end - start
        end = one.core.append_raw(end, log[at : at + (1 << 20)])
    await until(lambda: one.core.stats()["log_dispatched"] == end)


async def begin(one: FedSlave, start: int) -> None:
    one.broker = await begin_elsewhere(one.broker, start)


@in_loop
async def test_it_takes_the_masters_log_from_there(tmp_path: Path) -> None:
    start, log = await masters_log(tmp_path / "master")
    one = await fed_slave(tmp_path / "one", tmp_path / "master")
    for elsewhere in (5 * SEGMENT, 0, start):
        await begin(one, elsewhere)
        assert one.core.log_range()[:2] == (elsewhere, elsewhere)
    await take(one, start, log)
    bodies = [each.body for each in records(one.broker, "t")]
    assert bodies
    await one.stop()
    assert log_of(tmp_path / "one", len(log)) == log
    assert queues_of(tmp_path / "one").keys() == queues_of(tmp_path / "master").keys()

    again = await fed_slave(tmp_path / "one")
    assert again.core.log_range()[:2] == (start, start + len(log))
    assert again.core.report["damages"] == []
    assert [each.body for each in records(again.broker, "t")] == bodies
    await again.stop()


@in_loop
async def test_half_messages_begin_where_the_log_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the new master would give up each earlier half message, with a line in its log."""
    start, log = await log_with_halves(tmp_path / "master")
    one = await fed_slave(tmp_path / "one", tmp_path / "master", **CALM)
    await begin(one, start)
    await take(one, start, log)
    minimum, maximum = one.core.queue_range(HALF, 0)
    assert (minimum, maximum) == (5, 8)
    assert one.core.open_halves(0, 10) == (minimum, maximum, [5, 7])
    assert one.core.stats()["half_messages_ended_out_of_order"] == 1
    assert one.core.promote()
    await one.broker.transactions.check()
    assert one.core.open_halves(0, 10) == (minimum, maximum, [5, 7])
    assert "is given up" not in caplog.text
    await one.stop()


@pytest.mark.parametrize("is_running", [True, False])
@in_loop
async def test_queues_of_a_log_that_was_there_before_are_none_of_it(
    tmp_path: Path, is_running: bool
) -> None:
    """Only the disk of the log was replaced. If the old queue stayed, it would go on at its old
    end, with blanks up to the first message that is there, or would lack all of them."""
    start, log = await masters_log(tmp_path / "master")
    async with live_broker(tmp_path / "one") as one, BrokerClient(one.core.port) as client:
        await client.call(17, topic="t", **TOPIC)
        for queue in range(4):
            assert (await client.send("t", b"old", queue)).code == 0
    assert len(queues_of(tmp_path / "one")) >= 4
    shutil.rmtree(tmp_path / "one" / "commitlog")
    if not is_running:  # as in a start that finds its master
        begin_at(settings_of(tmp_path / "one"), start)
    again = await fed_slave(tmp_path / "one", tmp_path / "master")
    if is_running:
        await begin(again, start)
    await take(again, start, log)
    found = {queue: again.core.queue_range(b"t", queue) for queue in range(4)}
    await again.stop()
    master = await fed_slave(tmp_path / "master")
    assert found == {queue: master.core.queue_range(b"t", queue) for queue in range(4)}
    await master.stop()


@in_loop
async def test_an_empty_one_is_found_there_by_a_restart(tmp_path: Path) -> None:
    one = await fed_slave(tmp_path)
    await begin(one, 3 * SEGMENT)
    await one.stop()
    again = await fed_slave(tmp_path)
    assert again.core.log_range()[:2] == (3 * SEGMENT, 3 * SEGMENT)
    assert again.core.promote()
    async with BrokerClient(again.core.port) as client:
        assert (await client.send("t", b"first")).fields["queueOffset"] == "0"
    await again.stop()


@in_loop
async def test_where_it_does_not(tmp_path: Path) -> None:
    one = await fed_slave(tmp_path)
    for wrong in (-SEGMENT, SEGMENT - 1, 100):
        with pytest.raises(ConfigError, match="no start of such a file"):
            one.core.begin_log(wrong)
    assert one.core.promote()
    with pytest.raises(StoreError, match="of a master is not cut"):
        one.core.begin_log(SEGMENT)
    async with BrokerClient(one.core.port) as client:
        assert (await client.send("t", b"kept")).code == 0
    await until(lambda: one.core.demote())
    with pytest.raises(StoreError, match="it has what lies from 0 to"):
        one.core.begin_log(SEGMENT)
    assert [each.body for each in records(one.broker, "t")] == [b"kept"]
    await one.stop()
