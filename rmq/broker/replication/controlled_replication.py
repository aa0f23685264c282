"""Controlled replication: this broker's part when a controller says who is master.

    lead      the log begins a new epoch; the core takes sends while the lease runs, and answers
              them when all replicas in sync have them; slaves may connect
    follow    the core takes no sends; the log comes from the master, after what the master lacks
              was cut here
    neither   nobody is master, or it is not known who: messages that are confirmed can be read

controlled_role.py and role_changes.py decide what must be done and when; this module does it. As
with RocketMQ's brokers, the settings brokerRole and brokerId show the present role of this broker.

Example: broker-a has id 2. lead(5, {2}): epochFileCheckpoint gets 5-4096, the role is SYNC_MASTER
with id 0 at the name servers, and sends are refused until 1 or 3 is in sync as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NoReturn, Protocol

from rmq.base import clock
from rmq.broker.core_seam import StatCalls
from rmq.broker.replication import ha_status
from rmq.broker.replication.controlled_role import ControlledRole
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.controller_heartbeats import ControllerHeartbeats, ReplicaState
from rmq.broker.replication.controller_link import ControllerLink, ReplicaInfo
from rmq.broker.replication.epoch_file import EpochFile, epoch_path
from rmq.broker.replication.epochs import consistent_point
from rmq.broker.replication.exchange import Exchange
from rmq.broker.replication.ha_client import LEAD_OR_WIPE, WIPE, check_reach
from rmq.broker.replication.ha_handshake import handshake_as_master, handshake_as_slave
from rmq.broker.replication.ha_socket import HASocket
from rmq.broker.replication.identity import IdentityFiles, identity_path
from rmq.broker.replication.log_epochs import LogEpochs
from rmq.broker.replication.lost_end import LostEnd, doubted_end_path, lost_end_path
from rmq.broker.replication.master_search import SOON_TRIES, Master
from rmq.broker.replication.replication import CoreCalls, Replication, ReplicationContext
from rmq.broker.replication.role import acks_of_whole_set
from rmq.broker.replication.sync_state import SyncState
from rmq.broker.replication.sync_watch import Mastership, SyncWatch
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.errors import RmqError, StoreError
from rmq.observe.sample import Sample

log = logging.getLogger("rmq.broker.controlled_replication")

NO_LEASE = 2**63 - 1
POLL_S = 0.005  # while the core gets ready for its role
READY_S = 5.0  # a core that is not ready after this time has something wrong with it
SENDS_WAIT_S = 1.0  # for a new master's lease and slaves; shorter than clients' time-outs
TABLES_OF_A_MASTER = ("topics", "groups", "modes", "offsets", "orders")  # the next one needs them
OTHER_MASTER = b"another broker is master now; send to the master of this name"


class ControlledCalls(CoreCalls, StatCalls, Protocol):
    """What is used here of the core."""


class ControlledReplication(Replication):
    """Owned by the control thread."""

    _core: ControlledCalls

    def __init__(self, context: ReplicationContext, core: ControlledCalls) -> None:
        super().__init__(context, core)
        settings = context.settings
        self._watched = context.reactor_watch
        self._address = f"{settings.brokerIP1}:{core.port}"
        self._epochs = LogEpochs(EpochFile(epoch_path(settings)), core)
        addresses = ControllerAddresses(settings.controllerAddr)
        cluster, name = settings.brokerClusterName, settings.brokerName
        # A second link, for changes of the sync state set: no lease waits for their answers.
        self._watch_link = ControllerLink(addresses, cluster, name)
        self._role = ControlledRole(
            ControllerLink(addresses, cluster, name),
            ControllerHeartbeats(addresses, settings, self._address, self._replica_state),
            IdentityFiles(identity_path(settings), cluster, name),
            self._address,
            self._replica_state,
            self,
        )
        self._lost_end = LostEnd(lost_end_path(settings))
        self._doubted_end = LostEnd(doubted_end_path(settings))
        self._topics = context.topics
        self._delays = context.delays
        self._watch: SyncWatch | None = None  # only while this broker is master
        self._learners: set[int] = set()
        self._polling: set[int] = set()  # slaves that are RocketMQ's and poll for the tables
        self._copies = Copies(self.exchange, self._polling)
        self._acks = Acks(settings, self._role, self._count_acks)
        self._epoch = 0  # of the present role
        self._lease_end_ms = 0  # of clock.boot(); NO_LEASE: no lease is needed
        self._has_role = False
        self._has_followed = False
        self._is_ending = False  # another Broker is about to replace this one in the process
        self._master_address = ""
        # Begins a truncation, which ends this Broker.
        self.truncate: Callable[[int], None] = _cannot_truncate
        self._search.address = lambda: self._master_address
        self._stream.tail = str  # no checksum: epochs say more, and what the master lacks is cut
        self._port.handshake = self._handshake_as_master
        self.waiting_sends.changed = self._apply

    # ---- as the broker sees it

    @property
    def is_slave(self) -> bool:
        return self._watch is None

    @property
    def has_role(self) -> bool:
        return self._has_role

    async def start(self) -> None:
        self._core.set_auto_switch(1)
        self._set_ha(0)
        self._epochs.load(self._core.log_range()[:2])
        await self._open_port()
        self._role.start()

    async def stop(self) -> None:
        self._port.close()
        self.exchange.close()
        await self._role.stop()
        await self._leave()
        await self._end_watch()
        self._watch_link.close()

    def role_notified(self, info: ReplicaInfo) -> None:
        """Takes a notice of the controller (1008)."""
        self._role.notified(info)

    @property
    def waits_for_slaves(self) -> bool:
        return self._watch is not None

    @property
    def master_address(self) -> str:
        return self._master_address

    def may_promise(self) -> Callable[[], bool]:
        watch = self._watch
        return lambda: self._may_answer(watch)

    async def unable(self) -> ResponseCode | None:
        if self.waiting_sends.is_on:  # wait, as sends do, for the slaves of a new master
            await self.waiting_sends.add(lambda: None)
        return None if self._may_answer(self._watch) else ResponseCode.SLAVE_NOT_AVAILABLE

    async def copied(self, tables: Iterable[str]) -> ResponseCode | None:
        if missing := await self.unable():
            return missing
        watch = self._watch
        assert watch is not None
        if not self._acks.of_whole_set:
            return None

        others = watch.others - self._polling

        def needed() -> AbstractSet[int]:  # read anew, so that slaves that go are not waited for
            if self._watch is not watch or watch.is_short:
                return frozenset()
            return others & watch.others

        timeout_s = self._settings.slaveTimeout / 1000
        is_settled = await self.exchange.settled(tables, needed, timeout_s)
        if not self._may_answer(watch):
            return ResponseCode.SLAVE_NOT_AVAILABLE
        return None if is_settled else ResponseCode.FLUSH_SLAVE_TIMEOUT

    def settings_changed(self) -> None:
        """Applies settings anew: how many must be in sync, or must acknowledge, may have
        changed."""
        self._apply()
        self._look_at_sends()
        self._role.ask_soon()

    def _apply(self) -> None:
        if self._watch is not None:
            self._watch.apply()

    def epochs(self) -> dict[str, Any]:
        """The body of 1007."""
        entries = self._epochs.value.entries
        ends = [each.start for each in entries[1:]] + [NO_LEASE]
        return {
            "brokerId": self._role.broker_id or 0,
            "brokerName": self._settings.brokerName,
            "clusterName": self._settings.brokerClusterName,
            "epochList": [
                {"endOffset": end, "epoch": each.epoch, "startOffset": each.start}
                for each, end in zip(entries, ends, strict=True)
            ],
            "maxOffset": self._core.log_range()[1],
        }

    def status(self) -> dict[str, Any]:
        """The body of 907."""
        if self._watch is None:
            return super().status()
        return ha_status.leader_status(self._watch, self._settings, self._core)

    def observe(self, sample: Sample) -> None:
        sample.broker_id, sample.master_epoch = self._role.broker_id or 0, self._epoch
        sample.master_address = self._master_address
        if self._role.problem and sample.state == "running":
            sample.state = "no controller"
        if self._watch is None:
            super().observe(sample)
            if not self._has_role or not self._master_address or self._role.obstacle:
                said = self._role.problem or self._role.obstacle or self._role.refusal
                sample.replication_problem = said or "no master is known"
            return
        sample.replication_problem = self._role.problem
        ha_status.observe_members(sample, self._watch, self._settings, self._core)
        problems = (sample.replication_problem, self._watch.problem)
        sample.replication_problem = "; ".join(each for each in problems if each)

    # ---- roles: RoleActions

    async def lead(self, epoch: int, sync_state: SyncState) -> None:
        await self._leave()
        await self._end_watch()
        self._refuse_while_ending()
        broker_id, core = self._role.broker_id, self._core
        assert broker_id is not None and self._role.changes is not None
        self._set_lease(0)  # no sends are taken before everything is set
        # All that is appended, written or not, is of the epoch before: this broker may have led it.
        start = core.log_copies()[0]
        await self._epochs.begin(epoch, (core.log_range()[0], start))
        for end in (self._lost_end, self._doubted_end):
            end.forget()  # replicas that have more are away, or were left out on purpose
        if self._has_followed:
            core.restart_timers(0)  # timed messages go on where the last master was
            self._has_followed = False
        watch = SyncWatch(
            Mastership(broker_id, epoch, start), sync_state, self._settings, core, self._watch_link,
            self._role.altered, self._learners.__contains__, self._says_losses, self._copies,
            self._acks, self.waiting_sends, self._answers_changed,
        )  # fmt: skip
        self.waiting_sends.begin(SENDS_WAIT_S)
        watch.apply()
        move_offsets = self.take_pops_over()
        if not await self._ready(core.promote):
            raise StoreError("this broker does not lead yet: its queues lack a part of its log")
        await self._delays.bound()
        # This comes before slaves copy the table of topics; pops of these topics then count, too.
        if await self._topics.make_for_queues():
            move_offsets = self.take_pops_over()
        move_offsets()
        self._offsets.copied = None
        watch.apply()  # once more, as only a core that leads can be told what consumers see
        self.exchange.begin()
        self._watch = watch
        self._tasks = [asyncio.get_running_loop().create_task(watch.run())]
        self._show("SYNC_MASTER", 0, epoch, self._address)
        self._role.beat()
        if not self._role.changes.is_leased:
            await self.lease(NO_LEASE)
        log.info("master of epoch %d, from %d on; in sync: %s", epoch, start,
                 sorted(sync_state.members))  # fmt: skip

    async def follow(self, master_id: int, master_address: str, epoch: int) -> None:
        await self._step_down()
        self._refuse_while_ending()
        self._core.set_unconfirmed()
        self._has_followed = True
        broker_id = self._role.broker_id
        assert broker_id is not None
        self._show("SLAVE", broker_id, epoch, master_address)
        self._stream.tries_soon = self._copy.tries_soon = SOON_TRIES
        self._follow_master()
        log.info("slave of %s, master %d of epoch %d", master_address, master_id, epoch)

    async def wait_without_master(self, epoch: int) -> None:
        await self._step_down()
        self._show("SLAVE", self._role.broker_id or 0, epoch, "")
        log.warning("no broker of this name can be master now (epoch %d)", epoch)

    async def sync_state_changed(self, sync_state: SyncState) -> None:
        if self._watch is not None:
            self._watch.take(sync_state)
            self._answers_changed()

    def _answers_changed(self) -> None:
        self._look_at_sends()
        self.exchange.wake()  # changes of tables may have waited for a slave that is gone

    def _says_losses(self, slave: int) -> bool:
        """Whether this slave says when it has lost something of its log, to a controller that does
        not elect it then."""
        changes = self._role.changes
        return changes is not None and changes.is_leased and slave not in self._polling

    async def lease(self, until_ms: int) -> None:
        self._set_lease(until_ms)
        if self._watch is not None:
            self._watch.acks_changed()
        self._look_at_sends()

    def _look_at_sends(self) -> None:
        """Lets waiting sends go on when this new master can promise what they ask for."""
        if self._may_answer(self._watch):
            self.waiting_sends.end()

    def _set_lease(self, until_ms: int) -> None:
        self._lease_end_ms = until_ms
        self._core.set_lease(until_ms)

    def _may_answer(self, watch: SyncWatch | None) -> bool:
        """Whether the master of this watch may answer: it still leads, nobody else can be master,
        and enough replicas are in sync."""
        if watch is None or watch is not self._watch or watch.is_short:
            return False
        return clock.boot() * 1000 < self._lease_end_ms

    async def fenced(self) -> None:
        self._set_lease(0)

    async def retired(self, epoch: int) -> None:
        self._set_lease(0)
        await self._end_watch()
        await self._leave()
        self._show("SLAVE", self._role.broker_id or 0, epoch, "")

    def _show(self, role: str, broker_id: int, epoch: int, master_address: str) -> None:
        """Shows the role to clients, name servers and operators."""
        self._settings.set("brokerRole", role)
        self._settings.set("brokerId", str(broker_id))
        self._epoch, self._master_address = epoch, master_address
        self._has_role = True
        self.role_changed(epoch)

    async def _step_down(self) -> None:
        """Makes the core a slave, after it has answered every request that it will answer."""
        await self._end_watch()
        await self._leave()  # else the log would keep growing by what its last master sends
        core = self._core
        if not await self._ready(core.demote, lambda: core.refuse_answers(OTHER_MASTER)):
            self._set_lease(0)  # a core that cannot write does not step down: it must be fenced
            raise StoreError("this broker cannot step down: its disk does not take what is to be "
                             "written before. It takes no sends; make room on the disk, or restart "
                             "it")  # fmt: skip
        self._set_ha(0)
        self._set_lease(NO_LEASE)

    async def _ready(
        self, ask: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Asks the core until it says yes; False: it did not within READY_S."""
        until = clock.monotonic() + READY_S
        while not ask():
            meanwhile()
            if clock.monotonic() > until:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def _end_watch(self) -> None:
        if self._watch is not None:
            await self._end_tasks()
            self._watch = None
            self.exchange.wake()  # so that requests that wait for slaves see: this is no master
        self.waiting_sends.end()

    async def _leave(self) -> None:
        """Ends the stream of the log and the copying of tables."""
        if self._watch is None:
            await self._end_tasks()

    def _count_acks(self) -> None:
        self._set_ha(max(self._settings.inSyncReplicas - 1, 0))

    def _replica_state(self) -> ReplicaState:
        stats, (start, end, _) = self._core.stats(), self._core.log_range()
        return ReplicaState(
            epoch=self._epochs.value.within(self._core.log_copies()[0]).last_epoch,
            max_offset=end,
            confirm_offset=min(stats.get("log_dispatched", 0), end),
            is_covered=acks_of_whole_set(self._settings),
            newest_epoch=self._epochs.newest,
            has_lost_end=self._lost_end.has_lost(end),
            is_doubted=self._doubted_end.has_lost(end),
            log_start=start,
            is_poisoned=bool(stats.get("poisoned")),
            standing_s=self._watched.standing_s if self._watched.is_out else 0,
        )

    # ---- handshakes

    async def _handshake_as_master(self, sock: HASocket) -> int:
        """The handshake as master; returns the broker id of the slave."""
        if self._watch is None:
            raise RmqError("this broker is no master")
        handshake = await handshake_as_master(sock, self._core.log_range()[1], self._epochs.value)
        if handshake.broker_id == self._role.broker_id:
            raise RmqError(f"it says that it is broker {handshake.broker_id}, which this one is")
        for ids, belongs in (
            (self._learners, handshake.is_learner), (self._polling, not handshake.is_rmq)
        ):  # fmt: skip
            (ids.add if belongs else ids.discard)(handshake.broker_id)
        return handshake.broker_id

    async def _handshake_as_slave(self, sock: HASocket, master: Master) -> None:
        """The handshake as slave; returns when the master's log can go on where this one ends."""
        settings, broker_id = self._settings, self._role.broker_id
        assert broker_id is not None
        theirs = await handshake_as_slave(sock, broker_id, settings.asyncLearner,
                                    settings.syncFromLastFile)  # fmt: skip
        if master.is_rmq and theirs.last_epoch < self._epoch:
            raise RmqError(
                f"{master.address} leads epoch {theirs.last_epoch}, and is to lead {self._epoch}"
            )
        replica_state = self._replica_state()
        start, end = replica_state.log_start, replica_state.max_offset
        if replica_state.has_lost:  # the epoch file no longer shows it after it has learned epochs
            self._lost_end.note(f"the log of this broker ends at {end} and once had more")
        elif (replica_state.is_empty or start == end > 0) and theirs.log_end > end:
            # A replica whose store was wiped stays in the sync state set when its first bytes come.
            why = f"the log of this broker is empty, its master's ends at {theirs.log_end}"
            self._lost_end.note(why, logging.INFO)
        elif replica_state.is_doubted and theirs.log_end > end:
            why = f"the log of this broker ends at {end}, its master's at {theirs.log_end}"
            self._lost_end.note(f"the machine was started again, and {why}", logging.WARNING)
        if start == end and start != master.log_start:
            await self._begin_elsewhere(start, master)
        point = consistent_point(self._epochs.value, (start, end), theirs.epochs, theirs.log_end)
        if point is None:
            self._refuse_to_follow(end, theirs.log_end, master.address)
        if point < end:
            await self._truncate(point, end, master.address)
        check_reach((start, end), master)
        self._lost_end.follows(theirs.log_end)
        self._doubted_end.follows(theirs.log_end)
        await self._epochs.learn(theirs.epochs, (start, end))
        self._role.beat()

    def _refuse_to_follow(self, end: int, master_end: int, master: str) -> NoReturn:
        """Raises the reason: nothing says what the two logs have in common."""
        if self._epochs.value.within(end).entries:
            raise StoreError(
                f"nothing says that the log of this broker, which ends at {end}, has anything in "
                f"common with that of its master {master}; {WIPE}"
            )
        raise StoreError(
            f"the log of this broker, which ends at {end}, was written without a controller, or "
            "its epochFileCheckpoint is gone: nothing says that it has anything in common with "
            f"that of its master {master}, which ends at {master_end}; {LEAD_OR_WIPE}"
        )

    async def _truncate(self, point: int, end: int, master: str) -> None:
        """Cuts the log; another Broker then replaces this one, so this does not return."""
        try:
            self._core.check_truncation(point)
        except StoreError as error:
            log.error("%s; the elected master %s lacks it, and what is above %d is lost: with "
                      "enableElectUncleanMaster, without allAckInSyncStateSet, or after a power "
                      "cut without SYNC_FLUSH that may be",
                      error, master, point)  # fmt: skip
            self._core.set_replicated(min(point, self._core.log_range()[1]))
            self._core.set_visible(point)
            self._core.check_truncation(point)
        log.warning("the log is cut at %d, it ends at %d: what is above, the master %s has not",
                    point, end, master)  # fmt: skip
        # The epochs are trimmed after the truncation (rmq/node/truncation.py). If they were trimmed
        # before, a crash could leave bytes of an epoch that the file does not know.
        self.truncate(point)
        await self._end()

    async def _forget_log(self, start: int) -> None:
        why = f"the log of this broker is empty, its master's begins at {start}"
        self._lost_end.note(why, logging.INFO)
        await self._epochs.forget()  # else epochs below the new start would count for this log

    async def _end(self) -> None:
        self._is_ending = True
        await super()._end()

    def _refuse_while_ending(self) -> None:
        """StoreError while this Broker is ending: the end of its log is settled, so it must take no
        more bytes."""
        if self._is_ending:
            raise StoreError("the log is about to be cut, or to begin elsewhere: this broker has "
                             "its role when that is done")  # fmt: skip


class Acks:
    """Whose acks an answer needs (sync_watch.AckRule)."""

    def __init__(self, settings: Settings, role: ControlledRole, count: Callable[[], None]) -> None:
        self._settings, self._role = settings, role
        self.count = count

    @property
    def of_whole_set(self) -> bool:
        """Also where the setting has changed, until the controller knows of it: by a lease that it
        granted before, it would elect another master at once."""
        changes = self._role.changes
        is_covered = changes is not None and changes.is_leased and changes.is_covered
        return acks_of_whole_set(self._settings) or is_covered


class Copies:
    """What slaves have of the tables that the next master needs (sync_watch.TableCopies)."""

    def __init__(self, exchange: Exchange, polling: AbstractSet[int]) -> None:
        """polling: ids of RocketMQ's slaves, which do not say what they have."""
        self._exchange, self._polling = exchange, polling

    def counts(self) -> Mapping[str, int]:
        return self._exchange.counts(TABLES_OF_A_MASTER)

    def has(self, slave: int, least: Mapping[str, int]) -> bool:
        return slave in self._polling or self._exchange.has(slave, least)


def _cannot_truncate(point: int) -> None:
    raise StoreError(f"the log is to be cut at {point}, which this process cannot do")
