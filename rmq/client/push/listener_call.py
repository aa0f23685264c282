"""ListenerCall: one call of a push consumer's listener, with its log line, trace and statistics.

call = ListenerCall(consumer, listen, queue, messages, context, SUCCESS)
call.status, call.problem            # status is None if the listener raised; problem: what
call.settled(failed=0)               # the number of messages that will be delivered again
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
    """What one call of the listener needs of the consumer."""

    @property
    def stats(self) -> ConsumeStats: ...

    def show(self, messages: list[MessageExt]) -> None:
        """Gives messages the topic's name that the user knows."""

    def traced(
        self, messages: list[MessageExt], good: bool | None, took_ms: float = 0.0,
        raised: bool = False,
    ) -> None:  # fmt: skip
        """Traces that a call begins (good is None) or has ended."""


class ListenerCall(Generic[Status]):
    """One call; the constructor makes it."""

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
        """Tells statistics and trace how many of the messages failed."""
        consumer, messages = self._consumer, self._messages
        consumer.stats.consumed(self._queue.topic, len(messages) - failed, failed, self.took_ms)
        consumer.traced(messages, not failed, self.took_ms, self.problem is not None)
