"""Sender: messages on their way from an executor to the brokers, several batches under way.

    sender = Sender(options, access)
    sender.add(topic, shard, properties, body)        goes out when the queue's batch is full
    sender.add(..., single=True)                      delayed and half messages cannot be batched
    sender.flush()                                    returns when every send is acknowledged

At least once: a send that is lost with its connection, or that a busy broker refuses, is repeated
with the same unique keys for pollTimeoutMs, so that brokers and name servers may restart. A send
that is refused for another reason that may pass is repeated elsewhere, sendRetries times.

A send that the broker answers with 10, 11 or 12 also counts as stored: the broker has it, but its
disk or a slave was late. As that is less than the broker promises, flush() logs their number.

In order: a queue that a key has chosen has one ordered send under way, so that no later send
overtakes one that is repeated. Sends to other queues, and rows without a key, do not wait for it.
"""

from __future__ import annotations

import logging
import secrets
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from rmq.arrow.access import Access, GuardedCluster
from rmq.arrow.options import Options
from rmq.arrow.queues import (
    AWAY,
    BROKER_UNKNOWN,
    FIRST_PAUSE,
    LAST_PAUSE,
    PARTITIONS_PER_BROKER,
)
from rmq.client.blocking.connection import Connection
from rmq.codes import TRANSACTION_PREPARED_TYPE, RequestCode, ResponseCode
from rmq.errors import RemoteError, RouteError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command
from rmq.names import AUTO_CREATE_TOPIC

log = logging.getLogger("rmq.arrow")
WINDOW = 8  # sends under way at each broker
BATCH_ROWS = 8192  # brokers refuse batches of many more
DEFAULT_QUEUES = 4
_HEAD = struct.Struct(">iiiii")  # size, magic, crc, flag, body bytes
# With all codes but the first the disk or a slave was late.
_STORED = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
}
_TRY_AGAIN = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
}
T = TypeVar("T")
Answered = Callable[[MessageQueue, Command], None]


@dataclass
class Send:
    """One request: a batch or a single message."""

    topic: str
    queue: MessageQueue
    body: bytes
    properties: str
    batch: bool
    half: bool
    pinned: bool  # its queue is given by a key or a partition, not by turn
    refusals: int = 0
    waiting_since: float | None = None

    @property
    def is_ordered(self) -> bool:
        """Half messages need no order: they are committed in the order of their rows."""
        return self.pinned and not self.half


class Sender:
    """Used by one thread."""

    def __init__(self, options: Options, access: Access, answered: Answered | None = None) -> None:
        self._options = options
        self._cluster: GuardedCluster = access.cluster()
        self._answered = answered
        self._queues: dict[str, list[MessageQueue]] = {}  # by topic: those that can be written
        # The queues among which keys choose, as found first: a key must not change its queue.
        self._keyed: dict[str, list[MessageQueue]] = {}
        # Brokers by the numbers that readers give them, as found first: when one goes away later,
        # the numbers must not shift.
        self._brokers: dict[str, list[str]] = {}
        self._writable: dict[str, frozenset[MessageQueue]] = {}
        self._pinned: set[MessageQueue] = set()  # queues whose gathered batch is pinned
        # The turn begins anywhere, as each small batch of a stream has a sender of its own. The
        # numbers of `random` are the same in all workers that Spark forks.
        self._turn = secrets.randbits(16)
        self._gathered: dict[MessageQueue, list[bytes]] = {}
        self._gathered_bytes: dict[MessageQueue, int] = {}
        self._in_flight: dict[Connection, dict[int, Send]] = {}
        self._again: deque[Send] = deque()
        self._ordered: set[MessageQueue] = set()  # with an ordered send that is not stored yet
        self._late: Counter[int] = Counter()  # code -> sends that were stored with it; not with 0
        self._pause = FIRST_PAUSE
        self._patience = options.poll_timeout_ms / 1000

    def close(self) -> None:
        self._cluster.close()

    def add(
        self,
        topic: str,
        shard: int | None,
        properties: bytes,
        body: bytes,
        *,
        single: bool = False,
        half: bool = False,
        partition: int | None = None,
    ) -> None:
        """Adds one message. `shard` chooses its queue (modulo their number); None: the next one in
        turn. `partition` names its queue (rows.Outgoing); RouteError: there is no such queue."""
        if partition is None:
            queue = self._choose(topic, shard)
        else:
            queue = self._of_partition(topic, partition)
        pinned = shard is not None or partition is not None
        size = _HEAD.size + len(body) + 2 + len(properties)
        most = self._options.batch_send_bytes
        held = self._gathered_bytes.get(queue, 0)
        if single or half or size > most:  # brokers refuse the largest body when it is in a batch
            if held and size > most:
                self._send_gathered(queue)
            self._put(Send(topic, queue, body, properties.decode(), False, half, pinned))
            if not pinned:
                self._turn += 1
            return
        if held and (held + size > most or len(self._gathered[queue]) == BATCH_ROWS):
            self._send_gathered(queue)
            if not pinned:
                self._turn += 1
                queue = self._choose(topic, None)
        if pinned:
            self._pinned.add(queue)  # rows without a key in this batch must stay with it
        self._gathered.setdefault(queue, []).append(
            _HEAD.pack(size, 0, 0, 0, len(body)) + body
            + len(properties).to_bytes(2, "big") + properties
        )  # fmt: skip
        self._gathered_bytes[queue] = self._gathered_bytes.get(queue, 0) + size

    def add_encoded(self, topic: str, body: bytes) -> None:
        """Sends a whole batch, as cext/arrow/encoder makes it, to the next queue in turn."""
        self._turn += 1
        if len(body) > self._options.batch_send_bytes:  # one large message
            *_, length = _HEAD.unpack_from(body)
            end = _HEAD.size + length
            self.add(topic, None, body[end + 2 :], body[_HEAD.size : end], single=True)
            return
        queue = self._choose(topic, None)
        self._put(Send(topic, queue, body, "", True, False, False))

    def flush(self) -> None:
        for queue in list(self._gathered):
            self._send_gathered(queue)
        while self._again or any(self._in_flight.values()):
            self._collect(0)
            self._put_again()
        if self._late:
            told = ", ".join(f"{ResponseCode(code).name} {n}" for code, n in self._late.items())
            log.warning(
                "%s sends were stored, but are less safe than the broker promises, as its disk or "
                "a slave was late: %s", self._late.total(), told,
            )  # fmt: skip
            self._late.clear()

    def _send_gathered(self, queue: MessageQueue) -> None:
        pinned = queue in self._pinned
        self._pinned.discard(queue)
        body = b"".join(self._gathered.pop(queue))
        self._gathered_bytes.pop(queue)
        self._put(Send(queue.topic, queue, body, "", True, False, pinned))

    def _choose(self, topic: str, shard: int | None) -> MessageQueue:
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._patiently(partial(self._find, topic))
        if shard is None:
            return queues[self._turn % len(queues)]
        queues = self._keyed.setdefault(topic, queues)
        return queues[shard % len(queues)]

    def _of_partition(self, topic: str, partition: int) -> MessageQueue:
        self._choose(topic, None)
        number, queue_id = divmod(partition, PARTITIONS_PER_BROKER)
        if number >= len(self._brokers[topic]):
            raise _no_partition(topic, partition)
        wanted = MessageQueue(topic, self._brokers[topic][number], queue_id)
        if wanted not in self._writable[topic]:
            self._patiently(partial(self._require, wanted, partition))
        return wanted

    def _require(self, wanted: MessageQueue, partition: int) -> None:
        """RouteError: there is no such queue. RemoteError: its broker is away."""
        topic = wanted.topic
        self._queues[topic] = self._find(topic)
        if wanted in self._writable[topic]:
            return
        if any(each.broker_name == wanted.broker_name for each in self._writable[topic]):
            raise _no_partition(topic, partition)
        raise RemoteError(
            BROKER_UNKNOWN, f"no queue of {topic} at {wanted.broker_name} is writable"
        )

    def _patiently(self, question: Callable[[], T]) -> T:
        """The answer. While brokers are away the question is put again, for pollTimeoutMs."""
        deadline, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                return question()
            except (UnreachableError, RemoteError) as error:
                if isinstance(error, RemoteError) and error.code not in AWAY:
                    raise
                if time.monotonic() > deadline:
                    raise self._given_up(error) from None
                log.warning("waiting for brokers: %s", error)
            time.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)

    def _find(self, topic: str) -> list[MessageQueue]:
        route = self._cluster.if_known(partial(self._cluster.route, topic))
        if route is not None:
            queues = route.writable()
            known = route.readable()
        else:
            template = self._cluster.if_known(partial(self._cluster.route, AUTO_CREATE_TOPIC))
            if template is None:
                raise RemoteError(
                    ResponseCode.TOPIC_NOT_EXIST,
                    f"topic {topic} does not exist: rmq topic create {topic}",
                )
            queues = [queue._replace(topic=topic) for queue in template.writable()
                      if queue.queue_id < DEFAULT_QUEUES]  # fmt: skip
            known = queues
        if not queues:
            raise RemoteError(ResponseCode.NO_PERMISSION, f"no queue of {topic} is writable")
        self._brokers.setdefault(topic, sorted({each.broker_name for each in known}))
        self._writable[topic] = frozenset(queues)
        return sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))

    def _put(self, send: Send) -> None:
        """Sends when the broker's window allows; failures wait in self._again."""
        self._put_again()
        if send.is_ordered:
            while send.queue in self._ordered:
                self._collect_of(send.queue)
                self._put_again()
            self._ordered.add(send.queue)
        self._start(send)

    def _put_again(self) -> None:
        """Repeats the failed sends in order, after a pause that grows until something is stored."""
        while self._again:
            time.sleep(self._pause)
            self._pause = min(self._pause * 2, LAST_PAUSE)
            away: set[str] = set()
            for _ in range(len(self._again)):
                send = self._again.popleft()
                if not send.pinned or send.refusals > 1:
                    self._queues.pop(send.topic, None)
                    self._turn += 1
                if not send.pinned:
                    send.queue = self._choose(send.topic, None)
                if send.queue.broker_name in away:
                    self._again.append(send)
                elif not self._start(send):
                    away.add(send.queue.broker_name)

    def _start(self, send: Send) -> bool:
        """False: the send failed at once."""
        if any(len(each) >= WINDOW for each in self._in_flight.values()):
            self._collect(WINDOW - 1)
        code = RequestCode.SEND_BATCH_MESSAGE if send.batch else RequestCode.SEND_MESSAGE_V2
        try:
            connection = self._cluster.broker(send.queue.broker_name)
            opaque = connection.submit(code, self._fields(send), send.body)
        except (UnreachableError, RemoteError) as error:
            self._failed(send, error)
            return False
        self._in_flight.setdefault(connection, {})[opaque] = send
        return True

    def _fields(self, send: Send) -> Mapping[str, Any]:
        return {
            "a": self._options.producer_group, "b": send.topic, "c": AUTO_CREATE_TOPIC,
            "d": DEFAULT_QUEUES, "e": send.queue.queue_id,
            "f": TRANSACTION_PREPARED_TYPE if send.half else 0,
            "g": int(time.time() * 1000), "h": 0, "i": send.properties, "j": 0, "k": False,
            "m": send.batch, "n": send.queue.broker_name,
        }  # fmt: skip

    def _collect(self, allowed: int) -> None:
        """Takes answers until no connection has more than `allowed` sends under way."""
        for connection, waiting in list(self._in_flight.items()):
            # Sends that are under way over a closed connection must be repeated.
            while len(waiting) > (allowed if connection.fileno() >= 0 else 0):
                self._receive(connection, waiting)
            if connection.fileno() < 0:
                self._in_flight.pop(connection, None)

    def _collect_of(self, queue: MessageQueue) -> None:
        """Takes an answer from the connection over which an ordered send to the queue is under
        way."""
        for connection, waiting in self._in_flight.items():
            if any(each.queue == queue and each.is_ordered for each in waiting.values()):
                self._receive(connection, waiting)
                return

    def _receive(self, connection: Connection, waiting: dict[int, Send]) -> None:
        """Takes an answer. When none comes, all sends that wait on the connection have failed."""
        try:
            reply = connection.receive(self._options.send_timeout_ms / 1000)
            if reply is None:
                connection.close()
                raise UnreachableError(f"{connection.address}: no answer to a send")
        except UnreachableError as error:
            lost = list(waiting.values())
            waiting.clear()
            for send in lost:
                self._failed(send, error)
            return
        send_done = waiting.pop(reply.opaque, None)
        if send_done is None:
            return
        if reply.code in _STORED:
            self._pause = FIRST_PAUSE
            if reply.code:
                self._late[reply.code] += 1
            if send_done.is_ordered:
                self._ordered.discard(send_done.queue)
            if self._answered is not None:
                self._answered(send_done.queue, reply)
        else:
            self._failed(send_done, RemoteError(reply.code, reply.remark or "no reason given"))

    def _failed(self, send: Send, error: UnreachableError | RemoteError) -> None:
        """Lets the send be repeated; raises the error when that is not allowed, or no longer."""
        if isinstance(error, RemoteError) and error.code not in AWAY:
            send.refusals += 1
            if error.code not in _TRY_AGAIN or send.refusals > self._options.send_retries:
                raise error
        else:
            if send.waiting_since is None:
                send.waiting_since = time.monotonic()
            if time.monotonic() - send.waiting_since > self._patience:
                raise self._given_up(error)
            if isinstance(error, UnreachableError) or error.code == BROKER_UNKNOWN:
                self._cluster.forget(send.queue.broker_name)
        self._again.append(send)

    def _given_up(self, error: Exception) -> UnreachableError:
        return UnreachableError(
            f"{error}; given up after pollTimeoutMs={self._options.poll_timeout_ms}"
        )


def _no_partition(topic: str, partition: int) -> RouteError:
    return RouteError(
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic {topic} has no partition {partition} that can be written",
    )
