"""HA client: as slave, the connection by which the log comes; it is made again whenever it ends.

    search the master -> connect to its HA port, by TLS with rmqReplicaTls=enforcing -> give the
    socket to the reactor (core.follow_master)
    -> the reactor says that it is closed -> find out why -> after RETRY_S, or BLOCKED_RETRY_S,
    begin again

Trouble that will not pass by itself (the logs differ, bytes that are no record) is logged once as
an error, with what to do; trouble that passes (the master is not there) once as a warning.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from rmq.base import clock
from rmq.base.deadline import within
from rmq.broker import core_seam
from rmq.broker.certificates import master_context
from rmq.broker.clients.connections import Connection, Connections
from rmq.broker.core_seam import HACalls
from rmq.broker.replication.ha_port import ENFORCING
from rmq.broker.replication.ha_socket import HASocket
from rmq.broker.replication.master_search import SOON_S, Master, MasterSearch
from rmq.config import Settings
from rmq.errors import RmqError, StoreError
from rmq.serving.remoting_client import parse_address

log = logging.getLogger("rmq.broker.ha_client")

RETRY_S = 1.0
BLOCKED_RETRY_S = 5.0  # where an operator must do something first
CONNECT_S = 3.0

WIPE = "stop this broker, remove its store, and start it again: it then copies the whole log"
# For a log that is older than the controller, and may be the one that has the messages.
LEAD_OR_WIPE = (
    "should it have messages that the master lacks, stop all brokers of this brokerName, have the "
    "controller forget it (mqadmin cleanBrokerMetadata), start this one first, and the others with "
    f"empty stores; else {WIPE}"
)
BELOW = "the log of this slave ends at {}, and that of its master {} begins at {}; " + WIPE
# (what happened, what to do; empty: it passes). A new epoch is no failure: see _follow().
FAILURES = {
    core_seam.HA_CLOSED: ("the master closed the connection", ""),
    core_seam.HA_MALFORMED: ("what the master sends is not its protocol",
        "look whether haMasterAddress is its HA port"),
    core_seam.HA_ELSEWHERE: ("the master's log does not go on where this one ends", WIPE),
    core_seam.HA_CORRUPT: (
        "what the master sends is no record of the place where this log ends", WIPE),
    core_seam.HA_NO_ROOM: ("the disk of this slave is full", "make room on it"),
    core_seam.HA_POISONED: ("this slave's log takes no more after a failed write",
        "restart it on a sound disk"),
    core_seam.HA_TOO_LARGE: ("the master sends a record larger than this slave takes",
        "set maxMessageSize and rmqRingBytes as the master has them"),
}  # fmt: skip


def check_reach(own_range: tuple[int, int], master: Master) -> None:
    """StoreError: the master has already deleted the bytes that this log, which is not empty, needs
    next."""
    start, end = own_range
    if start < end < master.log_start:
        raise StoreError(BELOW.format(end, master.address, master.log_start))


class HAClientContext(Protocol):
    """What is used here of the broker."""

    connections: Connections
    settings: Settings


class HAClient:
    """Owned by the control thread."""

    def __init__(self, context: HAClientContext, core: HACalls, search: MasterSearch) -> None:
        self._context = context
        self._core = core
        self._search = search
        self._closed = asyncio.Event()
        self._connection: Connection | None = None
        self._said = ""
        self.handshake: Callable[[HASocket, Master], Awaitable[None]] | None = None
        self.tail: Callable[[], str] = str  # checksum of this log's tail, for the master to compare
        self.tries_soon = 0  # how often it is tried again after a short pause
        self._is_short = False  # the last connection ended as soon as it was made
        self.master: Master | None = None  # the last master that was found
        self.problem = ""  # why the log does not come; empty while it does

    @property
    def follows(self) -> str:
        """The address from which the log comes now; empty: it does not come."""
        if self._connection is None or self.master is None:
            return ""
        return self.master.ha_address

    async def run(self) -> None:
        """Runs until it is cancelled."""
        try:
            while True:
                try:
                    pause_s = await self._follow()
                except Exception as error:  # after any error a slave must try again
                    self._say(logging.ERROR, f"the log does not come: {error!r}")
                    pause_s = BLOCKED_RETRY_S
                await asyncio.sleep(pause_s)
        finally:
            self._core.leave_master()

    def connection_closed(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            self._closed.set()

    async def _follow(self) -> float:
        """Runs one connection from its beginning to its end; returns how long to wait after it."""
        try:
            master = await self._search.find(await asyncio.to_thread(self.tail))
            connected = HASocket(await within(connect(master.ha_address), CONNECT_S))
            with closing_at_failure(connected):
                settings = self._context.settings
                if settings.rmqReplicaTls == ENFORCING:
                    context = master_context(settings)
                    await within(connected.secure(context, serves=False), CONNECT_S)
                if self.handshake is not None:
                    await self.handshake(connected, master)
            self._closed.clear()
            whole = not master.is_rmq and master.log_start == 0
            number = self._core.follow_master(connected.detach(), int(whole), connected.tls)
        except StoreError as error:
            self._say(logging.ERROR, f"the log does not come: {error}")
            return BLOCKED_RETRY_S
        except (RmqError, OSError, asyncio.TimeoutError) as error:
            if self.tries_soon > 0:  # the master gets ready, and nothing is wrong yet
                self.tries_soon -= 1
                return SOON_S
            reason = str(error) or "no answer in time"
            self._say(logging.WARNING, f"the log does not come: {reason}")
            return RETRY_S
        self.master = master
        self._connection = self._context.connections.opened(number, master.ha_address)
        self.problem = ""
        if not self._is_short:
            log.info("the log comes from the master at %s", master.ha_address)
        began = clock.monotonic()
        await self._closed.wait()
        self._is_short = clock.monotonic() - began < BLOCKED_RETRY_S
        if not self._is_short:
            self._said = ""
        code = self._core.ha_client()[4]
        if code == core_seam.HA_NEW_EPOCH:  # the handshake of the next connection tells of it
            return 0.0
        what, remedy = FAILURES.get(code, (f"failure {code}", ""))
        if not remedy:
            self._say(logging.WARNING, f"the log does not come any more: {what}")
            return BLOCKED_RETRY_S if self._is_short else RETRY_S
        self._say(logging.ERROR, f"the log does not come any more: {what}; {remedy}")
        return BLOCKED_RETRY_S

    def _say(self, level: int, text: str) -> None:
        """Logs a text, but not the same one twice in a row."""
        self.problem = text
        if text != self._said:
            self._said = text
            log.log(level, "%s; it is tried again and again", text)


@contextlib.contextmanager
def closing_at_failure(sock: HASocket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sock.close()
        raise


async def connect(address: str) -> socket.socket:
    """A connected, non-blocking socket; OSError, or CallError if `address` is no address."""
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problem: OSError = OSError(f"{address}: no such host")
    for family, kind, protocol, _, where in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, where)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError as error:
            made.close()
            problem = error
        except BaseException:
            made.close()
            raise
    raise problem
