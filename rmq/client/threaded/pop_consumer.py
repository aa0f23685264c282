"""PopConsumer: the class that users call; the work is done in rmq/client/pop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cext.client.message import MessageExt
from rmq.client.parameters import PopConsumerParameters
from rmq.client.parameters.parameter_help import documented
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

    The broker shares out messages, not queues: any number of consumers of a group can read one
    queue at the same time, and a slow consumer does not hold up the others. A message that is not
    acknowledged in time is delivered again, to the next consumer that polls, with reconsume_times
    one higher. After the group's retryMaxTimes it becomes a dead letter. With consume_orderly only
    one batch of each queue is delivered and not acknowledged at a time.
    """

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PopConsumerParameters | None = None,
        **changes: Unpack[PopConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above. ConfigError: one of them is not valid."""
        super().__init__(PopConsumerImpl(consumer_group, parameters=parameters, **changes))

    @property
    def parameters(self) -> PopConsumerParameters:
        """The parameters that the consumer was made with."""
        return self._client.parameters

    def close(self) -> None:
        """Tells brokers what was acknowledged, and leaves the group. Messages that were not
        acknowledged become visible to others when their invisible time ends."""
        self._client.close()

    def poll(
        self,
        timeout_ms: float | None = None,
        max_messages: int | None = None,
        *,
        invisible_ms: int | None = None,
    ) -> list[MessageExt]:
        """Returns up to max_messages messages (by default pop_batch_nums), which no other consumer
        gets for invisible_ms (at least 5000; by default pop_invisible_time). Waits until there is
        one, at most timeout_ms, after which the list is empty. With timeout_ms=0 it returns what
        has already arrived, and asks brokers for more, which the next poll returns."""
        return self._client.poll(timeout_ms, max_messages, invisible_ms=invisible_ms)

    def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """Acknowledges messages, and returns when the brokers have confirmed it. Raises the first
        refusal: RemoteError when a broker no longer knows one of the deliveries."""
        self._client.ack(messages)

    def ack_async(
        self,
        messages: MessageExt | Iterable[MessageExt],
        callback: Callable[[Exception | None], object] | None = None,
    ) -> None:
        """Acknowledges messages without waiting: the acks are sent soon, as many in one request as
        have gathered. callback(error) is called once for all of them, in a callback thread, with
        None when brokers have confirmed all. Without a callback a refusal is logged."""
        self._client.ack_async(messages, callback)

    def change_invisible_time(self, message: MessageExt, invisible_ms: int) -> None:
        """Makes the message visible again, to any consumer, invisible_ms from now, unless it is
        acknowledged before."""
        self._client.change_invisible_time(message, invisible_ms)
