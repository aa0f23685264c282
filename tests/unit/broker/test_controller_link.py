"""What a broker asks controllers, and its heartbeats to them.

Goal: the leader is found, and found again. Every answer is checked. A lease counts from before the
question. A dead controller delays nobody. Controllers are real where possible; what real ones never
do (two that disagree, garbage, silence) is done by scripted ones on real sockets.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.controllers import controller, seen
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.scripted_controller import LEADS, scripted

from rmq.base import clock as rmq_clock
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.controller_heartbeats import ControllerHeartbeats, ReplicaState
from rmq.broker.replication.controller_link import ControllerError, ControllerLink, ReplicaInfo
from rmq.broker.replication.sync_state import SyncState
from rmq.config import Settings, load_properties
from rmq.controller.server import ControllerServer
from rmq.demo.ports import free_port
from rmq.errors import ConfigError
from rmq.format.remoting import encode

pytestmark = pytest.mark.still_clock

NAMES = {"brokerClusterName": "c", "brokerName": "broker-a"}
ADDRESS = "127.0.0.1:10911"


def link_to(*addresses: str) -> ControllerLink:
    return ControllerLink(ControllerAddresses(";".join(addresses)), "c", "broker-a")


async def joined(link: ControllerLink, broker_id: int, address: str = ADDRESS) -> ReplicaInfo:
    await link.apply_id(broker_id, f"{address};17")
    return await link.register(broker_id, address)


def leads(address: str) -> dict[str, object]:
    return {"controllerLeaderAddress": address, "isLeader": False}


# ---- addresses


@pytest.mark.parametrize("text", ["", ";;", "h", "h:0", "h:70000", "h1:1;h2", "a:1;" * 65])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="controllerAddr="):
        ControllerAddresses(text)


@in_loop
async def test_names_are_looked_up() -> None:
    found = await ControllerAddresses(" 10.0.0.1:9878 ;[::1]:9878;localhost:1;10.0.0.1:9878").all()
    assert found[:2] == ["10.0.0.1:9878", "[::1]:9878"]
    assert "127.0.0.1:1" in found and len(found) == len(set(found))
    assert await ControllerAddresses("no-such-host.invalid:1;10.0.0.1:2").all() == ["10.0.0.1:2"]


@in_loop
async def test_a_leader_that_is_not_in_the_list_is_one_of_them(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, scripted(c1005=leads(server.address)) as other:
        addresses = ControllerAddresses(other.address)
        link = ControllerLink(addresses, "c", "broker-a")
        assert await link.next_id() == 1
        assert await addresses.all() == [other.address, server.address]
        # The same controller, under a name that another one gave.
        addresses.leads(f"localhost:{server.port}")
        assert server.address in await addresses.all()
        addresses.leads(other.address)
        assert await addresses.all() == [other.address]
        link.close()


# ---- questions


@in_loop
async def test_a_replica_from_its_id_to_its_lease(tmp_path: Path) -> None:
    async with controller(tmp_path) as server:
        link = link_to("127.0.0.1:1", server.address)
        assert await link.next_id() == 1
        registered = await joined(link, 1)
        assert registered == ReplicaInfo(asked_ms=registered.asked_ms)
        elected = await link.elect(1)
        assert (elected.master_id, elected.master_address) == (1, ADDRESS)
        assert (elected.master_epoch, elected.lease_ms) == (1, None)
        assert elected.sync_state == SyncState(frozenset((1,)), 1)
        before = int(rmq_clock.boot() * 1000)
        info = await link.replica_info(1, 1, is_covered=True)
        assert info.lease_ms == 5000
        assert before <= info.asked_ms <= int(rmq_clock.boot() * 1000)
        assert info.lease_until_ms == info.asked_ms + 5000
        assert (await link.replica_info(2)).lease_ms == 0
        link.close()


@in_loop
async def test_the_sync_state_set_is_changed(tmp_path: Path) -> None:
    async with controller(tmp_path) as server:
        link = link_to(server.address)
        await joined(link, 1)
        await joined(link, 2, "127.0.0.1:10912")
        await link.elect(1)
        beats = [heartbeats(server.address, each) for each in (1, 2)]
        for number, each in enumerate(beats):
            each.start(number + 1)
            assert await each.announce(30.0)
        altered = await link.alter_sync_state(1, 1, frozenset((1, 2)), 1)
        assert altered.sync_state == SyncState(frozenset((1, 2)), 2) and altered.lease_ms is None
        with pytest.raises(ControllerError) as caught:
            await link.alter_sync_state(1, 1, frozenset((1,)), 1)
        assert caught.value.code == 2001
        again = await link.alter_sync_state(1, 1, frozenset((1, 2)), 2, is_new_epoch=True)
        assert again.sync_state.epoch == 3
        await link.resign(1, 1)
        info = await seen(lambda: link.replica_info(2), lambda info: info.master_id == 2)
        assert info.master_epoch == 2
        for each in beats:
            await each.stop()
        link.close()


@in_loop
async def test_codes_come_with_the_error(tmp_path: Path) -> None:
    async with controller(tmp_path) as server:
        link = link_to(server.address)
        asks: list[tuple[Callable[[], Awaitable[object]], int]] = [
            (lambda: link.replica_info(1), 2008),
            (lambda: link.register(1, ADDRESS), 2010),
            (lambda: link.apply_id(7, "x;1"), 2014),
            (lambda: link.elect(1), 2010),
        ]
        for ask, code in asks:
            with pytest.raises(ControllerError, match=f"answers {code}") as caught:
                await ask()
            assert caught.value.code == code
        link.close()


@in_loop
async def test_the_leader_is_asked_whoever_names_it(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, scripted(c1005=leads(server.address)) as other:
        link = link_to("127.0.0.1:1", other.address)
        assert await link.next_id() == 1  # the leader's answer: the other controller gives no ids
        link.close()


@in_loop
async def test_one_that_leads_no_more_is_not_asked_again() -> None:
    async with scripted(c1005=LEADS, c1012=2007) as old, scripted(c1012={"nextBrokerId": 3}) as new:
        link = link_to(old.address)
        asking = asyncio.ensure_future(link.next_id())
        await seen(lambda: [each.code for each in old.asked].count(1012) >= 1)
        with pytest.raises(ControllerError, match="does not lead"):
            await asking
        old.answers[1005] = leads(new.address)
        assert await link.next_id() == 3
        link.close()


@in_loop
async def test_a_lost_connection_is_made_anew_and_asked_the_same(tmp_path: Path) -> None:
    port = free_port()
    async with controller(tmp_path, listenPort=port) as server:
        link = link_to(server.address)
        assert await link.next_id() == 1
    async with controller(tmp_path, listenPort=port):
        assert await link.next_id() == 1
        link.close()


@in_loop
async def test_followers_that_still_name_the_dead_leader_are_not_believed() -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with (
        scripted(c1005=leads(dead)) as late,
        scripted(c1005=LEADS, c1012={"nextBrokerId": 3}) as new,
    ):
        link = link_to(dead, late.address, new.address)
        assert await link.next_id() == 3
        link.close()


@in_loop
async def test_a_change_whose_answer_was_lost_is_not_made_twice() -> None:
    async with scripted(c1005=LEADS, c1001="close") as server:
        link = link_to(server.address)
        with pytest.raises(ControllerError) as caught:
            await link.alter_sync_state(1, 1, frozenset((1, 2)), 1)
        assert caught.value.code is None
        assert [each.code for each in server.asked] == [1005, 1001]
        link.close()


@in_loop
async def test_nobody_is_there() -> None:
    for answer in ({"isLeader": False}, 1, b"HTTP/1.1 400 Bad Request\r\n\r\n", "close"):
        async with scripted(c1005=answer) as server:
            link = link_to("127.0.0.1:1", server.address)
            with pytest.raises(ControllerError, match="no controller leads") as caught:
                await link.next_id()
            assert caught.value.code is None


GARBAGE: list[object] = [
    {"masterBrokerId": 1},  # without an address
    {"masterBrokerId": 1, "masterAddress": "nowhere"},
    {"masterBrokerId": "one"},
    {"masterBrokerId": -2},
    {"masterEpoch": -1},
    {"masterEpoch": 2**31},
    {"rmqLeaseMillis": -1},
    {"rmqLeaseMillis": 86_400_001},
    ({}, b"{"),
    ({}, b'{"syncStateSet":[0]}'),
    ({}, b'{"syncStateSet":["x"]}'),
    ({}, b'{"syncStateSet":%s}' % str(list(range(1, 2000))).encode()),
    ({}, b'{"syncStateSet":[1],"syncStateSetEpoch":-1}'),
]


@pytest.mark.parametrize("answer", GARBAGE)
def test_answers_are_checked(answer: object) -> None:
    @in_loop
    async def run() -> None:
        async with scripted(c1005=LEADS, c1004=answer) as server:
            link = link_to(server.address)
            with pytest.raises(ControllerError, match="the controller's answer: "):
                await link.replica_info(1)
            link.close()

    run()


@in_loop
async def test_a_controller_of_rocketmq_says_nothing_of_leases() -> None:
    fields = {"masterBrokerId": -1, "masterAddress": "", "masterEpoch": 4}
    body = b'{"syncStateSet":[1,2],"syncStateSetEpoch":9}'
    async with scripted(c1005=LEADS, c1004=(fields, body)) as server:
        link = link_to(server.address)
        info = await link.replica_info(1)
        assert (info.master_id, info.master_epoch, info.lease_ms) == (None, 4, None)
        assert info.sync_state == SyncState(frozenset((1, 2)), 9)
        link.close()


def test_a_lease_counts_from_before_the_question(clock: DrivenClock) -> None:
    @in_loop
    async def run() -> None:
        fields = {"masterBrokerId": 1, "masterAddress": ADDRESS, "rmqLeaseMillis": 5000}
        async with scripted(c1005=LEADS, c1004="silence") as server:
            link = link_to(server.address)
            before = int(rmq_clock.boot() * 1000)
            asking = asyncio.ensure_future(link.replica_info(1, 1))
            await seen(lambda: server.asked[1:])
            clock.advance(1.5)  # the time that the answer takes
            server.writers[-1].write(encode(server.asked[-1].reply(0, None, fields)))
            info = await asking
            assert before + 5000 <= info.lease_until_ms < before + 6000
            link.close()

    run()


# ---- heartbeats


def heartbeats(address: str, broker_id: int = 1, **given: str) -> ControllerHeartbeats:
    texts = {**NAMES, "controllerAddr": address, **given}
    settings: Settings = load_properties(None, texts)
    return ControllerHeartbeats(
        ControllerAddresses(address), settings, f"127.0.0.1:{10910 + broker_id}",
        lambda: ReplicaState(3, 4096, 2048, True),
    )  # fmt: skip


def lives(server: ControllerServer) -> bool:
    return server.live.is_alive(("c", "broker-a", 1))


@in_loop
async def test_every_controller_hears_and_a_dead_one_delays_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        deaf = f"127.0.0.1:{silent.getsockname()[1]}"
        async with controller(tmp_path / "1") as one, controller(tmp_path / "2") as two:
            beats = heartbeats(f"127.0.0.1:1;{deaf};{one.address};{two.address}")
            beats.start(1)
            await seen(lambda: lives(one) and lives(two))
            heard = one.live.of_set("c", "broker-a")[1]
            assert (heard.epoch, heard.max_offset, heard.confirm_offset) == (3, 4096, 2048)
            assert (heard.address, heard.timeout_ms, heard.priority) == (
                "127.0.0.1:10911", 10_000, 2**31 - 1,
            )  # fmt: skip
            await beats.stop()
            await seen(lambda: not lives(one) and not lives(two))


def test_they_go_on_each_second_on_one_connection(clock: DrivenClock) -> None:
    @in_loop
    async def run() -> None:
        async with scripted() as server:
            beats = heartbeats(server.address, brokerElectionPriority="7")
            beats.start(1)
            for number in range(1, 6):
                await seen(lambda number=number: len(server.asked) >= number)
                clock.advance(1.0)
            assert len(server.writers) == 1
            assert [each.is_oneway for each in server.asked[:3]] == [False, True, True]
            assert server.asked[0].fields == {
                "clusterName": "c", "brokerName": "broker-a", "brokerAddr": ADDRESS,
                "brokerId": "1", "epoch": "3", "maxOffset": "4096", "confirmOffset": "2048",
                "heartbeatTimeoutMills": "10000", "electionPriority": "7", "rmqCovered": "true",
            }  # fmt: skip
            await beats.stop()

    run()


def test_a_controller_that_comes_back_hears_again(clock: DrivenClock, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        port = free_port()
        beats = heartbeats(f"127.0.0.1:{port}")
        beats.start(1)
        assert not await beats.announce(5.0)
        for _ in range(2):
            async with controller(tmp_path, listenPort=port) as server:
                await seen(lambda server=server: tick(clock) or lives(server))
                assert await beats.announce(30.0)
        await beats.stop()

    run()


def tick(clock: DrivenClock) -> None:
    clock.advance(0.05)


@in_loop
async def test_who_asks_waits_for_the_answer_and_not_for_the_silent() -> None:
    async with scripted(c904="silence") as server:
        beats = heartbeats(f"127.0.0.1:1;{server.address}")
        beats.start(1)
        assert not await beats.announce(0.2)
        server.answers.clear()
        assert await beats.announce(30.0)
        await beats.stop()
