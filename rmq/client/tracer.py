"""Tracer: writes what became of messages to the trace topic (enable_trace), as RocketMQ does.

    tracer = Tracer(instance, parameters); tracer.sent(...)     # returns at once

Records gather until there are trace_msg_batch_num of them, or for half a second. Their texts are
described in rmq/format/trace.py. A trace that cannot be sent is dropped: it never holds up a
message.
"""

from __future__ import annotations

import logging
import math
import threading
import uuid
from typing import Any

from cext.client.message import Message, MessageExt, encoded_properties
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.parameters import ClientParameters
from rmq.codes import RequestCode
from rmq.errors import RouteError
from rmq.format.fastjson import MessageQueue
from rmq.names import AUTO_CREATE_TOPIC, TRACE_TOPIC

log = logging.getLogger("rmq.client")

CONSUMED, RAISED, FAILED = 0, 2, 4
GROUP = "_INNER_TRACE_PRODUCER"
CREATED_QUEUES = 4
GATHER_MS = 500
WAITING_MAX = 10_000
NORMAL, HALF, COMMITTED, DELAYED = 0, 1, 2, 3


class Tracer:
    """The trace records of one client; any thread may use it."""

    def __init__(self, instance: ClientInstance, parameters: ClientParameters) -> None:
        self._instance = instance
        self._topic = parameters.trace_topic or TRACE_TOPIC
        self._most = max(parameters.trace_msg_batch_num, 1)
        self._waiting: list[tuple[str, set[str]]] = []
        self._lock = threading.Lock()
        self._is_due = False  # a flush will begin at once, or is under way
        self._flushing = threading.RLock()  # one at a time: each may wait for a name server
        self._turn = 0
        self._timer = instance.timers.every(GATHER_MS, self.flush, chore=True)

    def close(self) -> None:
        self._timer.cancel()
        with self._flushing:
            self._flush()

    def add(self, fields: list[Any], keys: set[str]) -> None:
        """Adds one record, with the keys by which it is found."""
        record = "\x01".join("null" if each is None else str(each) for each in fields) + "\x02"
        with self._lock:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append((record, keys))
            is_news = len(self._waiting) >= self._most and not self._is_due
            self._is_due = self._is_due or is_news
        if is_news:
            self._instance.timers.after(0, self.flush, chore=True)

    def sent(
        self, group: str, message: Message, store_host: str, cost_ms: float, offset_id: str,
        success: bool, region: str | None = None, kind: int = NORMAL,
    ) -> None:  # fmt: skip
        """A send has ended. The record's time is that of the send's beginning, as Java's clients
        write it, rounded so that it is never later than the time at which the message was
        stored."""
        began_ms = clock.now_ms() - math.ceil(cost_ms)
        fields = [
            "Pub", began_ms, region or "DefaultRegion", group, message.topic,
            message.message_id, message.tags or "", message.keys or "", store_host,
            len(message.body), int(cost_ms), kind, offset_id,
            "true" if success else "false",
        ]  # fmt: skip
        self.add(fields, {message.message_id or "", *(message.keys or "").split()})

    def flush(self) -> None:
        """Sends what has gathered, unless another thread is doing so."""
        if self._flushing.acquire(blocking=False):
            try:
                self._flush()
            finally:
                self._flushing.release()

    def _flush(self) -> None:
        try:
            while part := self._take():
                self._send("".join(text for text, _ in part),
                           sorted({key for _, keys in part for key in keys if key}))  # fmt: skip
        except Exception as error:  # also from a hook: a client that closes must go on
            log.debug("traces dropped: %s", error)
        finally:
            with self._lock:
                self._is_due = False

    def _take(self) -> list[tuple[str, set[str]]]:
        with self._lock:
            part, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        return part

    def _queues(self) -> list[MessageQueue]:
        try:
            return self._instance.routes.of(self._topic).writable()
        except RouteError:  # the first trace creates the topic, as the first message of others does
            queues = self._instance.routes.of(AUTO_CREATE_TOPIC).writable()
            return [each for each in queues if each.queue_id < CREATED_QUEUES]

    def _send(self, text: str, keys: list[str]) -> None:
        queues = self._queues()
        if not queues:
            return
        self._turn += 1
        queue = queues[self._turn % len(queues)]
        message = Message(self._topic, text, keys=keys)
        fields = {
            "a": GROUP, "b": self._topic, "c": AUTO_CREATE_TOPIC, "d": CREATED_QUEUES,
            "e": queue.queue_id, "f": 0,
            "g": clock.now_ms(), "h": 0, "i": encoded_properties(message).decode(),
            "j": 0, "k": False, "m": False, "n": queue.broker_name,
        }  # fmt: skip
        address = self._instance.routes.address_of(queue.broker_name)
        self._instance.submit(
            address, RequestCode.SEND_MESSAGE_V2, fields, message.body, 5_000, lambda *_: None
        )


class ConsumeTracer(Tracer):
    """Traces a listener: one record before each call, and one after it."""

    def __init__(self, instance: ClientInstance, parameters: ClientParameters, group: str) -> None:
        super().__init__(instance, parameters)
        self._group = group
        self._calls = threading.local()  # the id by which the two records belong together

    def consumed(
        self, messages: list[MessageExt], good: bool | None, took_ms: float, raised: bool
    ) -> None:
        """Records that a call begins in this thread (good is None), or has ended."""
        if good is None:
            self._calls.request = uuid.uuid4().hex.upper()
        now = clock.now_ms()
        for message in messages:
            if message.get_property("TRACE_ON") == "false":
                continue
            keys = message.keys or ""
            if good is None:
                region = message.get_property("MSG_REGION") or "DefaultRegion"
                fields = [
                    "SubBefore", now, region, self._group, self._calls.request,
                    message.message_id, message.reconsume_times, keys,
                ]  # fmt: skip
            else:
                code = CONSUMED if good else RAISED if raised else FAILED
                fields = [
                    "SubAfter", self._calls.request, message.message_id, int(took_ms),
                    "true" if good else "false", keys, code, now, self._group,
                ]  # fmt: skip
            self.add(fields, {message.message_id, *keys.split()})
