"""Where the log of a new replica begins, depending on which replicas have a log as the controller
says; and what a replica with a log finds out before it opens its store.

With a real master: tests/unit/broker/test_replicas.py, tests/ha.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.controllers import Replica, controller
from support.driven_clock import DrivenClock
from support.live_broker import live_broker, open_core
from support.live_replicas import TOPIC
from support.name_server import in_loop
from support.other_boot import other_boot

from rmq.broker.replication.bootstrap import bootstrap_controlled, controlled_start, own_id
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.controller_link import ControllerError, ControllerLink
from rmq.broker.replication.epoch_file import EpochFile, epoch_path
from rmq.broker.replication.epochs import Epoch, Epochs
from rmq.broker.replication.identity import IdentityFiles, identity_path
from rmq.broker.replication.lost_end import LostEnd, doubted_end_path, lost_end_path
from rmq.config import Settings, load_properties


def settings_of(store: Path, port: int) -> Settings:
    given = {"brokerClusterName": "c", "brokerName": "broker-a", "storePathRootDir": str(store),
             "controllerAddr": f"127.0.0.1:{port}"}  # fmt: skip
    return load_properties(None, given)


async def start_of(store: Path, port: int) -> int:
    settings = settings_of(store, port)
    link = ControllerLink(ControllerAddresses(settings.controllerAddr), "c", "broker-a")
    try:
        return await controlled_start(settings, link, own_id(settings))
    finally:
        link.close()


@in_loop
async def test_the_log_of_the_first_begins_at_0(clock: DrivenClock, tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        clock.advance(5.3)
        assert await start_of(tmp_path / "s", server.port) == 0
        await one.join()  # then there is a second replica with an id, but without a log
        assert await start_of(tmp_path / "s", server.port) == 0


@in_loop
async def test_a_new_one_waits_for_those_that_have_the_log(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A new replica must not begin at 0 while others have the log: its log would have nothing in
    common with theirs, which may begin later."""
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        clock.advance(5.3)
        await one.join()
        assert (await one.elect()).code == 0
        assert (await one.look(rmqBrokerId=1, rmqMasterEpoch=1, rmqResign=True)).code == 0
        assert "masterBrokerId" not in (await one.look()).fields
        with pytest.raises(ControllerError, match=r"is master now, and \[1\] have its log"):
            await start_of(tmp_path / "s", server.port)
        IdentityFiles(identity_path(settings_of(tmp_path / "own", 1)), "c", "broker-a").keep(1)
        assert await start_of(tmp_path / "own", server.port) == 0, "others may wait for it"


@in_loop
async def test_a_log_that_was_taken_away_is_known_to_be_lost(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """If a commit log was removed together with its checkpoint, the replica must report it as lost.
    Its epochs alone would let it be elected, although it has none of their messages."""
    async with controller(tmp_path) as server:
        clock.advance(5.3)
        known = EpochFile(epoch_path(settings_of(tmp_path / "known", server.port)))
        (tmp_path / "known").mkdir()
        known.write(Epochs((Epoch(1, 0),)))
        for store, is_lost in (("new", False), ("known", True), ("full", False)):
            settings = settings_of(tmp_path / store, server.port)
            if store == "full":
                (tmp_path / store / "commitlog").mkdir(parents=True)
                (tmp_path / store / "commitlog" / f"{0:020d}").write_bytes(bytes(10))
                EpochFile(epoch_path(settings)).write(Epochs((Epoch(1, 0),)))
            await bootstrap_controlled(settings)
            assert LostEnd(lost_end_path(settings)).has_lost(0) == is_lost, store


@pytest.mark.parametrize(
    ("is_clean", "is_same_boot", "flush", "is_in_doubt"),
    [
        (False, False, "ASYNC_FLUSH", True),
        (False, False, "SYNC_FLUSH", False),  # what it acknowledged is on the disk
        (False, True, "ASYNC_FLUSH", False),  # kill -9
        (True, False, "ASYNC_FLUSH", False),
    ],
)
@in_loop
async def test_who_was_not_stopped_before_its_machine_was_is_in_doubt(
    tmp_path: Path, is_clean: bool, is_same_boot: bool, flush: str, is_in_doubt: bool
) -> None:
    """Its log may once have ended later, with what it had acknowledged. The doubt must outlast a
    start that fails after it has opened the store, and with that written the present boot's id."""
    async with live_broker(tmp_path) as broker, BrokerClient(broker.core.port) as client:
        await client.call(17, topic="t", **TOPIC)
        assert (await client.send("t")).code == 0
    if not is_clean:
        (tmp_path / "abort").touch()
    if not is_same_boot:
        other_boot(tmp_path)
    given = {"enableControllerMode": "true", "controllerAddr": "127.0.0.1:1",
             "flushDiskType": flush}  # fmt: skip
    settings = load_properties(None, {"storePathRootDir": str(tmp_path), **given})
    for _ in range(2):
        await bootstrap_controlled(settings)
        assert doubted_end_path(settings).exists() is is_in_doubt
        assert not lost_end_path(settings).exists()
        _, core = open_core(tmp_path, **given)
        core.stop()
