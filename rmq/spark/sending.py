"""Messages on their way from an executor to the brokers: batched, several sends under way.

    sender = Sender(options, access)
    sender.add(topic, shard, properties, body)        goes out when the queue's batch is full
    sender.add(..., single=True)                      delayed and half messages cannot be batched
    sender.flush()                                    returns when every send is acknowledged

A send that a broker refuses for the moment, or that is lost with its connection, is put again on
another queue, sendRetries times: at least once, with the same unique keys.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.remoting import Command
from rmq.spark.access import Access, GuardedCluster
from rmq.spark.options import Options

WINDOW = 8  # sends under way at each broker
DEFAULT_TOPIC, DEFAULT_QUEUES = "TBW102", 4
HALF = 4  # sys flag of a message that waits for the end of its transaction
_HEAD = struct.Struct(">iiiii")  # size, magic, crc, flag, body bytes
# 0 stored; 10, 11, 12: stored, but the disk or a slave was late.
_STORED = {0, 10, 11, 12}
_TRY_AGAIN = {1, 2, 14, 16, 17, 204, 205}
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
    pinned: bool  # its queue is given by the key, not by turn
    attempts: int = 0


class Sender:
    """Used by one thread."""

    def __init__(self, options: Options, access: Access, answered: Answered | None = None) -> None:
        self._options = options
        self._cluster: GuardedCluster = access.cluster()
        self._answered = answered
        self._queues: dict[str, list[MessageQueue]] = {}
        self._turn = 0
        self._gathered: dict[MessageQueue, list[bytes]] = {}
        self._gathered_bytes: dict[MessageQueue, int] = {}
        self._under_way: dict[Connection, dict[int, Send]] = {}
        self._again: deque[Send] = deque()

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
    ) -> None:
        """One message; `shard` chooses its queue (modulo their number), None the next in turn."""
        queue = self._choose(topic, shard)
        if single or half:
            self._put(Send(topic, queue, body, properties.decode(), False, half, shard is not None))
            return
        size = _HEAD.size + len(body) + 2 + len(properties)
        held = self._gathered_bytes.get(queue, 0)
        if held and held + size > self._options.batch_send_bytes:
            self._send_gathered(queue, shard is not None)
            if shard is None:
                self._turn += 1
                queue = self._choose(topic, None)
        self._gathered.setdefault(queue, []).append(
            _HEAD.pack(size, 0, 0, 0, len(body)) + body
            + len(properties).to_bytes(2, "big") + properties
        )  # fmt: skip
        self._gathered_bytes[queue] = self._gathered_bytes.get(queue, 0) + size

    def add_encoded(self, topic: str, body: bytes) -> None:
        """A whole batch as cext/arrow/encoder makes it, to the next queue in turn."""
        queue = self._choose(topic, None)
        self._turn += 1
        self._put(Send(topic, queue, body, "", True, False, False))

    def flush(self) -> None:
        for queue in list(self._gathered):
            self._send_gathered(queue, True)
        while self._again or any(self._under_way.values()):
            self._collect(0)
            self._put_again()

    def _send_gathered(self, queue: MessageQueue, pinned: bool) -> None:
        body = b"".join(self._gathered.pop(queue))
        self._gathered_bytes.pop(queue)
        self._put(Send(queue.topic, queue, body, "", True, False, pinned))

    def _choose(self, topic: str, shard: int | None) -> MessageQueue:
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._find(topic)
        return queues[(self._turn if shard is None else shard) % len(queues)]

    def _find(self, topic: str) -> list[MessageQueue]:
        try:
            queues = self._cluster.route(topic).writable()
        except RemoteError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            try:
                template = self._cluster.route(DEFAULT_TOPIC).writable()
            except RemoteError:
                raise RemoteError(
                    error.code, f"topic {topic} does not exist: rmq topic create {topic}"
                ) from None
            queues = [queue._replace(topic=topic) for queue in template
                      if queue.queue_id < DEFAULT_QUEUES]  # fmt: skip
        if not queues:
            raise RemoteError(ResponseCode.NO_PERMISSION, f"no queue of {topic} is writable")
        return sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))

    def _put(self, send: Send) -> None:
        """Sends when the broker's window allows; failures wait in self._again."""
        self._put_again()
        self._start(send)

    def _put_again(self) -> None:
        while self._again:
            send = self._again.popleft()
            time.sleep(min(0.05 * 2**send.attempts, 2.0))
            if not send.pinned or send.attempts > 1:
                self._queues.pop(send.topic, None)
                self._turn += 1
                if not send.pinned:
                    send.queue = self._choose(send.topic, None)
            self._start(send)

    def _start(self, send: Send) -> None:
        try:
            connection = self._cluster.broker(send.queue.broker_name)
            while len(self._under_way.get(connection, ())) >= WINDOW:
                self._collect(WINDOW - 1)
            code = RequestCode.SEND_BATCH_MESSAGE if send.batch else RequestCode.SEND_MESSAGE_V2
            opaque = connection.submit(code, self._fields(send), send.body)
        except (UnreachableError, RemoteError) as error:
            self._failed(send, error)
            return
        self._under_way.setdefault(connection, {})[opaque] = send

    def _fields(self, send: Send) -> Mapping[str, Any]:
        return {
            "a": self._options.producer_group, "b": send.topic, "c": DEFAULT_TOPIC,
            "d": DEFAULT_QUEUES, "e": send.queue.queue_id, "f": HALF if send.half else 0,
            "g": int(time.time() * 1000), "h": 0, "i": send.properties, "j": 0, "k": False,
            "m": send.batch, "n": send.queue.broker_name,
        }  # fmt: skip

    def _collect(self, allowed: int) -> None:
        """Takes answers until no connection has more than `allowed` sends under way."""
        for connection, waiting in list(self._under_way.items()):
            while len(waiting) > allowed:
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
                    break
                send_done = waiting.pop(reply.opaque, None)
                if send_done is None:
                    continue
                if reply.code in _STORED:
                    if self._answered is not None:
                        self._answered(send_done.queue, reply)
                else:
                    self._failed(
                        send_done, RemoteError(reply.code, reply.remark or "no reason given")
                    )
            if connection.fileno() < 0:
                self._under_way.pop(connection, None)

    def _failed(self, send: Send, error: Exception) -> None:
        if isinstance(error, RemoteError) and error.code not in _TRY_AGAIN:
            raise error
        send.attempts += 1
        if send.attempts > self._options.send_retries:
            raise error
        self._cluster.forget(send.queue.broker_name) if isinstance(
            error, UnreachableError) else None  # fmt: skip
        self._again.append(send)
