"""Broker to client: requests from the broker to its clients, matched with their replies.

    one_way()   40 notify consumer ids changed, 220 reset offset: sent, no reply is awaited
    call()      307 running info, 309 consume directly, 221 consumer status: awaited with a timeout

A counter of this module gives calls their opaque; a reply is matched by connection and opaque
together, so no client can answer for another. When a connection closes, its calls fail at once.

Example: call(connection, Command(code=307, ..), 10.0) returns the client's reply, or raises
CallTimeout after 10 s, or ClientGone.
"""

import asyncio
import itertools

from rmq.base.deadline import within
from rmq.broker.clients.connections import Connection
from rmq.broker.core_seam import ConnectionCalls
from rmq.codes import FLAG_ONE_WAY, RequestCode
from rmq.errors import RmqError
from rmq.format.remoting import Command, encode

CALLS_MAX = 4096  # waiting at once, over all connections
OPAQUE_MASK = 0x3FFFFFFF  # the reactor uses the bit above (cext/flow/request_reply/reply_table.pxd)


class CallTimeout(RmqError):
    """The client did not answer in time."""


class ClientGone(RmqError):
    """The client's connection is closed."""


class BrokerToClient:
    """Owned by the control thread."""

    def __init__(self, core: ConnectionCalls) -> None:
        self._core = core
        self._opaques = itertools.count(1)
        self._waiting: dict[tuple[int, int], asyncio.Future[Command]] = {}

    def one_way(self, connection: Connection, command: Command) -> None:
        command.flag |= FLAG_ONE_WAY
        command.opaque = self._next_opaque()
        self._core.send(connection.number, encode(command))

    async def call(self, connection: Connection, command: Command, timeout_s: float) -> Command:
        if connection.closed:
            raise ClientGone(f"{connection.address} is not connected any more")
        if len(self._waiting) >= CALLS_MAX:
            raise CallTimeout(f"{CALLS_MAX} calls to clients are waiting already")
        command.opaque = self._next_opaque()
        key = (connection.number, command.opaque)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        try:
            self._core.send(connection.number, encode(command))
            return await within(future, timeout_s)
        except asyncio.TimeoutError:
            raise CallTimeout(
                f"{connection.address} did not answer request {command.code} within {timeout_s} s"
            ) from None
        finally:
            self._waiting.pop(key, None)

    def answered(self, connection: Connection, reply: Command) -> bool:
        """Passes a client's response to the waiting call; False when no call waits (any more)."""
        future = self._waiting.get((connection.number, reply.opaque))
        if future is None or future.done():
            return False
        future.set_result(reply)
        return True

    def connection_closed(self, connection: Connection) -> None:
        for (number, _), future in list(self._waiting.items()):
            if number == connection.number and not future.done():
                future.set_exception(ClientGone(f"{connection.address} closed its connection"))

    def notify_ids_changed(self, connection: Connection, group: str) -> None:
        """Code 40: the members of the group have changed, rebalance."""
        self.one_way(
            connection,
            Command(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields={"consumerGroup": group}),
        )

    def _next_opaque(self) -> int:
        return next(self._opaques) & OPAQUE_MASK
