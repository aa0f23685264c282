"""etcd store: broker sets in etcd, for any number of controllers of which one leads.

    /rmq/<group>/leader             name and address of the leader, under its lease
    /rmq/<group>/members/<name>     each controller, under its own lease
    /rmq/<group>/brokers/<name>     a broker set (broker_set.py)

The controller that creates the leader's key leads until the key is gone. Every read and write
compares the key's create revision, so it takes effect only at a moment at which this controller
led, however long it was paused before or after. A lease that etcd ends late or early costs time,
but never leads to a wrong decision.

Example: the leader is stopped (SIGSTOP). Its lease of LEASE_S ends, and another controller creates
the key. When the first one goes on, the comparison of its next read fails: it leads no more, and
stands for election again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from rmq.base import clock
from rmq.controller import broker_set, etcd
from rmq.controller.broker_set import BrokerSet
from rmq.controller.etcd import Etcd, KeyValue, LeaseOverError, Result
from rmq.controller.state_store import Controller, NotLeaderError, StateStoreError
from rmq.errors import StoreCorruptError

LEASE_S = 3
STARTS = 5
RENEW_S = 0.5  # how often the lease is kept alive, and the leader's key looked at

_log = logging.getLogger("rmq.controller.etcd_store")


class _Member(msgspec.Struct):
    name: str
    address: str


class EtcdStore:
    """Owned by the event loop of the controller. `on_lead` is called before it begins to lead."""

    def __init__(self, client: Etcd, group: str, on_lead: Callable[[], None]) -> None:
        self._etcd = client
        self._standing = client.beside()  # for keeping the lead, which must not wait for requests
        self._on_lead = on_lead
        root = f"/rmq/{group}/"
        self._leader_key = (root + "leader").encode()
        self._members_key = (root + "members/").encode()
        self._brokers_key = root + "brokers/"
        self._own = Controller("", "")
        self._lease = 0
        self._is_member = False  # whether the member key exists under that lease
        self._leading = 0  # create revision of the leader's key; 0: this controller does not lead
        self._leader: Controller | None = None
        self._members: list[KeyValue] = []  # as of the last _stand()
        self._task: asyncio.Task[None] | None = None

    async def start(self, own: Controller) -> None:
        self._own = own
        for left in reversed(range(STARTS)):
            try:
                await self._stand()  # if etcd does not answer, the start fails
                break
            except LeaseOverError:  # etcd was only too slow for the lease: try again
                if not left:
                    raise
        self._task = asyncio.create_task(self._stand_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._lease:
            with contextlib.suppress(StateStoreError):
                await self._standing.revoke(self._lease)
        await self._standing.close()
        await self._etcd.close()

    def is_leader(self) -> bool:
        return self._leading != 0

    async def leader(self) -> Controller | None:
        return self._leader

    async def members(self) -> list[Controller]:
        return [_controller(each) for each in self._members]

    async def names(self) -> list[str]:
        prefix = self._brokers_key.encode()
        result = await self._etcd.transaction([], [etcd.get(prefix, prefix=True)])
        return [each.key[len(prefix) :].decode() for each in result.found[0]]

    async def read(self, name: str) -> tuple[BrokerSet | None, int]:
        key = self._broker_key(name)
        leading = self._leading
        result = await self._etcd.transaction([self._we_lead()], [etcd.get(key)])
        if not result.succeeded:
            raise self._lost(leading)
        self._check_still(leading)
        if not result.found[0]:
            return None, 0
        kept = result.found[0][0]
        found = broker_set.decode(kept.value, f"etcd key {key.decode()}")
        if found.name != name:
            raise StoreCorruptError(f"etcd key {key.decode()} holds broker {found.name}")
        return found, kept.mod_revision

    async def write(self, name: str, after: BrokerSet | None, revision: int) -> bool:
        key, leading = self._broker_key(name), self._leading
        step = etcd.put(key, after.encode()) if after is not None else etcd.delete(key)
        result = await self._etcd.transaction(
            [self._we_lead(), etcd.changed(key, revision)], [step], [etcd.get(self._leader_key)]
        )
        if not result.succeeded:
            leader = result.found[0]
            if not leader or leader[0].create_revision != leading:
                raise self._lost(leading)
        self._check_still(leading)
        return result.succeeded

    # ---- standing for election

    def _we_lead(self) -> etcd.Step:
        if not self._leading:
            raise NotLeaderError("this controller does not lead")
        return etcd.created(self._leader_key, self._leading)

    def _check_still(self, leading: int) -> None:
        """NotLeaderError if the lead was lost during a call, even if this controller leads again by
        now: another one may have led and granted leases in between."""
        if leading != self._leading:
            raise NotLeaderError("this controller did not lead all the time")

    def _lost(self, leading: int) -> NotLeaderError:
        if leading == self._leading:  # else it belongs to an earlier leadership
            self._follow(None)
        return NotLeaderError("this controller does not lead any more")

    def _follow(self, leader: Controller | None) -> None:
        if self._leading:
            _log.warning("this controller leads no more")
        self._leading = 0
        self._leader = leader

    async def _stand_for_ever(self) -> None:
        heard = clock.monotonic()
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._stand()
                heard = clock.monotonic()
            except (StateStoreError, StoreCorruptError) as error:
                _log.warning("%s", error)
                if clock.monotonic() - heard > LEASE_S:
                    self._follow(None)

    async def _stand(self) -> None:
        """Keeps the lease alive, and takes the lead if nobody has it."""
        own = msgspec.json.encode(_Member(self._own.name, self._own.address))
        result = await self._keep(own) if self._lease else None
        if result is None:
            self._follow(None)
            self._lease, self._is_member = 0, False
            self._lease = await self._standing.grant(LEASE_S)
            result = await self._keep(own)
            if result is None:
                raise LeaseOverError("etcd: the lease was over before it was used")
        self._is_member = True
        self._members = result.found[-1]
        if result.succeeded:
            self._lead(result.revision)
            return
        kept = result.found[0][0]
        if kept.lease == self._lease:  # its own: an answer was lost, or it gave up the lead early
            if kept.create_revision != self._leading:
                self._lead(kept.create_revision)
        else:
            self._follow(_controller(kept))

    async def _keep(self, own: bytes) -> Result | None:
        """Prolongs the lease and reads the leader's key; None: the lease is over. Both are done at
        once, because with a slow etcd one after the other could take longer than the lease."""
        kept, claimed = await asyncio.gather(
            self._standing.keep_alive(self._lease), self._claim(own), return_exceptions=True
        )
        if kept is False or isinstance(claimed, LeaseOverError):
            return None
        if isinstance(kept, BaseException):
            raise kept
        if isinstance(claimed, BaseException):
            raise claimed
        return claimed

    async def _claim(self, own: bytes) -> Result:
        """Creates the leader's key, or reads it if it exists; and reads all members."""
        member = self._members_key + self._own.name.encode()
        known = [] if self._is_member else [etcd.put(member, own, self._lease)]
        members = etcd.get(self._members_key, prefix=True)
        return await self._standing.transaction(
            [etcd.created(self._leader_key, 0)],
            [*known, etcd.put(self._leader_key, own, self._lease), members],
            [*known, etcd.get(self._leader_key), members],
        )

    def _lead(self, revision: int) -> None:
        self._on_lead()
        self._leading, self._leader = revision, self._own
        _log.info("this controller leads, since revision %d", revision)

    def _broker_key(self, name: str) -> bytes:
        return (self._brokers_key + name).encode()


def _controller(kept: KeyValue) -> Controller:
    try:
        member = msgspec.json.decode(kept.value, type=_Member)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorruptError(f"etcd key {kept.key.decode()}: {error}") from None
    return Controller(member.name, member.address)
