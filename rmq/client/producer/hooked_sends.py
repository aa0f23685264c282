"""HookedSends: sends whose header is made as a dict of fields, for hooks, TLS and tracing.

    hooked = HookedSends(producer, ended)
    hooked.submit(target, message, body, sys_flag, callback, timeout_ms, attempts)
    hooked.fields(target, message, sys_flag)           # the header, by letter

Sends without any of these never come here: cext/client/target writes their frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from cext.client.mailbox import Mailbox
from cext.client.message import Message, encoded_properties
from cext.client.reply import Reply
from cext.client.result import SendResult, send_result
from cext.client.sender import monotonic_ms
from cext.client.target import Target
from rmq.base import clock
from rmq.client.producer.base import Completion, ProducerBase
from rmq.client.tracer import DELAYED, HALF, NORMAL, Tracer
from rmq.codes import RequestCode
from rmq.errors import RemoteError, RequestTimeoutError, UnreachableError


class HookedSends:
    """The hooked sends of one producer; any thread may use it."""

    def __init__(self, producer: ProducerBase, ended: Callable[..., bool]) -> None:
        """ended(target, message, callback, result, error, attempts, deadline_us, late, ms,
        number): True when another try follows (Attempts.ended)."""
        self._producer = producer
        self._ended = ended
        self.numbers = itertools.count()  # of tries
        self.tracer: Tracer | None = None  # with enable_trace

    def fields(self, target: Target, message: Message, sys_flag: int) -> dict[str, Any]:
        """The header of a single send, by letter."""
        producer, given = self._producer, self._producer.parameters
        return {
            "a": producer.group, "b": target.topic, "c": given.create_topic_key,
            "d": given.default_topic_queue_nums, "e": target.queue_id, "f": sys_flag,
            "g": clock.now_ms(), "h": message.flag,
            "i": encoded_properties(message).decode(), "j": 0, "k": given.unit_mode,
            "m": False, "n": target.broker_name,
        }  # fmt: skip

    def submit(
        self,
        target: Target,
        message: Message,
        body: bytes,
        sys_flag: int,
        callback: Completion,
        timeout_ms: float,
        attempts: int,
        mailbox: Mailbox | None = None,
    ) -> None:
        """Sends as Sender.submit_to does; the answer is delivered by `mailbox`."""
        producer, size = self._producer, len(message.body)

        def done(reply: Reply | None, error: Exception | None) -> None:
            producer.leave_gate(size)
            result: SendResult | None = None
            if reply is not None:
                if reply.code == 0 or 10 <= reply.code <= 12:
                    result = send_result(reply, target.shown, target.broker_name, message)
                else:
                    error = RemoteError(reply.code, reply.remark or "no reason given")
            took = monotonic_ms() - began
            if self.tracer is not None:
                self._trace(self.tracer, target, message, result, took)
            if not goes_on(result, error, took):
                producer.tell_callback(callback, result, error)

        def goes_on(result: SendResult | None, error: Exception | None, took: float) -> bool:
            late = isinstance(error, RequestTimeoutError)
            return self._ended(target, message, callback, result, error, attempts,
                               until * 1000, late, took, number)  # fmt: skip

        producer.enter_gate(size)
        until, began = monotonic_ms() + timeout_ms, monotonic_ms()
        number = next(self.numbers)
        try:
            producer.instance.submit(
                target.address, RequestCode.SEND_MESSAGE_V2, self.fields(target, message, sys_flag),
                body, max(int(timeout_ms), 1), done, mailbox or producer.mailbox,
            )  # fmt: skip
        except BaseException as error:
            producer.leave_gate(size)
            # With TLS the connection is made here. A broker that cannot be reached is treated as
            # one whose connection breaks later.
            if isinstance(error, UnreachableError) and goes_on(None, error, monotonic_ms() - began):
                return
            raise

    def _trace(
        self,
        tracer: Tracer,
        target: Target,
        message: Message,
        result: SendResult | None,
        took: float,
    ) -> None:
        kind = HALF if message.get_property("TRAN_MSG") == "true" else NORMAL
        if message.delay_level:
            kind = DELAYED
        tracer.sent(
            self._producer.group, message, target.address, took,
            result.offset_message_id if result else "", result is not None,
            result.region_id if result else None, kind,
        )  # fmt: skip
