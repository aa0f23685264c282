"""A slave of a master of RocketMQ 4, which knows neither 906 nor request modes.

With the real one: tests/compat/test_replicas.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.live_broker import SMALL, live_broker
from support.name_server import in_loop
from support.scripted_peer import ScriptedPeer
from support.waiting import until

from rmq.broker.replication.master_search import Master, MasterSearch
from rmq.config import load_properties
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.serving.remoting_client import CallError

COPIES = "rmq.broker.metadata_copy"  # who logs what is not copied
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
            # Asked for last: one round is over.
            await until(lambda: [each.code for each in peer.requests].count(60) > 1)
            assert [each for each in caplog.records if each.name == COPIES] == []
            assert "t" in slave.topics and "g" in slave.groups
            assert slave.offsets.query("g", "t", 0) == 7
