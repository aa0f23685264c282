"""How a broker carries out the role that a controller gave it when something is in the way.

Goal: if the core does not get ready for its role, everything else goes on, the problem is reported,
and the core is asked again. A replica does not lead with a log that is about to be cut. Sends wait
a moment for a new master that lacks slaves. The controller is a real one, the clock is driven, and
the core is an imitation that answers as it is told. With real cores: tests/ha.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.controllers import Replica, controller, seen
from support.driven_clock import DrivenClock
from support.fake_core import FakeClient, FakeCore, control
from support.name_server import in_loop
from support.stored_table import stored

from rmq.base.clock import boot
from rmq.broker.broker import Broker
from rmq.broker.replication.controlled_replication import (
    NO_LEASE,
    SENDS_WAIT_S,
    ControlledReplication,
)
from rmq.broker.replication.controller_link import ControllerError, ReplicaInfo
from rmq.broker.replication.epochs import Epochs
from rmq.broker.replication.ha_handshake import handshake_as_master
from rmq.broker.replication.ha_socket import HASocket
from rmq.broker.replication.master_search import Master
from rmq.broker.replication.sync_state import SyncState
from rmq.broker.tables.deleted_topics import deleted_topics
from rmq.broker.tables.topic_config import TopicConfig
from rmq.config import Settings
from rmq.demo.ports import free_port
from rmq.errors import StoreError
from rmq.format import fastjson
from rmq.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rmq.observe.sample import Sample
from rmq.system.threads import Thread

pytestmark = pytest.mark.still_clock


class Core(FakeCore):
    """`is_ready`: what the core answers when its role is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = True
        self.is_leader = False
        self.refused = 0
        self.popped: dict[tuple[bytes, bytes, int], int] = {}
        self.slaves: list[tuple[int, bytes, int, int, int, int]] = []
        # The groups that it had when it was last made leader.
        self.groups_to_lead: set[bytes] = set()
        self.unwritten = 0  # bytes that are appended, but not written

    def ha_connections(self) -> list[tuple[int, bytes, int, int, int, int]]:
        return self.slaves

    def log_copies(self) -> tuple[int, int, int]:
        end, copied, short = super().log_copies()
        return end + self.unwritten, copied, short

    def popped_since(self, start: int) -> dict[tuple[bytes, bytes, int], int]:
        return self.popped

    def promote(self) -> bool:
        self.groups_to_lead = set(self.groups)
        self.is_leader = self.is_leader or self.is_ready
        return self.is_ready

    def demote(self) -> bool:
        self.is_leader = self.is_leader and not self.is_ready
        return self.is_ready

    def refuse_answers(self, reason: bytes) -> None:
        self.refused += 1

    def restart_timers(self, is_damaged: int = 1) -> None:
        assert not is_damaged


SEND = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}


class Stage:
    """The broker, which is replica 1, and a connection that stands for replica 2."""

    def __init__(self, clock: DrivenClock, broker: Broker, core: Core, two: Replica) -> None:
        self.clock, self.core, self.two = clock, core, two
        assert isinstance(broker.replication, ControlledReplication)
        self.broker, self.replication = broker, broker.replication

    @property
    def settings(self) -> Settings:
        return self.broker.settings

    @property
    def problem(self) -> str:
        sample = Sample()
        self.replication.observe(sample)
        return sample.replication_problem

    async def passing(self, condition: object) -> None:
        """Lets time pass until the condition holds. Time stands still while a file is written: on a
        busy disk that may take as long as the broker waits for a controller."""

        async def look() -> object:
            # Runs after everything that the one thread still has to do.
            await asyncio.to_thread(int)
            self.clock.advance(0.02)
            return condition()  # type: ignore[operator]

        await seen(look)

    async def lead_again(self) -> FakeClient:
        """Makes this broker leader of a new epoch, alone in its set although two are needed.
        Returns a client of it."""
        await self.broker.topics.create(TopicConfig("t", 1, 1))
        await self.elect(2)
        await self.passing(lambda: not self.core.is_leader)
        assert (await self.two.alter([1, 2], 3, 2)).code == 0
        await self.elect(1)
        await self.passing(lambda: self.core.is_leader and self.core.lease_end_ms > 0)
        assert self.core.sync_state[1], "too few are in sync"
        return self.core.client()

    async def waiting(self, client: FakeClient, count: int) -> list[int]:
        """Puts so many sends, which control looks at and keeps waiting. Returns their opaques."""
        sent = [client.put(310, b"x", **SEND) for _ in range(count)]
        await client.call(999)  # is answered after control has looked at the sends
        assert client.given_back() == []
        return sent

    async def given_back(self, client: FakeClient, sent: list[int]) -> None:
        """Waits until all of them went back to the core, and checks their order."""
        await self.core.until(lambda: len(client.given_back()) == len(sent))
        assert [each.opaque for each in client.given_back()] == sent

    async def elect(self, broker_id: int) -> None:
        """Elects a replica as an operator does. Replica 2 is alive and in the set."""
        await self.two.beat()
        reply = await self.two.elect(brokerId=broker_id, designateElect=True)
        assert reply.code in (0, 2011), reply.remark


@asynccontextmanager
async def stage(clock: DrivenClock, folder: Path) -> AsyncIterator[Stage]:
    port, core = free_port(), Core()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with controller(folder, listenPort=port), Replica(port, 2) as two:
        clock.advance(5.3)
        settings = {
            "brokerClusterName": "c", "brokerName": "broker-a", "enableControllerMode": True,
            "controllerAddr": f"127.0.0.1:{port}", "haListenPort": free_port(),
            "rmqReplicaAddresses": "10.0.0.9",
        }  # fmt: skip
        async with control(folder / "1", core, **settings) as broker:
            on = Stage(clock, broker, core, two)
            await on.passing(lambda: core.is_leader and on.replication.has_role)
            await two.join()
            assert (await two.alter([1, 2], 1, 1, masterBrokerId=1)).code == 0
            yield on
            core.is_ready = True


@in_loop
async def test_a_core_that_cannot_step_down_holds_nothing_up(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """If the core cannot step down (as when the full disk has no room for the record of ended
    transactions), the broker takes no writes, says why, and follows as soon as the core can."""
    async with stage(clock, tmp_path) as on:
        on.core.is_ready = False
        await on.elect(2)
        await on.passing(lambda: "cannot step down" in on.problem)
        assert "make room on the disk" in on.problem and on.core.refused > 0
        assert on.core.lease_end_ms == 0, "it is a leader still, and takes nothing"
        on.core.is_ready = True
        await on.passing(lambda: on.core.lease_end_ms == NO_LEASE)
        assert not on.core.is_leader
        assert on.replication.master_address == on.two.address
        await on.passing(lambda: "step down" not in on.problem)


@pytest.mark.parametrize(
    ("end", "code"),
    [("lease", 11), ("role", 11), ("too few", 11), ("late", 12), ("copied", 0)],
)
@in_loop
async def test_what_control_stored_is_promised_while_this_master_leads_and_slaves_have_it(
    clock: DrivenClock, tmp_path: Path, end: str, code: int
) -> None:
    """A stored reply (324) is confirmed only while this broker leads and its slaves have the reply:
    the next master would cut off what its slaves did not have."""
    async with stage(clock, tmp_path) as on:
        core, client, asker = on.core, on.core.client(), on.core.client()
        joins = {"clientID": "asker@1", "producerDataSet": [{"groupName": "P"}]}
        assert (await asker.call(34, fastjson.dumps(joins))).code == 0
        core.copied, core.slaves = core.log_end, [(7, b"", 0, core.log_end, 0, 2)]
        await on.passing(lambda: core.sync_state == ([2], 0) and core.lease_end_ms)
        reply = {**SEND, "b": "c_REPLY_TOPIC", "e": 0, "j": 0, "k": "false",
                 "i": "CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01asker@1\x02"}  # fmt: skip
        opaque = client.put(325, b"answer", **reply)
        await core.until(lambda: asker.requests(326))
        asker.answer(asker.requests(326)[0])
        await core.until(lambda: core.records)
        await client.call(999)
        assert client.reply_to(opaque) is None, "it is with nobody else yet"
        if end == "lease":
            await on.replication.fenced()
            core.copied = core.log_end
        elif end == "role":
            await on.replication.retired(2)
            core.copied = core.log_end
        elif end == "too few":
            core.copies_short = 1
        elif end == "late":
            clock.advance(on.settings.slaveTimeout / 1000 + 0.1)
        else:
            core.copied = core.log_end
        await on.passing(lambda: client.reply_to(opaque) is not None)
        answer = client.reply_to(opaque)
        assert answer is not None and answer.code == code
        assert answer.fields["msgId"] != "0"


@in_loop
async def test_a_core_that_cannot_step_down_leads_when_it_is_elected_again(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        on.core.is_ready = False
        await on.elect(2)
        await on.passing(lambda: "cannot step down" in on.problem)
        assert (await on.two.alter([1, 2], 3, 2)).code == 0
        await on.elect(1)
        await on.passing(lambda: "does not lead yet" in on.problem)
        on.core.is_ready = True
        await on.passing(lambda: not on.replication.is_slave)
        assert on.core.is_leader


@in_loop
async def test_with_a_reactor_that_is_stuck_it_asks_for_no_lease_and_steps_down_after(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        watch = on.broker.reactor_watch
        watch.stop()  # the test takes the looks itself
        watch._state = lambda: Thread("D")  # a reactor that waits for a disk must not lead either
        on.core.stands = True
        while not watch.is_out:
            watch.look()
        role = on.replication._role
        await on.passing(lambda: "has taken no turn for 20 s" in role.problem)
        end_ms = on.core.lease_end_ms
        await on.passing(lambda: on.core.lease_end_ms == 0)  # fenced before the lease ended
        assert boot() * 1000 < end_ms
        on.core.stands = False
        watch.look()
        await on.passing(lambda: not on.core.is_leader)  # another replica was elected meanwhile


@in_loop
async def test_a_log_that_is_about_to_be_cut_is_not_led_with(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        await on.elect(2)
        await on.passing(lambda: not on.core.is_leader and on.replication.master_address)
        cuts: list[int] = []
        # Stands for the stop of the broker, which follows at once.
        on.replication.truncate = cuts.append
        cutting = asyncio.create_task(on.replication._truncate(100, 200, on.two.address))
        await asyncio.sleep(0)
        assert cuts == [100]
        assert (await on.two.alter([1, 2], 3, 2)).code == 0
        await on.elect(1)
        await on.passing(lambda: "about to be cut" in on.problem)
        assert not on.core.is_leader and on.core.epochs[-1][0] < 3
        cutting.cancel()


@in_loop
async def test_no_delay_level_of_a_new_master_is_beyond_its_log(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A new master must not keep a delay offset beyond its log: the former master's offsets were
    copied, but the part of the log that they speak of was not."""
    async with stage(clock, tmp_path) as on:
        await on.elect(2)
        await on.passing(lambda: not on.core.is_leader)
        for _ in range(3):
            on.core.store(SCHEDULE_TOPIC, 0)
            on.core.store(SCHEDULE_TOPIC, 1)
        on.broker.delays.copy({"1": 99, "2": 2, "3": 7})
        await on.broker.delays.save()
        assert (await on.two.alter([1, 2], 3, 2)).code == 0
        await on.elect(1)
        await on.passing(lambda: on.core.is_leader and on.core.lease_end_ms > 0)
        assert on.core.delivered_to[:3] == [3, 2, 0]
        content = fastjson.loads((tmp_path / "1" / "config" / "delayOffset.json").read_bytes())
        offsets = content["offsetTable"]
        assert [offsets[level] for level in ("1", "2", "3")] == [3, 2, 0], "as before a kill"


@in_loop
async def test_an_epoch_begins_behind_all_that_the_one_before_appended(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """An epoch must begin behind everything that was appended before, even if not yet written, and
    even if the same broker led before (RocketMQ's controller elects it anew)."""
    async with stage(clock, tmp_path) as on:
        on.core.unwritten = 100
        await on.replication.lead(6, SyncState(frozenset({1}), 9))
        assert on.core.epochs[-1] == (6, on.core.log_end + 100)
        replica_state = on.replication._replica_state()
        assert (replica_state.epoch, replica_state.has_lost) == (6, False), (
            "the log has it, to be written"
        )


@in_loop
async def test_a_slave_says_that_its_master_has_removed_what_it_lacks(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        on.core.store("t", 0)
        ends = f"log of this slave ends at {on.core.log_end}, and that of its master h:1"
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for each in (ours, theirs):
                each.setblocking(False)
            handshake = handshake_as_master(HASocket(theirs), 9000, Epochs.of([(1, 0)]))
            answering = asyncio.ensure_future(handshake)
            with pytest.raises(StoreError, match=f"{ends} begins at 4096"):
                await on.replication._handshake_as_slave(
                    HASocket(ours), Master("h:1", "h:2", 4096, True)
                )
            assert (await answering).broker_id == 1


@pytest.mark.parametrize("master_end", [9000, 0])
@in_loop
async def test_who_is_in_doubt_has_lost_what_its_master_has_and_it_has_not(
    clock: DrivenClock, tmp_path: Path, master_end: int
) -> None:
    """Until it has it. If the master has no more, nothing was lost."""
    async with stage(clock, tmp_path) as on:
        on.core.store("t", 0)
        on.replication._doubted_end.note("the machine was started again")
        state = on.replication._replica_state()
        assert (state.is_doubted, state.has_lost) == (True, False)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for each in (ours, theirs):
                each.setblocking(False)
            end = master_end or on.core.log_end
            handshake = handshake_as_master(HASocket(theirs), end, Epochs.of([(1, 0)]))
            answering = asyncio.ensure_future(handshake)
            await on.replication._handshake_as_slave(HASocket(ours), Master("h:1", "h:2", 0, True))
            await answering
        state = on.replication._replica_state()
        assert (state.is_doubted, state.has_lost) == (master_end > 0, master_end > 0)
        on.core.log_end = end
        state = on.replication._replica_state()
        assert (state.is_doubted, state.has_lost) == (False, False)


@in_loop
async def test_only_a_master_makes_topics_and_groups_by_itself(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        groups, topics = on.broker.groups, on.broker.topics
        await on.elect(2)
        await on.passing(lambda: on.settings.brokerRole == "SLAVE")
        assert groups.find_or_create("g") is None
        await topics.create(TopicConfig("t", 1, 1))
        assert "t" not in topics
        assert (await on.two.alter([1, 2], 3, 2)).code == 0
        await on.elect(1)
        await on.passing(lambda: on.core.is_leader)
        assert groups.find_or_create("g") is not None
        await topics.create(TopicConfig("t", 1, 1))
        assert "t" in topics


@in_loop
async def test_topics_of_stored_messages_are_there_before_a_slave_leads(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A topic that a send made at the lost master, and that was not copied before, must exist
    before this slave leads: the send's answer waited only for the slave's log. Deleted topics stay
    deleted: they left no queue, or one that ends below the place where the log was when the
    master's table was copied."""
    async with stage(clock, tmp_path) as on:
        topics = on.broker.topics
        await topics.create(TopicConfig("t", 2, 2))
        await topics.create(TopicConfig("gone", 2, 2))
        on.core.store("gone", 0)
        await topics.delete("gone")
        await on.elect(2)
        await on.passing(lambda: on.settings.brokerRole == "SLAVE")
        for name, queue_id in (("t", 0), ("new", 2), ("new", 0), ("rmq_sys_x", 0)):
            on.core.store(name, queue_id)
        on.core.queues[b"blank", 0] = []
        await topics.copy(topics.all(), 100)
        for name, end in (("old", 99), ("new", 100)):
            on.core.store(name, 0)
            on.core.lone_ends[name.encode()] = end
        shown: list[tuple[TopicConfig | None, bool]] = []
        on.replication.role_changed = lambda _: shown.append(
            (topics.get("new"), b"new" in on.core.topics)
        )
        assert (await on.two.alter([1, 2], 3, 2)).code == 0
        await on.elect(1)
        await on.passing(lambda: shown)
        assert shown == [(TopicConfig("new", 3, 3), True)]
        assert topics.require("t").read_queues == 2
        assert not {"gone", "blank", "rmq_sys_x", "old"} & set(topics.all())
        assert b"old" in deleted_topics(tmp_path / "1" / "config"), "for good"
        assert "new" in stored(tmp_path / "1")["topicConfigTable"]


@in_loop
async def test_groups_that_popped_are_there_before_a_slave_leads(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A group that its consumers made at the lost master, and that was not copied before, must
    exist before this slave leads. Otherwise the messages that it had popped would be dropped like
    those of a deleted group."""
    async with stage(clock, tmp_path) as on:
        await on.broker.topics.create(TopicConfig("t", 1, 1))
        await on.elect(2)
        await on.passing(lambda: on.settings.brokerRole == "SLAVE")
        assert on.broker.offsets.copied is not None
        on.core.store(TIMER_TOPIC, 0)  # the check point of a pop
        on.core.store("t", 0)
        on.core.popped = {(b"t", b"new", 0): 1}
        assert (await on.two.alter([1, 2], 3, 2)).code == 0
        await on.elect(1)
        await on.passing(lambda: on.core.is_leader)
        assert b"new" in on.core.groups_to_lead and "new" in on.broker.groups
        assert on.broker.offsets.query("new", "t", 0) == 1
        assert on.broker.offsets.copied is None


@pytest.mark.parametrize("kind", ["rmq", "an older rmq", "RocketMQ"])
@in_loop
async def test_a_slave_joins_when_it_has_the_tables_too(
    clock: DrivenClock, tmp_path: Path, kind: str
) -> None:
    """A slave joins only when it has the tables as well as the log, because the next master takes
    the tables from there. RocketMQ's slaves, which do not say what tables they have, join by their
    log alone. Slaves of an older rmq lack some of the tables that this one copies, and join without
    them."""
    is_rmq = kind != "RocketMQ"
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        if not is_rmq:
            on.replication._polling.add(2)
        on.core.slaves = [(7, b"", 0, on.core.log_end, 0, 2)]
        if is_rmq:
            await on.passing(lambda: "replicas [2] have the log" in on.problem)
            assert (await client.call(906, rmqSlave=2, rmqWaitMillis=0)).code == 0
            told = (await client.call(906, rmqSlave=2, rmqKnown="{}", rmqWaitMillis=0)).fields
            assert on.core.sync_state == ([], 1)
            await on.two.beat()
            versions = json.loads(told["rmqVersions"])
            if kind == "an older rmq":
                del versions["orders"]
            known = {"rmqKnown": json.dumps(versions)}
            assert (await client.call(906, rmqSlave=2, **known, rmqWaitMillis=0)).code == 0
        await on.passing(lambda: on.core.sync_state == ([2], 0))
        await on.passing(lambda: on.problem == "")


@in_loop
async def test_sends_wait_until_a_new_master_has_its_slave(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        assert on.core.sends_wait
        sent = await on.waiting(client, 5)
        on.core.sends_wait = -1
        await on.replication.sync_state_changed(SyncState(frozenset({1, 2}), 1000))
        assert on.core.sync_state == ([2], 0) and on.core.sends_wait == 0
        sent.append(client.put(310, b"x", **SEND))
        await on.given_back(client, sent)


@pytest.mark.parametrize("what", ["joins", "does not join", "another leads"])
@in_loop
async def test_a_change_of_tables_waits_as_sends_do(
    clock: DrivenClock, tmp_path: Path, what: str
) -> None:
    """A change of a table waits, as sends do, for the slave that must have it. It is refused when
    no slave joins, or when this broker is no master any more."""
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        # As one of RocketMQ's, 2 is not waited for once it is in sync.
        on.replication._polling.add(2)
        mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2}
        opaque = client.put(401, fastjson.dumps(mode))
        await client.call(999)
        await asyncio.to_thread(int)
        assert client.reply_to(opaque) is None
        if what == "joins":
            await on.replication.sync_state_changed(SyncState(frozenset({1, 2}), 1000))
        elif what == "does not join":
            clock.advance(SENDS_WAIT_S)
        else:
            await on.replication.wait_without_master(9)
        await on.core.until(lambda: client.reply_to(opaque) is not None)
        reply = client.reply_to(opaque)
        assert reply is not None and reply.code == (0 if what == "joins" else 11)


async def no_lease(until_ms: int) -> None:
    """Stands for a controller that never grants a lease."""


@pytest.mark.parametrize(
    ("lease_ms", "suspended_s", "code"), [(60_000, 0, 0), (60_000, 61, 11), (-1, 0, 11), (0, 0, 11)]
)
@pytest.mark.parametrize("of_whole_set", ["true", "false"])
@in_loop
async def test_who_was_stopped_beyond_its_lease_answers_no_change(
    clock: DrivenClock, tmp_path: Path, lease_ms: int, suspended_s: int, code: int,
    of_whole_set: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A master whose process stood still beyond its lease must not confirm a change: another one
    may lead by then, and does not know of the change. Lease 0: it gave its lease up."""
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        on.replication._polling.add(2)  # as one of RocketMQ's, 2 is not waited for
        on.settings.set("allAckInSyncStateSet", of_whole_set)
        await on.replication.sync_state_changed(SyncState(frozenset({1, 2}), 1000))
        if lease_ms:
            await on.replication.lease(round(boot() * 1000) + lease_ms)
        else:
            await on.replication.fenced()
        monkeypatch.setattr(on.replication, "lease", no_lease)
        clock.suspend(suspended_s)
        mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2}
        assert (await client.call(401, fastjson.dumps(mode))).code == code


@in_loop
async def test_acks_need_the_whole_set_until_the_controller_knows_that_they_do_not(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """allAckInSyncStateSet=false at run time: by the last lease another master would be elected at
    once, and both would acknowledge. Once more it is set while a question is on its way."""
    async with stage(clock, tmp_path) as on:
        on.core.slaves = [(7, b"", 0, on.core.log_end, 0, 2)]
        await on.passing(lambda: on.core.sync_state == ([2], 0) and on.core.lease_end_ms)
        link, asked, is_lost = on.replication._role.link, list[bool](), True
        ask = link.replica_info

        async def replica_info(broker_id: int, epoch: int, is_covered: bool) -> ReplicaInfo:
            asked.append(is_covered)
            info = await ask(broker_id, epoch, is_covered)
            if is_lost:
                raise ControllerError(None, "its answer is lost")
            return info

        def change(text: str) -> None:
            on.settings.set("allAckInSyncStateSet", text)
            asked.clear()
            on.broker.settings_changed(["allAckInSyncStateSet"])

        monkeypatch.setattr(link, "replica_info", replica_info)
        change("false")
        await on.passing(lambda: False in asked[:-1])
        assert on.core.sync_state == ([2], 0)
        is_lost = False
        await on.passing(lambda: on.core.sync_state == (None, 0))
        is_lost = True
        change("true")
        assert on.core.sync_state == ([2], 0), "at once"
        await on.passing(lambda: True in asked)
        change("false")
        await on.passing(lambda: False in asked[:-1])
        assert on.core.sync_state == ([2], 0), "the controller has heard of it"
        is_lost = False
        await on.passing(lambda: on.core.sync_state == (None, 0))


@pytest.mark.parametrize("reason", ["too few", "lease"])
@in_loop
async def test_no_topic_is_deleted_by_who_cannot_promise_it(
    clock: DrivenClock, tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that cannot promise the deletion must not delete a topic. It may be another one's
    slave by then: without these queues, messages that come later would lie behind a hole, and this
    broker could still be elected."""
    async with stage(clock, tmp_path) as on:
        core, client = on.core, await on.lead_again()
        core.store("t", 0)
        if reason == "lease":
            core.slaves = [(7, b"", 0, core.log_end, 0, 2)]
            on.replication._polling.add(2)
            await on.passing(lambda: core.sync_state == ([2], 0))
            await on.replication.fenced()
            monkeypatch.setattr(on.replication, "lease", no_lease)
        opaque = client.put(215, topic="t")
        await on.passing(lambda: client.reply_to(opaque) is not None)
        reply = client.reply_to(opaque)
        assert reply is not None and reply.code == 11
        assert (reply.remark or "").startswith("nothing is deleted")
        assert "t" in on.broker.topics and b"t" in core.topics
        assert on.broker.topics.deleted() == {}


@pytest.mark.parametrize(("left", "code"), [({1, 2}, 0), ({1}, 11)])
@in_loop
async def test_a_change_does_not_wait_for_one_who_left_the_set(
    clock: DrivenClock, tmp_path: Path, left: set[int], code: int
) -> None:
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        await on.replication.sync_state_changed(SyncState(frozenset({1, 2, 3}), 1000))
        mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2}
        opaque = client.put(401, fastjson.dumps(mode))
        await client.call(999)
        await asyncio.to_thread(int)  # then the change is in the journal
        told = (await client.call(906, rmqSlave=2, rmqKnown="{}", rmqWaitMillis=0)).fields
        known = {"rmqKnown": told["rmqVersions"]}
        await client.call(906, rmqSlave=2, **known, rmqWaitMillis=0)
        assert client.reply_to(opaque) is None
        await on.replication.sync_state_changed(SyncState(frozenset(left), 1001))
        await on.core.until(lambda: client.reply_to(opaque) is not None)
        reply = client.reply_to(opaque)
        assert reply is not None and reply.code == code


@in_loop
async def test_sends_wait_for_a_slave_for_a_moment_only(clock: DrivenClock, tmp_path: Path) -> None:
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        sent = await on.waiting(client, 5)
        clock.advance(SENDS_WAIT_S)
        await on.given_back(client, sent)  # the core will refuse them
        assert on.core.sync_state[1] and not on.core.sends_wait


@in_loop
async def test_sends_wait_no_longer_for_one_who_is_no_master_any_more(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        sent = await on.waiting(client, 1)
        await on.replication.wait_without_master(9)
        assert [each.opaque for each in client.given_back()] == sent


@in_loop
async def test_a_send_that_was_answered_while_it_waited_does_not_go_back(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send that was refused because too many waited must not go to the core as well."""
    monkeypatch.setattr("rmq.broker.dispatch.dispatcher.WAITING_MAX", 2)
    async with stage(clock, tmp_path) as on:
        client = await on.lead_again()
        sent = [client.put(310, b"x", **SEND) for _ in range(3)]
        await on.core.until(lambda: client.reply_to(sent[2]) is not None)
        clock.advance(SENDS_WAIT_S)
        await on.given_back(client, sent[:2])
