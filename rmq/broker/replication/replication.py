"""Replication: what the broker starts and stops: the side of master or slave, by brokerRole.

ASYNC_MASTER, SYNC_MASTER   slaves are served at the HA port, if brokerRole or haListenPort is set
SLAVE                       the log and the tables come from the master

Where a controller decides who is master, controlled_replication.py is used instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from rmq.broker.clients.connections import Connection
from rmq.broker.core_seam import (
    DelayCalls,
    HACalls,
    LogCalls,
    OffsetCalls,
    PopCalls,
    RoleCalls,
    StatCalls,
)
from rmq.broker.reactor_watch import ReactorWatch
from rmq.broker.replication import ha_status
from rmq.broker.replication.account_requests import AccountRequests
from rmq.broker.replication.exchange import Exchange
from rmq.broker.replication.ha_client import HAClient, HAClientContext, check_reach
from rmq.broker.replication.ha_port import HAPort
from rmq.broker.replication.ha_socket import HASocket
from rmq.broker.replication.master_search import Master, MasterSearch
from rmq.broker.replication.metadata_copy import CopyContext, MetadataCopy
from rmq.broker.replication.role import (
    acks_durable,
    ha_port,
    is_slave,
    serves_slaves,
    slaves_needed,
)
from rmq.broker.replication.tail_checksum import tail_of
from rmq.broker.replication.waiting_sends import WaitingSends
from rmq.codes import ResponseCode
from rmq.errors import StoreError
from rmq.observe.sample import Sample, SlaveSample

log = logging.getLogger("rmq.broker.replication")

SEND_BYTES = 1 << 20  # of the log, sent to each slave in one turn


class CoreCalls(
    HACalls, LogCalls, OffsetCalls, PopCalls, DelayCalls, StatCalls, RoleCalls, Protocol
):
    """What is used here of the core."""

    @property
    def port(self) -> int: ...


class ReplicationContext(CopyContext, HAClientContext, Protocol):
    """What is used here of the broker."""

    reactor_watch: ReactorWatch
    started_at: float


class Replication:
    """Owned by the control thread."""

    def __init__(self, context: ReplicationContext, core: CoreCalls) -> None:
        self._settings = context.settings
        self._core = core
        self._port = HAPort(context.settings, core)
        self.ha_address = ""  # where slaves get the log; empty: nowhere
        self._search = MasterSearch(context.settings)
        self._stream = HAClient(context, core, self._search)
        self._stream.handshake = self._handshake_as_slave
        self._stream.tail = self._tail
        # Lets an empty log begin elsewhere, which ends this Broker; another one replaces it.
        self.begin_log: Callable[[int], None] = _cannot_begin
        self._copy = MetadataCopy(context, core, self._search)
        self.role_changed: Callable[[int], None] = lambda _: None  # called with the epoch
        self.take_pops_over: Callable[[], Callable[[], int]] = lambda: int  # before a slave leads
        self._offsets = context.offsets
        self._tasks: list[asyncio.Task[None]] = []
        self.exchange = Exchange(f"{context.started_at:.3f}", counts_of(context, core))
        self.account_requests = AccountRequests()
        self.waiting_sends = WaitingSends()

    @property
    def is_slave(self) -> bool:
        return is_slave(self._settings)

    @property
    def has_role(self) -> bool:
        """Whether this broker's role is known; name servers are told of the broker then."""
        return True

    async def start(self) -> None:
        if self.is_slave:
            self._set_ha(0)
            self._follow_master()
        elif serves_slaves(self._settings):
            await self._open_port()
            self._set_ha(slaves_needed(self._settings))

    async def stop(self) -> None:
        self._port.close()
        self.exchange.close()
        await self._end_tasks()

    def _follow_master(self) -> None:
        self._offsets.follow()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._stream.run()),
            loop.create_task(self._copy.run()),
        ]

    def _tail(self) -> str:
        return tail_of(self._settings, self._core.log_range()[:2])

    async def _handshake_as_slave(self, sock: HASocket, master: Master) -> None:
        """Returns when the master's log can go on where this one ends. An empty log must begin
        where the master's does, and the master may have removed its oldest segments since this log
        was made."""
        start, end, _ = self._core.log_range()
        if start == end and start != master.log_start:
            await self._begin_elsewhere(start, master)
        check_reach((start, end), master)

    async def _begin_elsewhere(self, start: int, master: Master) -> None:
        """Lets the log begin elsewhere; another Broker replaces this one, so this does not
        return."""
        self._core.check_beginning(master.log_start)
        log.warning("the log has nothing and begins at %d: it begins at %d from now on, as that of "
                    "the master %s", start, master.log_start, master.address)  # fmt: skip
        await self._forget_log(master.log_start)
        self.begin_log(master.log_start)
        await self._end()

    async def _forget_log(self, start: int) -> None:
        """Forgets what else is known of an empty log that will begin at `start`."""

    async def _end(self) -> None:
        await asyncio.Event().wait()

    async def _open_port(self) -> None:
        settings = self._settings
        port = await self._port.open(ha_port(settings, self._core.port))
        self.ha_address = f"{settings.brokerIP2 or settings.brokerIP1}:{port}"
        log.info("slaves are served at %s", self.ha_address)

    async def _end_tasks(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def waits_for_slaves(self) -> bool:
        """Whether answers promise that slaves have what was stored."""
        return slaves_needed(self._settings) > 0

    @property
    def master_address(self) -> str:
        """The address of this slave's master; empty while it is not known."""
        return self._stream.master.address if self._stream.master is not None else ""

    def may_promise(self) -> Callable[[], bool]:
        """Returns a function to be called later: whether what was stored before this call may still
        be answered with success."""
        return lambda: True

    async def unable(self) -> ResponseCode | None:
        """The code to answer if no change of a table can be promised now; None: it can be."""
        return None

    async def copied(self, tables: Iterable[str]) -> ResponseCode | None:
        """Waits until slaves have these tables as they are now; returns None, or the code to answer
        if they do not. RocketMQ's slaves ask for tables every minute, and its masters do not
        wait for them: where some slaves are RocketMQ's, fewer slaves of rmq are enough."""
        needed = slaves_needed(self._settings)
        if len(self._core.ha_connections()) > self.exchange.ever():
            needed = min(needed, self.exchange.slaves())
        if self.exchange.slaves() < needed:
            return ResponseCode.SLAVE_NOT_AVAILABLE
        if await self.exchange.settled(tables, needed, self._settings.slaveTimeout / 1000):
            return None
        return ResponseCode.FLUSH_SLAVE_TIMEOUT

    def connection_closed(self, connection: Connection) -> None:
        self._stream.connection_closed(connection)

    def settings_changed(self) -> None:
        """Applies inSyncReplicas anew, which may have changed."""
        if self.ha_address:
            self._set_ha(slaves_needed(self._settings))

    def status(self) -> dict[str, Any]:
        """The body of 907."""
        if self.is_slave:
            master = self._stream.master
            return ha_status.slave_status(self._core, master.ha_address if master else "")
        return ha_status.master_status(self._settings, self._core, self._core)

    def observe(self, sample: Sample) -> None:
        """Writes the state of this broker and its copies into the sample."""
        if self.is_slave:
            sample.role = "slave"
            sample.follows = self._stream.follows
            sample.replication_problem = self._stream.problem or self._copy.problem
            ill = "detached" if sample.replication_problem or not sample.follows else ""
        elif self.ha_address:
            ill = self._observe_slaves(sample)
        else:
            return
        if ill and sample.state == "running":
            sample.state = ill

    def _observe_slaves(self, sample: Sample) -> str:
        end, needed = self._core.log_range()[1], slaves_needed(self._settings)
        sample.role = "master"
        sample.slaves = [
            SlaveSample(ha_status.address_text(address), end - max(acked, 0), behind_ms)
            for _, address, _, acked, behind_ms, _ in self._core.ha_connections()
        ]
        if len(sample.slaves) >= needed:
            return ""
        sample.replication_problem = (
            f"{len(sample.slaves)} of {needed} slaves follow: sends are stored here, and answered "
            "SLAVE_NOT_AVAILABLE"
        )
        return "alone"

    def _set_ha(self, needed: int) -> None:
        settings = self._settings
        self._core.set_ha(
            needed,
            SEND_BYTES,
            settings.haSendHeartbeatInterval,
            settings.haHousekeepingInterval,
            int(acks_durable(settings)),
        )


def _cannot_begin(start: int) -> None:
    raise StoreError(f"the log is to begin at {start}, which this process cannot do")


def counts_of(context: ReplicationContext, core: CoreCalls) -> dict[str, Callable[[], int]]:
    """For each table that a slave copies, a function that returns how often it has changed."""
    accounts = context.guard.store.accounts
    return {
        "topics": lambda: context.topics.registered.version.counter,
        "groups": lambda: context.groups.version.counter,
        "modes": lambda: context.request_modes.changes,
        "offsets": lambda: core.offsets_version,
        "orders": lambda: core.pop_orders_version,
        "delays": lambda: sum(context.delays.offsets()),
        "timers": lambda: timers_count(core.timers_delivered()),
        **({"accounts": lambda: accounts.version} if context.guard.is_on else {}),
    }


def timers_count(position: tuple[int, int, int, int, int, int] | None) -> int:
    """A number that grows as the place grows up to which timed messages are delivered. The number
    of delivered messages would not do: it changes before that place is known, and a slave asks only
    once for each number."""
    if position is None:
        return 0
    wall_ms, _, steady_ms, _, fed, log_end = position
    return wall_ms + steady_ms + fed + log_end
