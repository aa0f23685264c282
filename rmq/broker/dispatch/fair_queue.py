"""Fair queue: serves connections in turn, so that a client with many requests delays no other.

    queue.add(connection, kind, payload)      queues a request behind others of its connection
    queue.take()                              the next request of the connection whose turn it is,
                                              with the time at which it came, or None
    queue.answered(connection, bytes)         notes that so many bytes were sent to the client

Connections take turns, one request each. A connection is passed over

- while more than ANSWERS_MAX bytes of answers to it have not left: the client does not read them,
  so its socket is not read either (core.hold()). The reactor is asked to report when they have left
  (core.report_drained()); then drained() lets the connection go on;
- while WAITING_MAX of its requests are under way, their handlers waiting for something.

When HELD_AT requests of a connection wait here, its socket is not read any more (core.hold()) until
they have been served. So at most a few hundred requests of a connection wait here. When
WAITING_ALL_MAX requests, or WAITING_BYTES_MAX of them, wait over all connections, then of the
connections that do not read their answers the one with the most waiting is closed.

A connection that is gone cannot read answers: its requests that expect an answer are dropped, its
one-way requests are served, and after them CLOSED is the last that take() returns for it.

Example: 60 clients ask for a large table a thousand times each and read nothing, and another client
sends a heartbeat. The heartbeat is served after at most 60 of the other requests, and those stop
when each client has been given 256 KiB.
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
    """The waiting requests of one connection."""

    __slots__ = (
        "answer_bytes", "connection", "drains", "gone", "held", "in_turn", "items", "waiting",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.items: deque[Item] = deque()
        self.answer_bytes = 0  # given to the reactor since the client had read everything
        self.drains = False  # the reactor will report when they have left
        self.held = False  # the reactor does not read the client's socket
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
        """How many requests wait here."""
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
        """Drops the connection's requests that expect an answer, and puts CLOSED behind the
        others."""
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
        """The next request; None when there is none, or all connections are passed over."""
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
            return  # none of its requests wait; the reactor itself limits unread answers
        line.answer_bytes += size
        if line.answer_bytes > ANSWERS_MAX and not line.drains:
            self._hold(line)
            line.drains = True
            self._core.report_drained(connection.number)

    def drained(self, connection: Connection) -> None:
        """Lets the connection go on: everything that was sent to it has left."""
        line = self._lines.get(connection.number)
        if line is not None and line.drains:
            line.drains = False
            line.answer_bytes = 0
            self._join(line)
            self._rest(line)

    def waits(self, connection: Connection, change: int) -> None:
        """Notes that one more (1) or one less (-1) of the connection's requests is under way."""
        if connection.closed or connection.number < 0:
            return
        line = self._line(connection)
        if line.gone:
            return
        line.waiting = max(0, line.waiting + change)
        self._join(line)
        self._rest(line)

    def close_greediest(self) -> int | None:
        """The number of the connection, among those that do not read their answers, of which most
        waits; the caller closes it. None when all waiting requests can be served."""
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
        """Forgets a line that has nothing waiting; its socket is read again."""
        if line.items or line.drains or line.waiting:
            return
        if line.held:
            line.held = False
            self._core.release(line.connection.number)
        if self._lines.get(line.connection.number) is line and not line.in_turn:
            del self._lines[line.connection.number]
