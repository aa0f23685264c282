"""PushConsumer as users have it; the work is rmq/client/push."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.parameters.consumer import PushConsumerParameters
from rmq.client.parameters.documented import documented
from rmq.client.push.consumer import PushConsumerImpl
from rmq.client.threaded.base import ThreadedConsumer
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PushConsumerKeywords


@documented(PushConsumerParameters)
class PushConsumer(ThreadedConsumer[PushConsumerImpl]):
    """Calls a function with messages, as a member of one group; any thread may use it.

        def bill(messages, context):                       # in one of consume_thread_min threads
            for message in messages: ...                   # an exception: again later

        with PushConsumer("billing", bill, namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || sent")   # or sql="amount > 100"
            stop.wait()

    The members of a group share the queues; each message is delivered at least once. What failed
    comes again through the group's retry topic, later each time, and is a dead letter after 16
    tries. With consume_orderly=True a queue's messages come one after the other, at one member at a
    time. With message_model="BROADCASTING" every member gets everything, and keeps its offsets in a
    file.
    """

    def __init__(
        self,
        consumer_group: str | None = None,
        message_listener: Any = None,
        *,
        parameters: PushConsumerParameters | None = None,
        **changes: Unpack[PushConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above; ConfigError for one that cannot be."""
        super().__init__(
            PushConsumerImpl(consumer_group, message_listener, parameters=parameters, **changes)
        )

    @property
    def parameters(self) -> PushConsumerParameters:
        """What it was made with."""
        return self._client.parameters

    def close(self) -> None:
        """Ends pulls, waits for calls under way (but that of a listener that closes), commits, and
        leaves the group."""
        self._client.close()

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Messages with one of the tags ("a || b"), or for which the SQL92 expression holds;
        before or after the start."""
        self._client.subscribe(topic, tags, sql=sql)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now, but those of its retry topics. Number -1 stands for
        all queues of a topic at one broker, which this and other members pop."""
        return self._client.assignment()

    def suspend(self) -> None:
        """No more pulls; what was pulled is dealt with."""
        self._client.suspend()

    def resume(self) -> None:
        """Pulls go on."""
        self._client.resume()

    def update_core_pool_size(self, count: int) -> None:
        """Threads for the listener, up to consume_thread_max; there never get less."""
        self._client.update_core_pool_size(count)

    def commit(self, *, wait: bool = False) -> None:
        """Commits now how far the queues are; it happens every 5 s by itself. wait: until brokers
        have answered."""
        self._client.commit(wait=wait)
