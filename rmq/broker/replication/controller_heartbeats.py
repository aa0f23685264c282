"""Controller heartbeats: tell every controller each second that this replica lives.

A heartbeat (904, one-way) also tells the end of this log, and more. All controllers get heartbeats,
so that the next one that leads knows the same. Each controller has a connection of its own, which
stays open: when it closes, the controller takes this replica for dead. A controller that does not
answer, or does not read, delays no other.

    beats = ControllerHeartbeats(addresses, settings, replica_state)
    beats.start(broker_id=2)
    await beats.announce(1.0)       all controllers that can be reached have got a heartbeat

Example: brokerHeartbeatInterval=1000, controllerHeartBeatTimeoutMills=10000: a replica that sends
nothing for ten seconds is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import cast

import msgspec

from rmq.base import clock
from rmq.base.deadline import within
from rmq.base.transport_end import abort
from rmq.broker.replication.controller_addresses import ControllerAddresses
from rmq.broker.replication.epochs import NO_EPOCH
from rmq.codes import FLAG_ONE_WAY, RequestCode
from rmq.config import Settings
from rmq.errors import ProtocolError, RmqError
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command, encode, field_texts
from rmq.serving.identity import signed, tls
from rmq.serving.remoting_client import parse_address

CONNECT_S = 3.0
REFRESH_S = 10.0  # between two looks at who the controllers are
UNREAD_BYTES_MAX = 64 << 10

log = logging.getLogger("rmq.broker.controller_heartbeats")


class ReplicaState(msgspec.Struct, frozen=True):
    """How far this replica's log is. `epoch`: the last epoch in it, -1 for none."""

    epoch: int
    max_offset: int  # the end of its log
    confirm_offset: int  # up to where all replicas in sync have the log
    is_covered: bool  # as master: each acknowledgement needs the whole sync state set
    newest_epoch: int = NO_EPOCH  # the newest in its epoch file, whether in the log or not
    has_lost_end: bool = False  # as lost_end.py knows
    log_start: int = 0  # where its first file begins
    is_poisoned: bool = False  # a write or sync failed: it takes nothing until it is opened again
    standing_s: int = 0  # for how long its stuck reactor has taken no turn; 0: it is not stuck
    is_doubted: bool = False  # it may have lost its end, or not (lost_end.py)

    @property
    def has_bytes(self) -> bool:
        """Whether its log holds a record; where its first file begins does not matter."""
        return self.max_offset > self.log_start

    @property
    def is_empty(self) -> bool:
        return self.epoch == NO_EPOCH and not self.has_bytes

    @property
    def has_lost(self) -> bool:
        """Whether it has lost the end of its log, be it whole epochs or less."""
        return self.newest_epoch > self.epoch or self.has_lost_end

    @property
    def lacks(self) -> str:
        """In words, why it may lack messages that it acknowledged; empty: nothing says so."""
        if self.newest_epoch > self.epoch:
            return f"has lost epoch {self.newest_epoch} in a power cut"
        if self.has_lost_end:
            return "has lost the end of its log"
        return "is empty" if self.is_empty else ""


class ControllerHeartbeats:
    """Owned by one event loop."""

    def __init__(
        self,
        addresses: ControllerAddresses,
        settings: Settings,
        broker_address: str,
        replica_state: Callable[[], ReplicaState],
    ) -> None:
        self._addresses = addresses
        self._replica_state = replica_state
        self._interval_s = settings.brokerHeartbeatInterval / 1000
        self._fields: dict[str, object] = {
            "clusterName": settings.brokerClusterName,
            "brokerName": settings.brokerName,
            "brokerAddr": broker_address,
            "heartbeatTimeoutMills": settings.controllerHeartBeatTimeoutMills,
            "electionPriority": settings.brokerElectionPriority,
        }
        self._senders: dict[str, tuple[_HeartbeatSender, asyncio.Task[None]]] = {}
        self._refreshing: asyncio.Task[None] | None = None

    def start(self, broker_id: int) -> None:
        self._fields["brokerId"] = broker_id
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_for_ever())

    async def stop(self) -> None:
        """Closes all connections: the controllers take this replica for dead."""
        tasks = [task for _, task in self._senders.values()]
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        self._refreshing = None
        self._senders.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def announce(self, timeout_s: float) -> bool:
        """Sends a heartbeat to all controllers now; returns when each has answered it or cannot be
        reached, or the time is over. Returns whether any has answered."""
        await self._refresh()
        answers = [sender.heard() for sender, _ in self._senders.values()]
        if answers:
            await asyncio.wait(answers, timeout=timeout_s)
        return any(each.done() and not each.cancelled() and each.result() for each in answers)

    def beat(self) -> None:
        """Sends one more heartbeat now, because something that elections depend on has changed."""
        for sender, _ in self._senders.values():
            sender.beat()

    async def _refresh_for_ever(self) -> None:
        while True:
            await self._refresh()
            await asyncio.sleep(REFRESH_S if self._senders else self._interval_s)

    async def _refresh(self) -> None:
        found = await self._addresses.all()
        if self._refreshing is None:
            return  # it was stopped meanwhile
        for address in found:
            if address not in self._senders:
                sender = _HeartbeatSender(address, self._interval_s, self._beat)
                self._senders[address] = sender, asyncio.create_task(sender.run())
        for address in self._senders.keys() - found if found else ():
            self._senders.pop(address)[1].cancel()

    def _beat(self, opaque: int, is_one_way: bool) -> bytes:
        now = self._replica_state()
        fields = {
            **self._fields,
            "epoch": now.epoch,
            "maxOffset": 0 if now.is_empty else now.max_offset,  # RocketMQ sends 0 for empty
            "confirmOffset": now.confirm_offset,
            "rmqCovered": now.is_covered,
            "rmqLost": now.has_lost or None,
            "rmqDoubted": now.is_doubted or None,
        }
        command = Command(
            code=RequestCode.BROKER_HEARTBEAT,
            flag=FLAG_ONE_WAY if is_one_way else 0,
            opaque=opaque,
            fields=field_texts(fields),
        )
        return encode(signed(command))


class _HeartbeatSender:
    """Heartbeats to one controller."""

    def __init__(self, address: str, interval_s: float, beat: Callable[[int, bool], bytes]) -> None:
        self._address = address
        self._interval_s = interval_s
        self._beat = beat
        self._wake = asyncio.Event()
        self._opaques = itertools.count(1)
        self._waiting: list[asyncio.Future[bool]] = []  # wait for the next heartbeat
        self._sent: list[asyncio.Future[bool]] = []  # wait for its answer
        self._asked = 0  # the opaque of a heartbeat that asks for an answer
        self._said = ""

    def beat(self) -> None:
        self._wake.set()

    def heard(self) -> asyncio.Future[bool]:
        """A future that becomes True when a heartbeat sent from now on was answered, False when
        none can be sent."""
        made: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(made)
        self._wake.set()
        return made

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            began = clock.monotonic()
            try:
                await self._connected()
            except (OSError, RmqError, asyncio.TimeoutError) as error:
                self._say(str(error) or "it does not accept a connection in time")
            except Exception as error:  # after any error heartbeats must go on
                self._say(repr(error))
            self._settle(False, self._sent + self._waiting)
            if clock.monotonic() - began < self._interval_s:
                await asyncio.sleep(self._interval_s)

    async def _connected(self) -> None:
        """Runs one connection until it ends; raises why it has ended."""
        host, port = parse_address(self._address)
        connecting = asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._answered, self._wake.set), host, port, ssl=tls()
        )
        transport, connection = await within(connecting, CONNECT_S)
        try:
            while not connection.problem:
                self._send(transport)
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(self._wake.wait(), self._interval_s)
                self._wake.clear()
        finally:
            abort(transport)
        raise ConnectionResetError(connection.problem)

    def _send(self, transport: asyncio.WriteTransport) -> None:
        if transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            raise ConnectionResetError("it does not read what it is sent")
        opaque = next(self._opaques) & 0x7FFFFFFF
        is_first = self._said or not self._asked
        if self._waiting or is_first:
            self._asked = opaque
            self._sent += self._waiting
            self._waiting.clear()
        transport.write(self._beat(opaque, self._asked != opaque))

    def _answered(self, opaque: int) -> None:
        if opaque == self._asked:
            if self._said:
                log.info("controller %s hears of this replica again", self._address)
            self._said = ""
            self._settle(True, self._sent)

    def _settle(self, is_heard: bool, waiting: list[asyncio.Future[bool]]) -> None:
        for each in waiting:
            if not each.done():
                each.set_result(is_heard)
        self._waiting = [each for each in self._waiting if not each.done()]
        self._sent = [each for each in self._sent if not each.done()]

    def _say(self, text: str) -> None:
        """Logs a text, but not the same one twice in a row."""
        if text != self._said:
            log.warning(
                "controller %s does not hear of this replica: %s; it is tried again and again",
                self._address, text,
            )  # fmt: skip
            self._said = text


class _Connection(asyncio.Protocol):
    """`problem`: why it ended; empty while it has not."""

    def __init__(self, answered: Callable[[int], None], ended: Callable[[], None]) -> None:
        self.problem = ""
        self._answered = answered
        self._ended = ended
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error or "it closed the connection"))

    def data_received(self, data: bytes) -> None:
        try:
            self._frames.feed(data)
            while (reply := self._frames.next()) is not None:
                if reply.is_response:
                    self._answered(reply.opaque)
        except ProtocolError as error:
            self._end(str(error))

    def _end(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._ended()
