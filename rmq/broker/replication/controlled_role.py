"""Controlled role: how a broker becomes and stays master or slave, as the controller decides.

    get an id (1012, 1013) -> register (1003) -> heartbeats (904) -> elect a master, if none lives
    (1002); then each second ask who is master, and for a lease if this broker is (1004)

This is RocketMQ's ReplicasManager, with its codes. RocketMQ's controller grants no leases, and is
asked only every 5 seconds. After a notice (1008) the controller is asked at once: the notice itself
is only a hint, as anybody may send one. role_changes.py acts on the answers.

A broker that was started again may find itself master of an epoch that its epoch file knows, or
that the controller named before this process had sent a heartbeat. It resigns first: after a power
cut its log may lack what the others have, and if two logs have different records of one epoch,
nothing shows where they part. So it is elected anew, or another replica is.

RocketMQ's controller takes no resignation. There this broker asks for a successor before its first
heartbeat, while the controller takes it for dead. Nor does it send heartbeats while its log is
empty, or has lost an epoch, and other replicas were in sync with it: one of these has what was
acknowledged. (rmq's controller elects no such replica by itself: rmq/controller/decisions.py.)

Example: 1 is killed; 2 is elected, epoch 5. 1 comes back, registers, and is told master 2 of
epoch 5: follow(2, "10.0.0.2:10911", 5).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from rmq.base import clock
from rmq.base.clock import now_ms
from rmq.base.deadline import within
from rmq.broker.replication.controller_heartbeats import ControllerHeartbeats, ReplicaState
from rmq.broker.replication.controller_link import ControllerError, ControllerLink, ReplicaInfo
from rmq.broker.replication.epochs import NO_EPOCH
from rmq.broker.replication.identity import IdentityFiles
from rmq.broker.replication.role_changes import RoleActions, RoleChanges
from rmq.codes import ResponseCode
from rmq.errors import RmqError

POLL_S = 1.0  # between two questions
POLL_WITHOUT_LEASES_S = 5.0  # as RocketMQ's brokers do
POLLS_PER_LEASE = 3
ANNOUNCE_S = 1.0
LOST_END_WAIT_S = 120.0  # for a replica that has the lost end; an empty log waits without end
RESIGN_S = 3.0
ID_ATTEMPTS = 8  # each fails when another replica gets the same id first

log = logging.getLogger("rmq.broker.controlled_role")


class ControlledRole:
    """Owned by one event loop."""

    def __init__(
        self,
        link: ControllerLink,
        heartbeats: ControllerHeartbeats,
        identity: IdentityFiles,
        broker_address: str,
        replica_state: Callable[[], ReplicaState],
        actions: RoleActions,
    ) -> None:
        """`replica_state`: the same function that the heartbeats use."""
        self.link = link
        self.broker_id: int | None = None
        self.changes: RoleChanges | None = None  # made once the id is known
        self.problem = ""  # why the controller cannot be asked; empty while it can
        self._heartbeats = heartbeats
        self._identity = identity
        self._address = broker_address
        self._replica_state = replica_state
        self._actions = actions
        self.refusal = ""  # why the controller made nobody master; empty: there is one
        self._is_registered = False
        self._has_resigned = False
        self._retires = False  # the log failed, and this replica is retiring or retired
        self._is_retired = False
        self._looks_since = 0.0  # clock.monotonic(): since when it looks for a successor; 0: not
        self._old_epoch = NO_EPOCH  # an earlier process of this broker was master of this epoch
        self._poll_s = POLL_S
        self._grants_leases = True  # the controller is taken to do so until it was asked for one
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def known(self) -> ReplicaInfo | None:
        """Who is master; None until the controller has said it."""
        return self.changes.known if self.changes is not None else None

    @property
    def obstacle(self) -> str:
        """Why this broker does not have its role yet; empty: it has, or nothing is wrong."""
        return self.changes.problem if self.changes is not None else ""

    def start(self) -> None:
        """Starts asking. ConfigError, StoreCorruptError: the store is not this broker's."""
        self.broker_id = self._identity.broker_id()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stops. A master acknowledges nothing any more and resigns, so that the election of the
        next one need not wait for the end of the lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._is_retired:
            await self._end()
        self.link.close()

    async def _end(self) -> None:
        resigns = self.changes is not None and await self.changes.stop()
        await self._heartbeats.stop()  # another heartbeat would say that this broker lives
        if resigns and self.broker_id is not None and self.known is not None:
            with contextlib.suppress(ControllerError, asyncio.TimeoutError):
                work = self.link.resign(self.broker_id, self.known.master_epoch)
                await within(work, RESIGN_S)

    async def _retire(self) -> None:
        """Retires: the log of this broker takes nothing any more, so another must be master."""
        if not self._retires:
            self._retires = True
            log.error("a write or sync of the log failed: this replica leads and follows no more; "
                      "restart it when its disk is sound")  # fmt: skip
        await self._end()
        await self._actions.retired(self.known.master_epoch if self.known is not None else 0)
        self._is_retired = True
        self.problem = "its log takes nothing any more: restart it when its disk is sound"

    async def _stand_back_if_stuck(self) -> None:
        """If the reactor is stuck, stops heartbeats and asks for no lease. The broker does not
        resign, because it cannot promise that it acknowledges nothing: its present lease goes on.
        If the reactor recovers, the broker registers again. ControllerError: the reactor is
        stuck."""
        if not (standing_s := self._replica_state().standing_s):
            return
        await self._heartbeats.stop()
        self._is_registered = False
        what = f"the reactor has taken no turn for {standing_s // 10 * 10} s or more"
        raise ControllerError(None, f"{what}: another replica is to be master")

    def notified(self, info: ReplicaInfo) -> None:
        """Asks the controller at once if a notice (1008) tells of a newer epoch."""
        if self.known is None or info.master_epoch > self.known.master_epoch:
            self._soon.set()

    def ask_soon(self) -> None:
        """Asks the controller at once: what a lease says of this master's acks has changed."""
        self._soon.set()

    def beat(self) -> None:
        """Tells the controllers now that the log has a new epoch."""
        self._heartbeats.beat()

    def altered(self, info: ReplicaInfo) -> None:
        """Takes the answer to a change of the sync state set (1001)."""
        if self.changes is not None:
            self.changes.learn(info)

    # ---- asking

    async def _run(self) -> None:
        while not self._is_retired:
            self._soon.clear()
            pause_s = POLL_S
            try:
                if self._replica_state().is_poisoned:
                    await self._retire()
                    continue
                await self._stand_back_if_stuck()
                await self._look()
                pause_s = self._poll_s
                if self.problem:
                    log.info("the controller answers again")
                self.problem = ""
            except ControllerError as error:
                if error.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
                    self._is_registered = False
                self._say(str(error))
            except (RmqError, OSError) as error:
                self._say(str(error))
            except Exception as error:  # after any error the controller must be asked again
                self._say(repr(error))
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._soon.wait(), min(pause_s, self._poll_s))

    async def _look(self) -> None:
        broker_id = self.broker_id if self.broker_id is not None else await self._get_id()
        if self.changes is None:
            self.changes = RoleChanges(self._actions, broker_id)
            self.changes.start()
        if not self._is_registered:
            await self._register(broker_id)
            return
        known = self.changes.known
        epoch = known.master_epoch if known is not None and self.changes.is_master else 0
        info = await self._ask(broker_id, epoch)
        if info.master_id is None:
            info = await self._elect(broker_id)
        await self._take(info, broker_id, epoch)

    async def _ask(self, broker_id: int, epoch: int) -> ReplicaInfo:
        covered = self._replica_state().is_covered
        if covered and self.changes is not None:
            self.changes.is_covered = True  # before it is asked: its answer may be lost
        info = await self.link.replica_info(broker_id, epoch, covered)
        self._grants_leases = info.lease_ms is not None
        is_granted = bool(epoch and info.lease_ms and info.master_epoch == epoch)
        if is_granted and not covered and self.changes is not None:
            self.changes.is_covered = False
        return info

    async def _get_id(self) -> int:
        """Gets an id for this broker, which its file keeps from now on."""
        for _ in range(ID_ATTEMPTS):
            application = self._identity.application()
            if application is None:
                application = self._identity.apply(await self.link.next_id(), self._address)
            try:
                await self.link.apply_id(application.broker_id, application.check_code)
            except ControllerError as error:
                if error.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                    raise
                self._identity.drop_application()  # another replica was faster
                continue
            self._identity.keep(application.broker_id)
            self.broker_id = application.broker_id
            log.info("the controller gave this broker id %d", application.broker_id)
            return application.broker_id
        raise ControllerError(None, f"no id in {ID_ATTEMPTS} attempts: others took them all")

    async def _register(self, broker_id: int) -> None:
        unknown = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
        try:
            info = await self.link.register(broker_id, self._address)
        except ControllerError as error:
            if error.code != unknown:
                raise
            await self._apply_again(broker_id)
            info = await self.link.register(broker_id, self._address)
        if self.known is None and info.master_id in (None, broker_id):
            await self._look_back(await self._ask(broker_id, 0), broker_id)
        self._heartbeats.start(broker_id)
        await self._heartbeats.announce(ANNOUNCE_S)
        if info.master_id is None:
            info = await self._elect(broker_id)
        await self._take(info, broker_id, 0)
        self._is_registered = True

    async def _look_back(self, info: ReplicaInfo, broker_id: int) -> None:
        """Looks at what the controller knows of an earlier process of this broker, before this one
        sends heartbeats. ControllerError: it must not send any yet."""
        if info.master_id == broker_id:
            self._old_epoch = info.master_epoch
        if self._grants_leases:
            return
        if info.master_id == broker_id:
            await self.link.replace()
            info = await self._ask(broker_id, 0)
        others = sorted(info.sync_state.members - {broker_id})
        if broker_id not in info.sync_state.members or not others:
            return
        replica_state, now = self._replica_state(), clock.monotonic()
        self._looks_since = self._looks_since or now
        # After a power cut all replicas may have lost the ends of their logs, but no whole log.
        if replica_state.has_bytes and now - self._looks_since > LOST_END_WAIT_S:
            replica_state = msgspec.structs.replace(replica_state, has_lost_end=False)
        if lacks := replica_state.lacks:
            raise ControllerError(
                None,
                f"the log of this broker {lacks}, and {others} were in sync with it: one of them "
                "has what was acknowledged, and is to be master first. Start it; if none of them "
                f"comes back, take {others} off (rmq replica remove, mqadmin cleanBrokerMetadata)",
            )
        if info.master_id == broker_id:
            raise ControllerError(
                None,
                f"the controller takes the earlier process of this broker, which was master of "
                f"epoch {info.master_epoch}, for living: this one waits until it does not",
            )

    async def _apply_again(self, broker_id: int) -> None:
        """Applies again for the id that this replica has and the controller has forgotten."""
        try:
            await self.link.apply_id(broker_id, f"{self._address};{now_ms()}")
        except ControllerError as error:
            if error.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                raise
            raise ControllerError(
                error.code,
                f"{error}. {self._identity.path} says that this broker is {broker_id}; if the "
                "controller has lost its state, give that back; if this replica is to join as a "
                "new one, empty its store",
            ) from None

    async def _elect(self, broker_id: int) -> ReplicaInfo:
        """Asks for an election. Returns who is master after it, or nobody, if nobody can be."""
        try:
            return await self.link.elect(broker_id)
        except ControllerError as error:
            if error.code != ResponseCode.CONTROLLER_ELECT_MASTER_FAILED:
                raise
            if str(error) != self.refusal:
                self.refusal = str(error)
                log.warning("%s", error)
            return await self._ask(broker_id, 0)

    # ---- what it was told

    async def _take(self, info: ReplicaInfo, broker_id: int, asked_epoch: int) -> None:
        """Takes what the controller said. `asked_epoch`: the epoch for which a lease was asked in
        the same question; 0 for none."""
        assert self.changes is not None
        if info.master_id == broker_id and info.master_epoch != asked_epoch:
            if self._is_old(info) and not self._has_resigned:
                info = await self._resign(info, broker_id)
            if info.master_id == broker_id:  # it is master from now on and asks for a lease
                info = await self._ask(broker_id, info.master_epoch)
        if not self.changes.learn(info):
            assert self.known is not None
            raise ControllerError(
                None,
                f"the controller says epoch {info.master_epoch}, and said {self.known.master_epoch}"
                " before: it has lost its state, or is another one. Its answers are not acted on; "
                "give it its state back, or restart the brokers of this brokerName",
            )
        if info.master_id is not None:
            self.refusal = ""
        self._poll_s = self._period_s(info)

    def _is_old(self, info: ReplicaInfo) -> bool:
        """Whether this is a mastership of an earlier process of this broker."""
        is_led = self.known is not None and self.known.master_epoch >= info.master_epoch
        return not is_led and info.master_epoch <= max(
            self._replica_state().newest_epoch, self._old_epoch
        )

    async def _resign(self, info: ReplicaInfo, broker_id: int) -> ReplicaInfo:
        """Resigns; returns who is master after that. RocketMQ's controller takes no resignation, so
        there it is still this broker. ControllerError: a controller that grants leases has not
        taken it, and must be asked again."""
        log.info("this broker was master of epoch %d before it was started again: it resigns, and "
                 "is elected anew, or another one is", info.master_epoch)  # fmt: skip
        after = await self.link.resign(broker_id, info.master_epoch)
        is_kept = (after.master_id, after.master_epoch) == (broker_id, info.master_epoch)
        if is_kept and self._grants_leases:
            raise ControllerError(
                None,
                f"the controller has not taken the resignation of epoch {info.master_epoch}, which "
                "this broker does not lead: its log may lack what the others have",
            )
        self._has_resigned = True
        await self._heartbeats.announce(ANNOUNCE_S)
        return await self._elect(broker_id)

    def _period_s(self, info: ReplicaInfo) -> float:
        if info.lease_ms:
            return min(POLL_S, info.lease_ms / 1000 / POLLS_PER_LEASE)
        is_settled = info.master_id is not None and not self._grants_leases
        return POLL_WITHOUT_LEASES_S if is_settled else POLL_S

    def _say(self, text: str) -> None:
        """Logs a problem, but not the same one twice in a row."""
        if text != self.problem:
            self.problem = text
            log.warning("%s; it is tried again and again", text)
