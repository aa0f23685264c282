"""Acks: tells brokers which messages were consumed, as many in one request as have gathered.

    acks = Acks(instance, "billing", timeout_ms=3_000)
    acks.add([handle, ..], completed)         # completed(error or None), once for each handle
    acks.drain(until)

Each broker has one request under way at a time. Acks that are added meanwhile gather, and make the
next request. An occasional ack is therefore sent at once, and continuous acks need few requests,
without a timer. The answer to a batch says nothing about its single messages. After a refusal each
message is therefore acknowledged alone, and gets an answer of its own; acknowledging twice does no
harm. An exception that `completed` raises is logged.
"""

from __future__ import annotations

import functools
import logging
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

from cext.client.mailbox import Mailbox
from cext.client.reply import Reply
from rmq.base import clock, waits
from rmq.client.connection.instance import ClientInstance
from rmq.client.pop.handles import CheckPoint, Handle
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson

log = logging.getLogger("rmq.client")

MOST = 512  # acks of one request
BITS_MAX = 1_024  # bits in a batch: a message so far behind its pop's first one has none
PASSING = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)

Completion = Callable[[Exception | None], object]
Waiting = tuple[Handle, Completion]


class Acks:
    """The acks of one group; any thread may use it. `completed` is called in the thread that
    delivers the mailbox, or in the thread that calls `add`. Until it returns, no more acks are sent
    to that broker from here."""

    def __init__(
        self, instance: ClientInstance, group: str, timeout_ms: int, mailbox: Mailbox | None = None
    ) -> None:
        """mailbox: where the answers go; None: to that of the callback threads."""
        self._instance = instance
        self._mailbox = mailbox
        self._group = group
        self._timeout_ms = timeout_ms
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._waiting: dict[str, list[Waiting]] = {}  # by broker
        self._in_flight: set[str] = set()

    def add(self, handles: Iterable[Handle], completed: Completion) -> None:
        due = []
        with self._lock:
            for handle in handles:
                name = handle.broker_name
                self._waiting.setdefault(name, []).append((handle, completed))
                if name not in self._in_flight:
                    self._in_flight.add(name)
                    due.append(name)
        for name in due:
            self._send(name)

    def drain(self, until: float) -> bool:
        """Waits until no ack is under way. False: some still are at `until` (monotonic)."""
        with self._lock:
            return waits.wait_for(
                self._news, lambda: not self._in_flight, max(until - clock.monotonic(), 0)
            )

    def fields(self, handle: Handle) -> dict[str, Any]:
        """The header of a request about one message."""
        return {
            "consumerGroup": self._group, "topic": handle.topic, "queueId": handle.queue_id,
            "extraInfo": handle.text, "offset": handle.queue_offset, "bname": handle.broker_name,
        }  # fmt: skip

    def _send(self, broker: str) -> None:
        """Sends the acks that have gathered for a broker. The caller has marked the broker as in
        flight, so no other request to it is under way."""
        while True:
            with self._lock:
                gathered = self._waiting.pop(broker, [])
                part = gathered[:MOST]
                if len(gathered) > MOST:
                    self._waiting[broker] = gathered[MOST:]
                if not part:
                    self._in_flight.discard(broker)
                    self._news.notify_all()
                    return
            try:
                if len(part) > 1 and (rows := self._rows(part)):
                    self._send_rows(broker, part, rows)
                else:
                    self._send_singly(broker, part)
                return
            except Exception as error:  # also from a hook
                _tell(part, error)

    def _rows(self, part: list[Waiting]) -> list[dict[str, Any]]:
        """The rows of a batch; empty if one of the messages has no bit, so that the acks must be
        sent singly."""
        bits: dict[CheckPoint, int] = {}
        for handle, _ in part:
            at = handle.check_point
            distance = handle.queue_offset - at.start_offset
            if not 0 <= distance < BITS_MAX:
                return []
            bits[at] = bits.get(at, 0) | 1 << distance
        return [
            {
                "c": self._group, "t": at.topic, "r": at.kind, "so": at.start_offset,
                "q": at.queue_id, "rq": at.revive_queue, "pt": at.pop_time, "it": at.invisible_ms,
                "b": b64encode(value.to_bytes(value.bit_length() // 8 + 1, "little")).decode(),
            }
            for at, value in bits.items()
        ]  # fmt: skip

    def _send_rows(self, broker: str, part: list[Waiting], rows: list[dict[str, Any]]) -> None:
        def completed(reply: Reply | None, error: Exception | None) -> None:
            refusal = _error_of(reply, error)
            if isinstance(refusal, RemoteError) and refusal.code not in PASSING:
                try:
                    self._send_singly(broker, part)
                    return
                except Exception as problem:
                    refusal = problem
            _tell(part, refusal)
            self._send(broker)

        self._instance.submit(
            self._instance.routes.address_of(broker),
            RequestCode.BATCH_ACK_MESSAGE, {"bname": broker},
            fastjson.dumps({"brokerName": broker, "acks": rows}), self._timeout_ms, completed,
            self._mailbox,
        )  # fmt: skip

    def _send_singly(self, broker: str, part: list[Waiting]) -> None:
        """Sends each ack in a request of its own. Raises only if none has been sent."""
        address = self._instance.routes.address_of(broker)
        left = [len(part)]

        def completed(
            one: Waiting, reply: Reply | None, error: Exception | None
        ) -> None:  # in any thread that delivers the mailbox
            _tell([one], _error_of(reply, error))
            with self._lock:
                left[0] -= 1
                if left[0]:
                    return
            self._send(broker)

        for one in part:
            try:
                self._instance.submit(
                    address, RequestCode.ACK_MESSAGE, self.fields(one[0]), b"", self._timeout_ms,
                    functools.partial(completed, one), self._mailbox,
                )  # fmt: skip
            except Exception as error:
                completed(one, None, error)


def _error_of(reply: Reply | None, error: Exception | None) -> Exception | None:
    if reply is None:
        return error or RemoteError(ResponseCode.SYSTEM_ERROR, "no answer")
    if reply.code == ResponseCode.SUCCESS:
        return None
    return RemoteError(reply.code, reply.remark or "no reason given")


def _tell(part: Iterable[Waiting], error: Exception | None) -> None:
    for _, completed in part:
        try:
            completed(error)
        except BaseException:  # SystemExit, too, must not keep the next acks from going
            log.exception("the callback of an ack failed")
