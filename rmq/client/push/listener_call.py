"""ListenerCall: one call of a push consumer's listener, as log, trace and statistics hear of it.

call = ListenerCall(consumer, listen, queue, messages, context, SUCCESS)
call.status, call.problem            # None with the exception the listener raised
call.settled(failed=0)               # so many of the messages come again
"""

from __future__ import annotations

import logging
from typing import Generic, Protocol

from cext.base import clock
from cext.client.message import MessageExt
from rmq.client.consumer import listener
from rmq.client.consumer.listener import Context, Listen, Status
from rmq.client.push.consume_stats import ConsumeStats
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")


class CallOwner(Protocol):
    """The consumer, as one call of its listener needs it."""

    @property
    def stats(self) -> ConsumeStats: ...

    def show(self, messages: list[MessageExt]) -> None:
        """Topics as the user names them."""

    def traced(
        self, messages: list[MessageExt], good: bool | None, took_ms: float = 0.0,
        raised: bool = False,
    ) -> None:  # fmt: skip
        """A call begins (good is None) or has ended."""


class ListenerCall(Generic[Status]):
    """Making it is the call."""

    __slots__ = ("_consumer", "_messages", "_queue", "problem", "status", "took_ms")

    def __init__(
        self, consumer: CallOwner, listen: Listen, queue: MessageQueue,
        messages: list[MessageExt], context: Context, success: Status,
    ) -> None:  # fmt: skip
        self._consumer, self._queue, self._messages = consumer, queue, messages
        consumer.show(messages)
        began = clock.monotonic()
        consumer.traced(messages, None)
        self.status: Status | None
        self.problem: BaseException | None
        self.status, self.problem = listener.call(listen, messages, context, success)
        self.took_ms = (clock.monotonic() - began) * 1000
        if self.problem is not None:
            log.warning("the listener failed at %s", messages[0], exc_info=self.problem)

    def settled(self, failed: int) -> None:
        """What became of the messages is known."""
        consumer, messages = self._consumer, self._messages
        consumer.stats.consumed(self._queue.topic, len(messages) - failed, failed, self.took_ms)
        consumer.traced(messages, not failed, self.took_ms, self.problem is not None)
