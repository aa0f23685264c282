"""Goal: what is due while the disk cannot be read comes when it can: a delayed and a timed message,
one that was popped and not acknowledged, a question about an open transaction.

Method: a whole broker behind the fault shim, on a clock that the test drives; what was stored is on
the disk alone, every read of the log fails, all of it comes due, then the disk is well. Cannot
prove: a sector that is lost for good (what lies there holds what is due behind it).
"""

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import broker_process
from support.driven_clock import DrivenClock, process_clock
from support.faults import Faults
from support.name_server import in_loop
from support.page_cache import drop_page_cache, is_cached
from support.popping import pop
from support.waiting import machine_sleep, until

from rmq.format import fastjson
from rmq.format.message import decode_message

MIB = 1 << 20
BODY_BYTES = 50_000
DUE_S = 60
SETTINGS = {
    "rmqRingBytes": 4 * MIB, "maxMessageSize": MIB, "mappedFileSizeCommitLog": 64 * MIB,
    "messageIndexEnable": "false",  # an index that is behind brings pages of the log back
}  # fmt: skip
OPTIONS = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
HALF = 4  # TRANSACTION_PREPARED_TYPE of sysFlag


async def end_of(client: BrokerClient, topic: str) -> int:
    return int((await client.call(30, topic=topic, queueId=0)).fields["offset"])


async def until_so(condition: Callable[[], Awaitable[object]]) -> None:
    while not await condition():
        await machine_sleep(0.01)


async def store_all(client: BrokerClient, born_ms: int) -> None:
    """A message of each kind, and so much behind them that they are in no memory of the broker."""
    body = bytes(BODY_BYTES)
    for properties, flags in (
        ("DELAY\x015\x02", 0),  # a minute
        (f"TIMER_DELAY_SEC\x01{DUE_S}\x02", 0),
        ("TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02", HALF),
    ):
        assert (await client.send("t", body, i=properties, f=flags, g=born_ms)).code == 0
    assert (await client.send("p", body)).code == 0
    assert (await client.heartbeat("g", "p")).code == 0
    assert len(await pop(client, "g", "p", invisibleTime=DUE_S * 1000)) == 1
    for _ in range(80):
        assert (await client.send("filler", bytes(100_000))).code == 0


def is_on_disk_alone(log: Path) -> bool:
    drop_page_cache(log)
    return not is_cached(min(log.iterdir()), 4 * BODY_BYTES)


async def become_producer(client: BrokerClient) -> None:
    body = {"clientID": client.client_id, "consumerDataSet": [],
            "producerDataSet": [{"groupName": "P"}]}  # fmt: skip
    assert (await client.call(34, fastjson.dumps(body))).code == 0


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOMEM])
def test_what_is_due_while_the_disk_cannot_be_read_comes_when_it_can(
    tmp_path: Path, faults: Faults, error: int
) -> None:
    @in_loop
    async def run(clock: DrivenClock, port: int, store: Path) -> None:
        async with BrokerClient(port) as client:
            for topic in ("t", "filler"):
                assert (await client.send(topic, b"make")).code == 0
            await become_producer(client)
            await store_all(client, clock.now_ms())
            await until(lambda: is_on_disk_alone(store / "commitlog"))
            faults.fail("pread", error, path="commitlog/")
            clock.advance(DUE_S + 1)
            await until(lambda: faults.hits(0) > 20)  # each was looked for more than once
            assert await end_of(client, "t") == 1
            faults.clear()
            await until_so(lambda: is_there(client))
            question = await client.asked(39)
            assert decode_message(question.body)[0].properties["UNIQ_KEY"] == "U"

    async def is_there(client: BrokerClient) -> bool:
        return await end_of(client, "t") == 3 and len(await pop(client, "g", "p")) == 1

    with (
        process_clock(tmp_path) as clock,
        broker_process(tmp_path, OPTIONS, {**clock.environment, **faults.environment()}) as broker,
    ):
        run(clock, broker.port, broker.store)
        broker.logged("the disk could not be read [0-9]+ times")
        assert " is passed: " not in broker.log()
        assert "does not come again" not in broker.log()
