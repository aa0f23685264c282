"""Fair queue: the connections' requests in turn, so that nobody waits for another's many.

    queue.add(connection, kind, payload)      behind what waits of this connection
    queue.take()                              the next of the next connection in turn, with when it
                                              came, or None
    queue.answered(connection, bytes)         so much more is on its way to the client

Connections take turns, one request each. A connection is left out of it

- while answers of more than ANSWERS_MAX bytes have not left for it: it does not read them, and is
  not read (core.hold()). The reactor is asked to report when they have (core.report_drained()), and
  drained() goes on;
- while so many of its requests are under way that wait for something (WAITING_MAX).

One of which HELD_AT requests wait is not read any more (core.hold()) until they have been served.
So what waits here is a few hundred requests of a connection at most; where WAITING_ALL_MAX of them
or WAITING_BYTES_MAX wait in all, the connection with the most of those that do not read their
answers is closed.

A connection that is gone reads nothing more: its requests that expect an answer are dropped, the
one-way ones are served, and gone(connection) is what comes last of it.

Example: 60 clients ask for a large table a thousand times each and read nothing, another one sends
a heartbeat: it is served after at most 60 of the others' requests, and theirs stop when each has
been given 256 KiB.
"""

import logging
from collections import deque
from collections.abc import Callable

from rmq.base import clock
from rmq.broker.clients.connections import Connection
from rmq.broker.core_seam import CLOSED, REQUEST, ConnectionCalls

log = logging.getLogger("rmq.broker.fair_queue")

ANSWERS_MAX = 256 * 1024
HELD_AT = 64
WAITING_MAX = 128
WAITING_ALL_MAX = 16_384
WAITING_BYTES_MAX = 32 << 20

Item = tuple[int, bytes, float]  # kind, payload, when it came


class ConnectionQueue:
    """The requests of one connection that wait."""

    __slots__ = (
        "answer_bytes", "connection", "drains", "gone", "held", "in_turn", "items", "waiting",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.items: deque[Item] = deque()
        self.answer_bytes = 0  # given to the reactor since the client had read all
        self.drains = False  # the reactor reports when they have left
        self.held = False  # the reactor does not read the client
        self.in_turn = False
        self.waiting = 0  # its requests under way
        self.gone = False  # closed: the answers of its requests under way no longer count

    @property
    def is_open(self) -> bool:
        """Whether its next request may be served."""
        return bool(self.items) and not self.drains and self.waiting < WAITING_MAX


class FairQueue:
    """Owned by the control thread."""

    def __init__(self, core: ConnectionCalls, expects_answer: Callable[[bytes], bool]) -> None:
        self._core = core
        self._expects_answer = expects_answer
        self._lines: dict[int, ConnectionQueue] = {}
        self._turn: deque[ConnectionQueue] = deque()
        self._waiting_count = 0
        self._waiting_bytes = 0

    def __len__(self) -> int:
        """Requests that wait here."""
        return self._waiting_count

    @property
    def any_open(self) -> bool:
        return bool(self._turn)

    @property
    def is_full(self) -> bool:
        return self._waiting_count >= WAITING_ALL_MAX or self._waiting_bytes >= WAITING_BYTES_MAX

    def add(self, connection: Connection, kind: int, payload: bytes) -> None:
        line = self._line(connection)
        self._put(line, kind, payload)
        if not line.held and len(line.items) > HELD_AT:
            self._hold(line)
        self._join(line)

    def gone(self, connection: Connection) -> None:
        """Requests that expect an answer are dropped; CLOSED comes after the rest."""
        line = self._line(connection)
        kept = [
            item for item in line.items if item[0] == REQUEST and not self._expects_answer(item[1])
        ]
        self._waiting_count -= len(line.items)
        self._waiting_bytes -= sum(len(item[1]) for item in line.items)
        line.items.clear()
        line.gone = True
        line.drains = line.held = False
        line.answer_bytes = line.waiting = 0
        for kind, payload, came in kept:
            self._put(line, kind, payload, came)
        self._put(line, CLOSED, b"")
        self._join(line)

    def take(self) -> tuple[Connection, int, bytes, float] | None:
        """The next request; None when there is none, or all of them have to wait."""
        while self._turn:
            line = self._turn.popleft()
            line.in_turn = False
            if not line.is_open:
                continue
            kind, payload, came = line.items.popleft()
            self._waiting_count -= 1
            self._waiting_bytes -= len(payload)
            self._join(line)
            self._rest(line)
            return line.connection, kind, payload, came
        return None

    def answered(self, connection: Connection, size: int) -> None:
        line = self._lines.get(connection.number)
        if line is None or line.gone:
            return  # no request of it waits here: the reactor's limit of unread answers holds
        line.answer_bytes += size
        if line.answer_bytes > ANSWERS_MAX and not line.drains:
            self._hold(line)
            line.drains = True
            self._core.report_drained(connection.number)

    def drained(self, connection: Connection) -> None:
        """All that was sent to it has left."""
        line = self._lines.get(connection.number)
        if line is not None and line.drains:
            line.drains = False
            line.answer_bytes = 0
            self._join(line)
            self._rest(line)

    def waits(self, connection: Connection, change: int) -> None:
        """One request more (1) or less (-1) of the connection is under way."""
        if connection.closed or connection.number < 0:
            return
        line = self._line(connection)
        if line.gone:
            return
        line.waiting = max(0, line.waiting + change)
        self._join(line)
        self._rest(line)

    def close_greediest(self) -> int | None:
        """Of the connections that do not read their answers the one of which most waits: its
        number, for the caller to close. None when all that waits can be served."""
        deaf = [line for line in self._lines.values() if line.drains and line.items]
        if not deaf:
            return None
        line = max(deaf, key=lambda each: sum(len(item[1]) + 100 for item in each.items))
        self._waiting_count -= len(line.items)
        self._waiting_bytes -= sum(len(item[1]) for item in line.items)
        line.items.clear()
        return line.connection.number

    # ---- one line

    def _line(self, connection: Connection) -> ConnectionQueue:
        line = self._lines.get(connection.number)
        if line is None:
            line = self._lines[connection.number] = ConnectionQueue(connection)
        return line

    def _put(
        self, line: ConnectionQueue, kind: int, payload: bytes, came: float | None = None
    ) -> None:
        line.items.append((kind, payload, clock.monotonic() if came is None else came))
        self._waiting_count += 1
        self._waiting_bytes += len(payload)

    def _join(self, line: ConnectionQueue) -> None:
        if not line.in_turn and line.is_open:
            line.in_turn = True
            self._turn.append(line)

    def _hold(self, line: ConnectionQueue) -> None:
        if not line.held:
            line.held = True
            self._core.hold(line.connection.number)

    def _rest(self, line: ConnectionQueue) -> None:
        """A line of which nothing waits is read again and forgotten."""
        if line.items or line.drains or line.waiting:
            return
        if line.held:
            line.held = False
            self._core.release(line.connection.number)
        if self._lines.get(line.connection.number) is line and not line.in_turn:
            del self._lines[line.connection.number]
