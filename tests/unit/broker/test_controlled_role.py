"""How brokers become master and slave, at real controllers with the file store.

Goal: one, two and three replicas start, die, come back and follow. Ids stay. A lease that is not
renewed fences the master before the lease ends. What fails is tried again; what is outdated is not
acted on. The clock is driven: time passes only when the test says so. What a broker would do in its
role is only noted here; the log and its streams have tests of their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from support.controllers import controller, seen
from support.driven_clock import DrivenClock
from support.etcd_server import etcd_server
from support.name_server import in_loop
from support.role_harness import Broker, Harness, harness, on_harness
from support.scripted_controller import LEADS, scripted
from support.slow_answers import slow_answers

from rmq.base import clock as rmq_clock
from rmq.broker.replication.controlled_role import LOST_END_WAIT_S
from rmq.broker.replication.controller_link import ControllerError, ReplicaInfo
from rmq.broker.replication.role_changes import RoleChanges
from rmq.broker.replication.sync_state import SyncState
from rmq.codes import RequestCode, ResponseCode
from rmq.controller import etcd_store
from rmq.demo.ports import free_port
from rmq.errors import ConfigError
from rmq.format.remoting import Command

pytestmark = pytest.mark.still_clock
SLOW_S = 1.5  # the time that etcd takes for an answer
SLOW_FOR_S = 60.0


@on_harness
async def test_one_replica_leads_and_keeps_its_lease(on: Harness) -> None:
    one = on.start(1)
    await on.until(one, "lead", 1, [1])
    await on.passing(lambda: len(one.leases) > 4)
    assert one.done == [("lead", 1, [1])]
    assert one.leases == sorted(set(one.leases)) and 3500 < one.lease_left_ms() <= 5000
    assert (on.folder / "1" / "brokerIdentity").read_text() == "c#broker-a#1"
    assert one.role.changes is not None and one.role.changes.is_leased
    assert one.role.problem == "" and one.role.changes.is_done


@on_harness
async def test_two_replicas_one_follows_joins_and_takes_over(on: Harness) -> None:
    one, two = await on.two_in_sync()
    await on.die(one)
    await on.until(two, "lead", 2, [2])
    await on.passing(lambda: two.leases)
    back = on.start(1, epoch=1)
    await on.until(back, "follow", 2, two.address, 2)
    assert back.role.broker_id == 1 and not back.leases
    assert ("fenced",) not in two.done


@on_harness
async def test_three_replicas_start_at_once(on: Harness) -> None:
    brokers = [on.start(each) for each in (1, 2, 3)]
    await on.passing(lambda: all(each.done for each in brokers))
    assert sorted(each.role.broker_id or 0 for each in brokers) == [1, 2, 3]
    masters = [each for each in brokers if each.last[0] == "lead"]
    assert len(masters) == 1
    master_id = masters[0].role.broker_id
    others = [each for each in brokers if each is not masters[0]]
    assert all(each.last == ("follow", master_id, masters[0].address, 1) for each in others)
    await on.in_sync(masters[0], 1, 2, 3)
    await on.die(masters[0])
    await on.passing(lambda: {each.last[0] for each in others} == {"lead", "follow"}
                     and all(each.epoch == 2 for each in others))  # fmt: skip


@on_harness
async def test_the_one_with_most_of_the_log_takes_over(on: Harness) -> None:
    one = on.start(1)
    await on.until(one, "lead", 1, [1])
    two, three = on.start(2), on.start(3)
    await on.passing(lambda: two.done and three.done)
    await on.in_sync(one, 1, 2, 3)
    three.end = 10
    live = await seen_end(on, three)
    assert live
    await on.die(one)
    await on.passing(lambda: three.last[:2] == ("lead", 2))
    await on.until(two, "follow", three.role.broker_id, three.address, 2)


async def seen_end(on: Harness, broker: Broker) -> bool:
    """Returns whether heartbeats have told the controllers where the broker's log ends."""
    return await broker.role._heartbeats.announce(30.0)


@on_harness
async def test_a_master_that_stops_resigns(on: Harness) -> None:
    """A master that stops gives up its lease, so that nobody has to wait until it ends, even if its
    slaves' acknowledgements do not cover the whole log."""
    one = on.start(1)
    one.is_covered = False
    await on.until(one, "lead", 1, [1])
    two = on.start(2)
    await on.until(two, "follow", 1, one.address, 1)
    await on.in_sync(one, 1, 2)
    on.running.remove(one)
    began = on.clock.monotonic()
    await one.role.stop()
    assert one.last == ("fenced",)
    await seen(lambda: on.clock.advance(0.002) or two.last == ("lead", 2, [2]))
    assert on.clock.monotonic() - began < 4.0, "before the lease would have ended"


@on_harness
async def test_a_master_whose_log_takes_nothing_retires_whatever_fails_beside(on: Harness) -> None:
    one, two = await on.two_in_sync()
    one.fails |= {"replica_state", "retired"}
    one.is_poisoned = True
    await on.passing(lambda: one.role.problem == "the disk is gone")
    one.fails.discard("replica_state")
    await on.passing(lambda: one.role.problem == "the disk is full")
    await on.until(two, "lead", 2, [2])
    one.fails.discard("retired")
    await on.passing(lambda: one.last == ("retired", 1))
    await on.passing(lambda: "takes nothing any more" in one.role.problem)
    assert one.done[-2] == ("fenced",) and one.done.count(("retired", 1)) == 1


@on_harness
async def test_a_restarted_master_is_elected_anew(on: Harness) -> None:
    one = on.start(1)
    await on.until(one, "lead", 1, [1])
    await on.die(one)
    back = on.start(1, epoch=1)
    await on.passing(lambda: back.done)
    assert back.last[0] in ("lead", "wait")
    await on.passing(lambda: back.last[0] == "lead" and back.leases)
    assert back.epoch > 1 and back.role.broker_id == 1


@pytest.mark.parametrize("replica_state", [{"newest": 1}, {}])
@in_loop
async def test_a_restarted_master_that_lost_its_epoch_is_elected_anew(
    clock: DrivenClock, tmp_path: Path, replica_state: dict[str, int]
) -> None:
    """A master that lost its epoch in a power cut, or with its disk, must never lead that epoch
    again."""
    async with harness(clock, tmp_path) as on:
        one = on.start(1)
        await on.until(one, "lead", 1, [1])
        await on.die(one)
        back = on.start(1, **replica_state)
        await on.passing(lambda: back.leases)
        assert ("lead", 1, [1]) not in back.done and back.last[0] == "lead"


@in_loop
async def test_a_resignation_that_was_not_taken_is_said_again(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A restarted master repeats its resignation until it is taken, and does not lead before: the
    current epoch is that of an earlier process, whose log was perhaps longer."""
    state = {"epoch": 3, "taken": 0}

    def look(request: Command) -> object:
        if request.fields.get("rmqResign") and state["taken"]:
            state["epoch"] = 4
        lease = {"rmqLeaseMillis": 5000} if "rmqResign" not in request.fields else {}
        known = {"masterBrokerId": 1, "masterAddress": "127.0.0.1:20001",
                 "masterEpoch": state["epoch"], **lease}  # fmt: skip
        return known, json.dumps({"syncStateSet": [1], "syncStateSetEpoch": 5}).encode()

    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "brokerIdentity").write_text("c#broker-a#1")
    nobody = ({}, b'{"syncStateSet":[1],"syncStateSetEpoch":5}')
    async with scripted(c1005=LEADS, c1003=nobody, c1002=look, c1004=look, c904={}) as server:
        on = Harness(tmp_path, clock, server.address)
        one = on.start(1, epoch=3, end=10)
        await on.passing(lambda: "not taken the resignation" in one.role.problem)
        await pass_seconds(clock, 3.0)
        assert one.done == [] and not one.leases
        state["taken"] = 1
        await on.until(one, "lead", 4, [1])
        await on.passing(lambda: one.leases and one.role.problem == "")
        await one.role.stop()


SHORT = [{}, {"epoch": 1, "end": 5, "newest": 2}]  # after a new disk, and after a power cut


@asynccontextmanager
async def all_stopped(clock: DrivenClock, folder: Path) -> AsyncIterator[Harness]:
    """1 was master, 2 was in sync with it; then both and the controller ended at once."""
    port = free_port()
    on = Harness(folder, clock, f"127.0.0.1:{port}")
    async with controller(folder, listenPort=port):
        clock.advance(5.3)
        one, two = await on.two_in_sync()
    for each in (one, two):
        await on.die(each)
    async with controller(folder, listenPort=port):
        clock.advance(5.3)
        try:
            yield on
        finally:
            await asyncio.gather(*(each.role.stop() for each in on.running))


@pytest.mark.parametrize("replica_state", SHORT)
@pytest.mark.parametrize("number", [1, 2])
@in_loop
async def test_who_lost_what_it_acknowledged_waits_for_the_others(
    clock: DrivenClock, tmp_path: Path, number: int, replica_state: dict[str, int]
) -> None:
    async with all_stopped(clock, tmp_path) as on:
        short = on.start(number, **replica_state)
        short.can_copy = False
        await on.passing(lambda: short.last[:1] == ("wait",))
        await pass_seconds(clock, 12.0)  # longer than leases, sweeps and heartbeats take
        assert {each[0] for each in short.done} <= {"wait", "follow"} and not short.leases
        why = "empty" if not replica_state else "the end of its log"
        assert why in short.role.refusal and f"Start [{3 - number}]" in short.role.refusal
        other = on.start(3 - number, epoch=1, end=10)
        await on.passing(lambda: other.last[:1] == ("lead",) and other.leases)
        await on.passing(lambda: short.last[:2] == ("follow", 3 - number))
        assert short.role.refusal == "" and short.leases == []


@in_loop
async def test_at_rocketmqs_controller_one_that_lost_its_end_waits_for_a_while(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """RocketMQ's controller cannot be told that a replica lost the end of its log. After a power
    cut all may have lost it, so such a replica holds back only for a while; otherwise none would
    lead."""
    async with all_stopped(clock, tmp_path) as on:
        two = on.start(2, epoch=1, end=5)
        await on.passing(lambda: two.role.known)
        info = ReplicaInfo(1, "", 1, SyncState(frozenset({1, 2}), 2))
        two.has_lost_end, two.role._grants_leases = True, False
        for passed_s in (0.0, LOST_END_WAIT_S - 1):
            clock.advance(passed_s)
            with pytest.raises(ControllerError, match="has lost the end of its log"):
                await two.role._look_back(info, 2)
        clock.advance(2.0)
        await two.role._look_back(info, 2)
        two.end = 0  # its commit log was removed, but not its epoch file
        with pytest.raises(ControllerError, match="has lost the end of its log"):
            await two.role._look_back(info, 2)


@in_loop
async def test_an_operator_says_that_the_others_do_not_come_back(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with all_stopped(clock, tmp_path) as on:
        two = on.start(2)
        two.can_copy = False
        await on.passing(lambda: two.role.refusal)
        names = {"clusterName": "c", "brokerName": "broker-a"}
        asked = {**names, "brokerControllerIdsToClean": "1"}
        await two.role.link._ask(RequestCode.CLEAN_BROKER_DATA, asked)
        await on.passing(lambda: two.leases)
        assert two.last[0] == "lead"


@in_loop
async def test_a_controller_that_is_away_fences_the_master(
    clock: DrivenClock, tmp_path: Path
) -> None:
    port = free_port()
    on = Harness(tmp_path, clock, f"127.0.0.1:{port}")
    async with AsyncExitStack() as first:
        await first.enter_async_context(controller(tmp_path, listenPort=port))
        clock.advance(5.3)
        one = on.start(1)
        await on.until(one, "lead", 1, [1])
        await on.passing(lambda: one.leases)
    await on.until(one, "fenced")
    assert 0 < one.lease_left_ms() <= 500, "before its end"
    granted, problem = len(one.leases), one.role.problem
    assert "controller" in problem
    async with controller(tmp_path, listenPort=port):
        # The connection was closed: the controller that comes back elects anew, or goes on.
        await on.passing(lambda: len(one.leases) > granted and one.role.problem == "")
        assert one.lease_left_ms() > 0
        await one.role.stop()


@on_harness
async def test_a_notice_is_a_hint_and_a_lost_one_no_harm(on: Harness) -> None:
    one = on.start(1)
    await on.until(one, "lead", 1, [1])
    two = on.start(2)  # nobody listens at the address of 2: each notice to it is lost
    await on.until(two, "follow", 1, one.address, 1)
    two.role.notified(ReplicaInfo(2, two.address, 99, SyncState(frozenset((2,)), 99)))
    await seen(lambda: not two.role._soon.is_set())
    assert two.done == [("follow", 1, one.address, 1)]
    await on.in_sync(one, 1, 2)
    await on.die(one)
    two.role.notified(ReplicaInfo(2, two.address, 2))
    await on.until(two, "lead", 2, [2])


@in_loop
async def test_a_failing_action_is_tried_again_and_said_once(
    clock: DrivenClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(clock, tmp_path) as on:
        one = Broker(tmp_path / "1", on.controllers, 20001)
        one.fails.add("lead")
        one.role.start()
        on.running.append(one)
        await on.passing(lambda: one.role.known is not None)
        for _ in range(3):
            await pass_seconds(clock, 1.0)
        assert one.done == [] and not one.leases
        said = [each for each in caplog.records if "the disk is full" in each.getMessage()]
        assert [each.levelno for each in said] == [logging.ERROR]
        one.fails.clear()
        await on.passing(lambda: one.leases)
        assert one.done == [("lead", 1, [1])]


async def pass_seconds(clock: DrivenClock, seconds: float) -> None:
    """Advances the clock in small steps; in each step the event loop runs several times."""
    for _ in range(round(seconds / 0.05)):
        clock.advance(0.05)
        for _ in range(20):
            await asyncio.sleep(0)


@on_harness
async def test_actions_come_one_after_the_other(on: Harness) -> None:
    """While one action runs, only the newest of the later decisions is kept, and the lease is
    renewed all the same."""
    one = on.start(1)
    one.gate.clear()
    await on.passing(lambda: one.running)
    two = on.start(2)
    await on.passing(lambda: two.done)
    for members, epoch in (((1, 2), 1), ((1,), 2)):
        assert one.role.known is not None
        info = await one.role.link.alter_sync_state(1, 1, frozenset(members), epoch)
        one.role.altered(info)
    await pass_seconds(on.clock, 6.0)
    assert one.done == [] and one.running == 1
    one.gate.set()
    await on.passing(lambda: one.leases)
    assert one.lease_left_ms() > 3000
    await on.passing(lambda: one.done[0] == ("lead", 1, [1]))
    assert ("fenced",) not in one.done


@on_harness
async def test_a_replica_that_was_cleaned_comes_again(on: Harness) -> None:
    one = on.start(1)
    await on.until(one, "lead", 1, [1])
    two = on.start(2)
    await on.until(two, "follow", 1, one.address, 1)
    await on.die(two)
    link = one.role.link
    cleaned = {"brokerControllerIdsToClean": "2", "isCleanLivingBroker": True}
    names = {"clusterName": "c", "brokerName": "broker-a"}
    await link._ask(RequestCode.CLEAN_BROKER_DATA, {**names, **cleaned})
    back = on.start(2, epoch=1)
    await on.until(back, "follow", 1, one.address, 1)
    assert back.role.broker_id == 2


@in_loop
async def test_a_controller_without_its_state_is_not_believed(
    clock: DrivenClock, tmp_path: Path
) -> None:
    port = free_port()
    on = Harness(tmp_path, clock, f"127.0.0.1:{port}")
    async with AsyncExitStack() as first:
        await first.enter_async_context(controller(tmp_path, listenPort=port))
        clock.advance(5.3)
        one, two = await on.two_in_sync()
        await on.die(one)
        await on.until(two, "lead", 2, [2])
    await on.until(two, "fenced")
    async with controller(tmp_path / "empty", listenPort=port):
        await on.passing(lambda: "has lost its state" in two.role.problem)
        await pass_seconds(clock, 3.0)
        assert two.last == ("fenced",)
        await two.role.stop()


@in_loop
async def test_at_a_controller_of_rocketmq_there_are_no_leases(
    clock: DrivenClock, tmp_path: Path
) -> None:
    known = {"masterBrokerId": 1, "masterAddress": "127.0.0.1:20001", "masterEpoch": 3}
    body = b'{"syncStateSet":[1],"syncStateSetEpoch":5}'
    async with scripted(
        c1005=LEADS, c1012={"nextBrokerId": 1}, c1003=({}, body), c1002=(known, body),
        c1004=(known, body),
    ) as server:  # fmt: skip
        on = Harness(tmp_path, clock, server.address)
        one = on.start(1)
        await on.until(one, "lead", 3, [1])
        looks = [each.code for each in server.asked].count(1004)
        await pass_seconds(clock, 4.5)
        assert [each.code for each in server.asked].count(1004) == looks
        await on.passing(lambda: [each.code for each in server.asked].count(1004) > looks)
        await pass_seconds(clock, 30.0)
        assert one.done == [("lead", 3, [1])] and not one.leases
        assert one.role.changes is not None and not one.role.changes.is_leased
        await one.role.stop()


class OfRocketMQ:
    """The answers of a RocketMQ controller that knows a master of an earlier process."""

    def __init__(self, broker_id: int, members: list[int]) -> None:
        self.master: int | None = broker_id
        self.epoch, self.set_epoch, self.members = 3, 5, members
        self.is_alive = False  # whether it takes 1 for alive; 2 is not
        self.replaced = 0

    def info(self, _: object = None) -> tuple[dict[str, object], bytes]:
        fields: dict[str, object] = {"masterEpoch": self.epoch}
        if self.master is not None:
            fields |= {"masterBrokerId": self.master, "masterAddress": "127.0.0.1:20001"}
        body = {"syncStateSet": self.members, "syncStateSetEpoch": self.set_epoch}
        return fields, json.dumps(body).encode()

    def elect(self, request: Command) -> object:
        asker = int(request.fields["brokerId"])
        if self.master == 1 and self.is_alive:
            return self.info()
        if self.is_alive and 1 in self.members:
            self.master, self.members = 1, [1]
            self.epoch, self.set_epoch = self.epoch + 1, self.set_epoch + 1
            return self.info()
        if asker == -1:
            self.master, self.epoch, self.replaced = None, self.epoch + 1, self.replaced + 1
            return int(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE)
        return int(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED)

    def beat(self, request: Command) -> dict[str, object]:
        self.is_alive = True
        return {}

    def answers(self) -> dict[str, object]:
        nobody = self.info()[1]
        return {"c1005": LEADS, "c1003": ({}, nobody), "c1002": self.elect, "c1004": self.info,
                "c904": self.beat}  # fmt: skip


@asynccontextmanager
async def at_rocketmq(
    clock: DrivenClock, folder: Path, known: OfRocketMQ, **replica_state: int
) -> AsyncIterator[tuple[Harness, Broker]]:
    (folder / "1").mkdir()
    (folder / "1" / "brokerIdentity").write_text("c#broker-a#1")
    async with scripted(**known.answers()) as server:
        on = Harness(folder, clock, server.address)
        one = on.start(1, **replica_state)
        try:
            yield on, one
        finally:
            await one.role.stop()


@in_loop
async def test_a_restarted_master_has_itself_replaced_at_a_controller_of_rocketmq(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A restarted master must not lead its old epoch at RocketMQ's controller. 2 is in the set, and
    the last records may be only on 1: nobody may see them before 1 is elected anew."""
    known = OfRocketMQ(1, [1, 2])
    async with at_rocketmq(clock, tmp_path, known, epoch=3, end=10) as (on, one):
        await on.passing(lambda: one.done)
        assert one.done == [("lead", 5, [1])] and known.replaced == 1


@in_loop
async def test_a_mastership_that_rocketmq_takes_for_living_is_waited_for(
    clock: DrivenClock, tmp_path: Path
) -> None:
    known = OfRocketMQ(1, [1, 2])
    known.is_alive = True  # the earlier process's connection is not closed yet
    async with at_rocketmq(clock, tmp_path, known, epoch=3, end=10) as (on, one):
        await on.passing(lambda: "earlier process" in one.role.problem)
        await pass_seconds(clock, 5.0)
        assert one.done == []
        known.is_alive = False
        await on.until(one, "lead", 5, [1])


@pytest.mark.parametrize("replica_state", SHORT)
@pytest.mark.parametrize("master", [None, 1, 2])
@in_loop
async def test_at_rocketmq_who_lost_what_it_acknowledged_does_not_say_that_it_lives(
    clock: DrivenClock, tmp_path: Path, master: int | None, replica_state: dict[str, int]
) -> None:
    known = OfRocketMQ(1, [1, 2])
    known.master = master
    async with at_rocketmq(clock, tmp_path, known, **replica_state) as (on, one):
        await on.passing(lambda: "in sync with it" in one.role.problem)
        await pass_seconds(clock, 5.0)
        assert one.done == [] and not known.is_alive
        known.members = [1]  # 2 was removed from the set
        await on.passing(lambda: one.last[:1] == ("lead",))


@in_loop
async def test_the_store_of_another_broker_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity").write_text("c#broker-b#1")
    with pytest.raises(ConfigError, match="broker-b"):
        Broker(tmp_path, "127.0.0.1:1", 20001).role.start()


@in_loop
async def test_the_next_controller_that_leads_goes_on(tmp_path: Path) -> None:
    """When the leading one of two controllers on etcd is gone, the master renews its lease at the
    other one and is not replaced. etcd has a clock of its own, so the clock is not driven here."""
    with etcd_server(tmp_path) as etcd:
        where = {"rmqEtcd": etcd.endpoint, "rmqLeaseMillis": 2000}
        async with (
            controller(tmp_path / "c1", **where, rmqControllerName="n1") as first,
            controller(tmp_path / "c2", **where, rmqControllerName="n2") as second,
        ):
            controllers = f"{first.address};{second.address}"
            one = Broker(tmp_path / "1", controllers, 20001)
            one.role.start()
            await seen(lambda: one.leases)
            two = Broker(tmp_path / "2", controllers, 20002)
            two.role.start()
            await seen(lambda: two.last == ("follow", 1, one.address, 1))
            await one.alter(1, 2)
            await (first if first.store.is_leader() else second).stop()
            granted = len(one.leases)
            await seen(lambda: len(one.leases) > granted + 2)
            assert one.done[:2] == [("lead", 1, [1]), ("in sync", [1, 2])]
            assert {each[0] for each in one.done[2:]} <= {"fenced"}
            assert two.done == [("follow", 1, one.address, 1)]
            await one.role.stop()
            await seen(lambda: two.last == ("lead", 2, [2]))
            await two.role.stop()


@in_loop
async def test_an_etcd_that_is_slow_has_nobody_elected_for_a_master_that_lives(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats, which wait for no answer of etcd, tell who is alive. With a slow etcd the lead
    must stay where it is, and the master must always have a lease. A master that is gone is
    replaced all the same."""
    renewed_in_s = etcd_store.LEASE_S
    monkeypatch.setattr(etcd_store, "LEASE_S", 60)  # etcd goes by the machine's clock
    with etcd_server(tmp_path) as etcd:
        async with (
            slow_answers(etcd.endpoint) as way,
            controller(tmp_path / "c1", rmqEtcd=way.endpoint, rmqControllerName="n1") as first,
            controller(tmp_path / "c2", rmqEtcd=way.endpoint, rmqControllerName="n2") as second,
        ):
            clock.advance(5.3)
            on = Harness(tmp_path, clock, f"{first.address};{second.address}")
            on.is_waiting = lambda: way.is_asking
            one, two = await on.two_in_sync()
            way.late_s = SLOW_S
            way.asked.clear()
            ends = clock.monotonic() + SLOW_FOR_S
            await on.passing(lambda: clock.monotonic() > ends)
            renewals = [times for body, times in way.asked.items() if body.startswith(b'{"ID"')]
            assert len(renewals) == 2 and max(map(longest_pause, renewals)) < renewed_in_s
            assert first.store.is_leader() and not second.store.is_leader()
            assert one.done == [("lead", 1, [1]), ("in sync", [1, 2])]
            assert two.done == [("follow", 1, one.address, 1)]
            await on.die(one)
            await on.until(two, "lead", 2, [2])
            await two.role.stop()


@in_loop
async def test_an_etcd_that_is_slow_fences_no_master_while_others_leave_and_join(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master's lease must wait neither for a change of the set, for which etcd is asked twice,
    nor for a registration."""
    monkeypatch.setattr(etcd_store, "LEASE_S", 60)  # etcd goes by the machine's clock
    with etcd_server(tmp_path) as etcd:
        async with (
            slow_answers(etcd.endpoint) as way,
            controller(tmp_path / "c1", rmqEtcd=way.endpoint) as server,
        ):
            clock.advance(5.3)
            on = Harness(tmp_path, clock, server.address)
            one, two = await on.two_in_sync()
            way.late_s = SLOW_S
            ends = clock.monotonic() + 3 * SLOW_FOR_S

            def is_asking() -> bool:
                assert clock.monotonic() < ends and ("fenced",) not in one.done
                return way.is_asking

            on.is_waiting = is_asking
            for _ in range(3):  # so that it happens at several moments of a lease
                await on.die(two)
                await on.in_sync(one, 1)
                two = on.start(len(one.done))
                await on.until(two, "follow", 1, one.address, 1)
                assert two.role.broker_id is not None
                await on.in_sync(one, 1, two.role.broker_id)
            assert [what for what, *_ in one.done] == ["lead"] + ["in sync"] * 7
            on.is_waiting = lambda: way.is_asking
            for each in on.running:
                await on.passing(asyncio.ensure_future(each.role.stop()).done)


def longest_pause(times: list[float]) -> float:
    return max(after - before for before, after in pairwise(times))


# ---- which answers of the controller count


def info(epoch: int, set_epoch: int, master_id: int | None = 2, **more: object) -> ReplicaInfo:
    sync_state = SyncState(frozenset((1, 2)), set_epoch)
    return ReplicaInfo(master_id, "10.0.0.2:10911", epoch, sync_state, **more)  # type: ignore


@in_loop
async def test_only_what_is_newer_counts(tmp_path: Path) -> None:
    changes = RoleChanges(Broker(tmp_path, "127.0.0.1:1", 20001), 1)
    assert changes.learn(info(5, 7)) and changes.known == info(5, 7)
    assert not changes.learn(info(4, 9)) and changes.known == info(5, 7)
    assert changes.learn(info(5, 6)) and changes.known == info(5, 7)
    assert changes.learn(info(5, 8)) and changes.known == info(5, 8)
    moved = ReplicaInfo(2, "10.0.0.9:10911", 5, info(5, 8).sync_state)
    assert changes.learn(moved) and changes.known == moved
    assert changes.learn(info(6, 1, None)) and changes.known == info(6, 1, None)


@in_loop
async def test_a_lease_of_an_older_set_counts_and_one_of_an_older_epoch_does_not(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path, "127.0.0.1:1", 20001)
    now = int(rmq_clock.boot() * 1000)
    changes = RoleChanges(broker, 1)
    changes.learn(info(5, 7, 1))
    changes.learn(info(4, 7, 1, lease_ms=60_000, asked_ms=now))
    changes.start()
    await seen(lambda: broker.done)
    assert not broker.leases
    changes.learn(info(5, 6, 1, lease_ms=5000, asked_ms=now))
    await seen(lambda: broker.leases == [now + 5000])
    # An answer that a later one has overtaken.
    changes.learn(info(5, 7, 1, lease_ms=5000, asked_ms=now - 100))
    changes.learn(info(5, 7, 1, lease_ms=0, asked_ms=now + 100))
    changes.learn(info(5, 7, 1, lease_ms=5000, asked_ms=now + 200))
    await seen(lambda: broker.leases == [now + 5000, now + 5200])
    assert await changes.stop()


@in_loop
async def test_changes_that_hang_are_stopped_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that hangs: an action that does not end is cancelled by a retirement, which is
    tried again, and finally by the broker's stop."""
    broker = Broker(tmp_path, "127.0.0.1:1", 20001)
    broker.gate.clear()
    changes = RoleChanges(broker, 1)
    changes.learn(info(5, 7))
    changes.start()
    await seen(lambda: broker.running)
    stopping = asyncio.create_task(changes.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait((stopping,))
    assert stopping.cancelled() and broker.running
    monkeypatch.setattr("rmq.broker.replication.role_changes.STOP_S", 0.01)
    for _ in range(2):
        assert not await changes.stop()
        assert not broker.running and broker.done == []
