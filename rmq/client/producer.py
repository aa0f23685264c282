"""Sending, one message at a time, as the official clients do it.

    producer = Producer(cluster)
    sent = producer.send("orders", b"body", tags="paid", keys="42")
    sent.queue, sent.queue_offset, sent.offset_message_id, sent.status

Queues are taken in turn. An answer that says this broker cannot take it now (busy, disk full, no
longer has the topic) or a lost connection is tried again on the next broker, twice; so a message
may be stored twice when an answer was lost, as with every RocketMQ producer.

A message's unique id is 32 hexadecimal digits: 4 bytes address, 2 bytes pid, 4 bytes of this
process' own, 4 bytes milliseconds since the month began, 2 bytes counter.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rmq.client.cluster import Cluster
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import encode_properties

DEFAULT_TOPIC = "TBW102"  # whose route stands in for a topic that is yet to be created
DEFAULT_TOPIC_QUEUES = 4
GROUP = "CLIENT_INNER_PRODUCER"
RETRIES = 2
BODY_BYTES_MAX = 4 << 20

# Stored, but a promise beyond "stored" was not kept in time: the status says which.
_STORED: dict[int, str] = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
_TRY_ELSEWHERE = {1, 2, 14, 16, 17, 204, 205}


@dataclass(frozen=True)
class SendResult:
    """Where the message went. `status` is SEND_OK when every promise was kept."""

    status: str
    message_id: str  # the sender's: UNIQ_KEY
    offset_message_id: str  # the broker's: address and log offset
    queue: MessageQueue
    queue_offset: int


def _month_start_ms() -> int:
    now = time.localtime()
    return int(time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1)) * 1000)


class Producer:
    """Sends over the cluster's connections; used by one thread."""

    def __init__(self, cluster: Cluster, group: str = GROUP) -> None:
        self._cluster = cluster
        self._group = group
        self._queues: dict[str, list[MessageQueue]] = {}
        self._turn = itertools.count(secrets.randbelow(1 << 16))
        self._ids = itertools.count(secrets.randbelow(1 << 16))
        self._id_prefix = f"7F000001{os.getpid() & 0xFFFF:04X}{secrets.token_hex(4).upper()}"
        self._month_ms = _month_start_ms()

    def send(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | None = None,
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
        timeout: float = 3.0,
    ) -> SendResult:
        """Stores one message; RemoteError or UnreachableError when no broker took it."""
        if not body or len(body) > BODY_BYTES_MAX:
            raise ProtocolError(f"a body of {len(body)} bytes: 1 to {BODY_BYTES_MAX} are allowed")
        message = dict(properties or {})
        message.setdefault("UNIQ_KEY", self._next_id())
        for name, value in (("TAGS", tags), ("KEYS", keys)):
            if value:
                message[name] = value
        fields = {
            "a": self._group, "b": topic, "c": DEFAULT_TOPIC, "d": DEFAULT_TOPIC_QUEUES,
            "f": 0, "g": int(time.time() * 1000), "h": 0, "i": encode_properties(message).decode(),
            "j": 0, "k": False, "m": False,
        }  # fmt: skip
        avoided = ""
        for attempt in range(RETRIES + 1):
            queue = self._choose(topic, queue_id, avoided)
            try:
                return self._send_to(queue, fields, body, message["UNIQ_KEY"], timeout)
            except (RemoteError, UnreachableError) as error:
                elsewhere = not isinstance(error, RemoteError) or error.code in _TRY_ELSEWHERE
                if attempt == RETRIES or not elsewhere:
                    raise
                avoided = queue.broker_name
                self._queues.pop(topic, None)
        raise AssertionError("the last attempt returns or raises")

    def _send_to(
        self,
        queue: MessageQueue,
        fields: dict[str, object],
        body: bytes,
        message_id: str,
        timeout: float,
    ) -> SendResult:
        broker = self._cluster.broker(queue.broker_name)
        reply = broker.ask(
            RequestCode.SEND_MESSAGE_V2,
            fields | {"e": queue.queue_id, "n": queue.broker_name},
            body,
            timeout,
        )
        status = _STORED.get(reply.code)
        if status is None:
            raise RemoteError(reply.code, reply.remark or "no reason given")
        return SendResult(
            status,
            message_id,
            reply.fields.get("msgId", ""),
            queue._replace(queue_id=reply.int_field("queueId")),
            reply.int_field("queueOffset"),
        )

    def _choose(self, topic: str, queue_id: int | None, avoided: str) -> MessageQueue:
        """The next queue in turn, on another broker than `avoided` where there is one."""
        queues = self._queues.get(topic)
        if queues is None:
            queues = self._queues[topic] = self._find_queues(topic)
        if queue_id is not None:
            queues = [queue for queue in queues if queue.queue_id == queue_id]
            if not queues:
                raise RemoteError(
                    ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {queue_id}"
                )
        elsewhere = [queue for queue in queues if queue.broker_name != avoided]
        chosen = elsewhere or queues
        return chosen[next(self._turn) % len(chosen)]

    def _find_queues(self, topic: str) -> list[MessageQueue]:
        try:
            queues = self._cluster.route(topic).writable()
        except RemoteError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            try:
                template = self._cluster.route(DEFAULT_TOPIC).writable()
            except RemoteError:
                raise error from None
            queues = [
                queue._replace(topic=topic)
                for queue in template
                if queue.queue_id < DEFAULT_TOPIC_QUEUES
            ]
        if not queues:
            raise RemoteError(ResponseCode.NO_PERMISSION, f"no queue of {topic} is writable")
        return queues

    def _next_id(self) -> str:
        since_month = (int(time.time() * 1000) - self._month_ms) & 0xFFFFFFFF
        return f"{self._id_prefix}{since_month:08X}{next(self._ids) & 0xFFFF:04X}"
