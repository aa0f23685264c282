"""A slave of a RocketMQ 4 master, which knows neither 906 nor request modes; and how long a
RocketMQ master of any version may take for an answer.

With a real master: tests/compat/test_replicas.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.live_broker import SMALL, live_broker
from support.name_server import in_loop
from support.scripted_peer import ScriptedPeer
from support.waiting import HANG_S, until

from rmq.broker.replication.master_search import Master, MasterSearch
from rmq.broker.replication.metadata_copy import MetadataCopy
from rmq.config import load_properties
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.format.timer_position import timer_check
from rmq.serving.remoting_client import CallError, RemotingClient

COPIES = "rmq.broker.metadata_copy"  # the logger that reports what is not copied
PLACE = "brokerIP2=127.0.0.1\nhaListenPort=1\n"
TOPIC = {
    "topicName": "t", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
}  # fmt: skip
VERSION = {"counter": 1, "timestamp": 1, "stateVersion": 0}
TABLES = {
    21: {"topicConfigTable": {"t": TOPIC}, "dataVersion": VERSION},
    201: {"subscriptionGroupTable": {"g": {"groupName": "g"}}, "dataVersion": VERSION},
    43: {"offsetTable": {"t@g": {0: 7}}},
    45: {"offsetTable": {3: 9}},
    28: {"table": {"commitLogMinOffset": "1048576"}},
}


def table(content: dict[str, object]) -> Callable[[Command], Command]:
    return lambda command: command.reply(body=fastjson.dumps(content))


def master(configuration: str) -> ScriptedPeer:
    def unknown(command: Command) -> Command:
        return command.reply(3, f" request type {command.code} not supported")

    return ScriptedPeer({
        **{code: table(content) for code, content in TABLES.items()},
        **dict.fromkeys((402, 906), unknown),
        26: lambda command: command.reply(body=configuration.encode()),
        60: unknown,
    })  # fmt: skip


def search(address: str, **given: str) -> MasterSearch:
    return MasterSearch(load_properties(None, {"rmqMasterAddress": address, **given}))


@in_loop
async def test_its_configuration_says_where_the_log_is() -> None:
    with master(PLACE) as peer:
        found = await search(peer.address).find()
        assert found == Master(peer.address, "127.0.0.1:1", 1 << 20, False)
        found = await search(peer.address, haMasterAddress="10.0.0.5:7").find()
        assert found.ha_address == "10.0.0.5:7"
    with (
        master("brokerIP2=127.0.0.1\n") as peer,
        pytest.raises(CallError, match=r"906 not supported\): give haMasterAddress"),
    ):
        await search(peer.address).find()


@in_loop
async def test_its_tables_are_all_there_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with master(PLACE) as peer:
        given = {"brokerRole": "SLAVE", "brokerId": 1, "rmqMasterAddress": peer.address}
        soon = {"syncControllerMetadataPeriod": 10}
        async with live_broker(tmp_path, **SMALL, **given, **soon) as slave:
            # 60 is asked for last: then one round is over.
            await until(lambda: [each.code for each in peer.requests].count(60) > 1)
            assert [each for each in caplog.records if each.name == COPIES] == []
            assert "t" in slave.topics and "g" in slave.groups
            assert slave.offsets.query("g", "t", 0) == 7


@contextmanager
def held(peer: ScriptedPeer, code: int) -> Iterator[threading.Event]:
    """The master answers this request when the event is set, and all others at once."""
    given, answer = threading.Event(), peer.answers[code]

    def late(command: Command) -> Command | bytes | None:
        assert given.wait(HANG_S)
        return answer(command)

    peer.answers[code] = late
    try:
        yield given
    finally:
        given.set()


async def is_waiting(task: asyncio.Task[object], clock: DrivenClock, seconds: float) -> bool:
    """Lets so much time pass and runs what became due by it. Returns whether the task still
    waits."""
    clock.advance(seconds)
    for _ in range(10):
        await asyncio.sleep(0)
    return not task.done()


PATIENCE = pytest.mark.parametrize(("code", "seconds"), [(26, 3), (906, 3), (28, 15)])


@pytest.mark.still_clock
@PATIENCE
@in_loop
async def test_a_slow_answer_is_waited_for(clock: DrivenClock, code: int, seconds: int) -> None:
    """A master's answer about itself (28) must be waited for longer than all others, because it is
    much work to gather."""
    with master(PLACE) as peer, held(peer, code) as given:
        finding = asyncio.create_task(search(peer.address).find())
        await until(lambda: [each.code for each in peer.requests][-1:] == [code], still=True)
        assert await is_waiting(finding, clock, seconds - 1)
        given.set()
        assert (await finding).log_start == 1 << 20


@pytest.mark.still_clock
@PATIENCE
@in_loop
async def test_it_is_waited_for_no_longer(clock: DrivenClock, code: int, seconds: int) -> None:
    with master(PLACE) as peer, held(peer, code):
        finding = asyncio.create_task(search(peer.address).find())
        await until(lambda: [each.code for each in peer.requests][-1:] == [code], still=True)
        assert await is_waiting(finding, clock, seconds - 1)
        assert not await is_waiting(finding, clock, 1)
        with pytest.raises(CallError, match="no answer in time"):
            await finding


@pytest.mark.still_clock
@pytest.mark.parametrize("comes", [True, False])
@in_loop
async def test_the_copy_of_its_tables_waits_as_long_for_it(
    clock: DrivenClock, tmp_path: Path, comes: bool
) -> None:
    """The answer must be waited for because of the end of the master's log: a slave needs the log
    up to that end before it goes on with timed messages."""
    fired_ms = clock.now_ms() // 1000 * 1000
    check = timer_check((fired_ms + 1, 0, fired_ms + 1, 0, 7, 0), fired_ms / 1000)
    with master(PLACE) as peer:
        peer.answers[60] = lambda command: command.reply(body=check)
        peer.answers[28] = table({"table": {"commitLogMaxOffset": "0"}})
        with held(peer, 28) as given:
            async with live_broker(tmp_path, slave=True) as slave:
                copy = MetadataCopy(slave, slave.core, search(peer.address))
                link = RemotingClient(peer.address)
                asking = asyncio.create_task(copy._fired(link))
                await until(lambda: [each.code for each in peer.requests] == [60, 28], still=True)
                assert await is_waiting(asking, clock, 14)
                if comes:
                    given.set()
                    await asking
                    assert slave.core.timers_delivered()[0] == fired_ms + 1
                else:
                    assert not await is_waiting(asking, clock, 1)
                    with pytest.raises(CallError, match="no answer in time"):
                        await asking
                link.close()
