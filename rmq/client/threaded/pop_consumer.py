"""PopConsumer as users have it; the work is rmq/client/pop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cext.client.message import MessageExt
from rmq.client.parameters import PopConsumerParameters
from rmq.client.parameters.documented import documented
from rmq.client.pop.consumer import PopConsumerImpl
from rmq.client.threaded.base import ThreadedConsumer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PopConsumerKeywords


@documented(PopConsumerParameters)
class PopConsumer(ThreadedConsumer[PopConsumerImpl]):
    """Takes messages of one group for a while, and acknowledges each; any thread may use it.

        with PopConsumer("billing", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || sent")
            for message in consumer.poll(10_000):
                bill(message)
                consumer.ack(message)              # or it is visible again after pop_invisible_time
                # consumer.ack_async(message)      the same without waiting for the broker
                # consumer.change_invisible_time(message, 300_000)     more time, or less

    The broker shares messages out, not queues: any number of consumers of a group read one queue at
    the same time, and a slow one holds up nobody. A message that is not acknowledged in time comes
    again, to whoever asks then, with reconsume_times grown by one, and is a dead letter after the
    group's retryMaxTimes. With consume_orderly a queue has one batch in hand at a time.
    """

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PopConsumerParameters | None = None,
        **changes: Unpack[PopConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above; ConfigError for one that cannot be."""
        super().__init__(PopConsumerImpl(consumer_group, parameters=parameters, **changes))

    @property
    def parameters(self) -> PopConsumerParameters:
        """What it was made with."""
        return self._client.parameters

    def close(self) -> None:
        """Tells brokers what was acknowledged, and leaves the group. All else is visible to others
        in its time."""
        self._client.close()

    def poll(
        self,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        *,
        invisible_ms: int | None = None,
    ) -> list[MessageExt]:
        """Up to max_messages (pop_batch_nums unless given), which are nobody else's for
        invisible_ms (at least 5000; pop_invisible_time). Waits for the first one; nothing after
        timeout_ms. With 0 it gives what is here and asks for more, which is the next poll's."""
        return self._client.poll(timeout_ms, max_messages, invisible_ms=invisible_ms)

    def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """They are dealt with; returns when brokers know. Raises the first refusal: RemoteError
        when a broker knows nothing of one any more."""
        self._client.ack(messages)

    def ack_async(
        self,
        messages: MessageExt | Iterable[MessageExt],
        callback: Callable[[Exception | None], object] | None = None,
    ) -> None:
        """They are dealt with; their acks go soon, as many in a request as have gathered.
        callback(error) comes once for all of them, in a callback thread; None: all are known.
        Without one a refusal is logged."""
        self._client.ack_async(messages, callback)

    def change_invisible_time(self, message: MessageExt, invisible_ms: int) -> None:
        """It comes again (to anyone) so long from now, unless it is acknowledged before."""
        self._client.change_invisible_time(message, invisible_ms)
