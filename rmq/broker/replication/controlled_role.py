"""Controlled role: how a broker becomes master or slave, and stays it, by what the controller says.

    an id (1012, 1013) -> registered (1003) -> heartbeats (904) -> a master, if none lives (1002)
    then each second: who is master, and the lease if it is this one (1004)

RocketMQ's ReplicasManager, with its codes. At its controller, which grants no leases, it asks each
5 seconds. A notice (1008) has it ask at once: it is a hint, as anybody may send one. What is to be
done of the answers, role_changes.py does.

A broker that was started again, and finds itself master of an epoch that its file knows, or that
the controller said before this process had said that it lives, resigns first: after a power cut its
log may lack what the others have, and of two logs with other records of one epoch nobody could tell
where they part. So it is elected anew, or another one is.

RocketMQ's controller takes no resignation. There a successor is asked for before the first
heartbeat, while the controller takes this broker for dead. Nor does it say that it lives where its
log is empty, or has lost an epoch, and others were in sync with it: one of them has what was
acknowledged. (rmq's controller elects no such replica by itself: rmq/controller/decisions.py.)

Example: 1 is killed; 2 is elected, epoch 5. 1 comes back, registers, is told master 2 of epoch 5:
follow(2, "10.0.0.2:10911", 5).
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
POLL_WITHOUT_LEASES_S = 5.0  # of RocketMQ's brokers
POLLS_PER_LEASE = 3
ANNOUNCE_S = 1.0
LOST_END_WAIT_S = 120.0  # for one that has what this log has lost; an empty log waits without end
RESIGN_S = 3.0
ID_ATTEMPTS = 8  # each lost to another replica that wanted the same id

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
        """`replica_state`: the same that the heartbeats tell."""
        self.link = link
        self.broker_id: int | None = None
        self.changes: RoleChanges | None = None  # there once the id is
        self.problem = ""  # why the controller cannot be asked; empty while it can
        self._heartbeats = heartbeats
        self._identity = identity
        self._address = broker_address
        self._replica_state = replica_state
        self._actions = actions
        self.refusal = ""  # why the controller made nobody master; empty: there is one
        self._is_registered = False
        self._has_resigned = False
        self._retires = False  # it is to; then it has
        self._is_retired = False
        self._looks_since = 0.0  # clock.monotonic(): for a successor; 0: not yet
        self._old_epoch = NO_EPOCH  # of which an earlier process of this broker was master
        self._poll_s = POLL_S
        self._grants_leases = True  # the controller, until it was asked for one
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def known(self) -> ReplicaInfo | None:
        """Who is master; None until the controller said it."""
        return self.changes.known if self.changes is not None else None

    @property
    def obstacle(self) -> str:
        """Why it is not what it is to be; empty: it is, or nothing is wrong yet."""
        return self.changes.problem if self.changes is not None else ""

    def start(self) -> None:
        """ConfigError, StoreCorruptError: this store is not this broker's."""
        self.broker_id = self._identity.broker_id()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """As master it acknowledges nothing any more, and resigns: another one need not wait for
        the end of its lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._is_retired:
            await self._end()
        self.link.close()

    async def _end(self) -> None:
        resigns = self.changes is not None and await self.changes.stop()
        await self._heartbeats.stop()  # the next one would have it live
        if resigns and self.broker_id is not None and self.known is not None:
            with contextlib.suppress(ControllerError, asyncio.TimeoutError):
                work = self.link.resign(self.broker_id, self.known.master_epoch)
                await within(work, RESIGN_S)

    async def _retire(self) -> None:
        """Its log takes nothing any more: another one is to be master."""
        if not self._retires:
            self._retires = True
            log.error("a write or sync of the log failed: this replica leads and follows no more; "
                      "restart it when its disk is sound")  # fmt: skip
        await self._end()
        await self._actions.retired(self.known.master_epoch if self.known is not None else 0)
        self._is_retired = True
        self.problem = "its log takes nothing any more: restart it when its disk is sound"

    async def _stand_back_if_stuck(self) -> None:
        """Its reactor serves nobody: it says no more that it lives, and asks for no lease. It does
        not resign, as it cannot say that it acknowledges nothing: the lease that it has goes on.
        Should the reactor go on, it registers as one that was away. ControllerError: it is."""
        if not (standing_s := self._replica_state().standing_s):
            return
        await self._heartbeats.stop()
        self._is_registered = False
        what = f"the reactor has taken no turn for {standing_s // 10 * 10} s or more"
        raise ControllerError(None, f"{what}: another replica is to be master")

    def notified(self, info: ReplicaInfo) -> None:
        """A notice said so (1008): it is asked for."""
        if self.known is None or info.master_epoch > self.known.master_epoch:
            self._soon.set()

    def beat(self) -> None:
        """Its log has a new epoch: the controllers hear of it now."""
        self._heartbeats.beat()

    def altered(self, info: ReplicaInfo) -> None:
        """What a change of the sync state set was answered (1001)."""
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
            except Exception as error:  # whatever it is, the controller decides on
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
        info = await self.link.replica_info(broker_id, epoch, self._replica_state().is_covered)
        self._grants_leases = info.lease_ms is not None
        return info

    async def _get_id(self) -> int:
        """Its id, kept in the file from now on."""
        for _ in range(ID_ATTEMPTS):
            application = self._identity.application()
            if application is None:
                application = self._identity.apply(await self.link.next_id(), self._address)
            try:
                await self.link.apply_id(application.broker_id, application.check_code)
            except ControllerError as error:
                if error.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                    raise
                self._identity.drop_application()  # another one was faster
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
        """What is said of an earlier process of this broker, before this one says that it lives.
        ControllerError: it is not to say so yet."""
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
        # After a power cut all may have lost the end of theirs; never a whole log.
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
        """The controller does not know this replica, which has an id: it was cleaned."""
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
        """Who is master after that; nobody, where nobody can be."""
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
        """`asked_epoch`: of the lease that was asked for with it; 0 for none."""
        assert self.changes is not None
        if info.master_id == broker_id and info.master_epoch != asked_epoch:
            if self._is_old(info) and not self._has_resigned:
                info = await self._resign(info, broker_id)
            if info.master_id == broker_id:  # master from now on: with a lease
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
        """A mastership of an earlier process of this broker."""
        is_led = self.known is not None and self.known.master_epoch >= info.master_epoch
        return not is_led and info.master_epoch <= max(
            self._replica_state().newest_epoch, self._old_epoch
        )

    async def _resign(self, info: ReplicaInfo, broker_id: int) -> ReplicaInfo:
        """Who is master then. RocketMQ's controller does not take it: then it stays this one.
        ControllerError: one that grants leases has not taken it, and is to be asked again."""
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
        """The same only once."""
        if text != self.problem:
            self.problem = text
            log.warning("%s; it is tried again and again", text)
