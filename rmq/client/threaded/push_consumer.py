"""PushConsumer: the class that users call; the work is done in rmq/client/push."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.parameters.consumer import PushConsumerParameters
from rmq.client.parameters.parameter_help import documented
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

    The members of a group share the queues, and each message is delivered at least once. A message
    whose call failed is delivered again through the group's retry topic, after a delay that grows
    each time, and becomes a dead letter after 16 tries. With consume_orderly=True a queue's
    messages are delivered one after the other, to one member at a time. With
    message_model="BROADCASTING" every member gets every message, and keeps its offsets in a file.
    """

    def __init__(
        self,
        consumer_group: str | None = None,
        message_listener: Any = None,
        *,
        parameters: PushConsumerParameters | None = None,
        **changes: Unpack[PushConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above. ConfigError: one of them is not valid."""
        super().__init__(
            PushConsumerImpl(consumer_group, message_listener, parameters=parameters, **changes)
        )

    @property
    def parameters(self) -> PushConsumerParameters:
        """The parameters that the consumer was made with."""
        return self._client.parameters

    def close(self) -> None:
        """Ends pulls, waits for calls of the listener under way, commits, and leaves the group. If
        the listener itself calls close, its own call is not waited for."""
        self._client.close()

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Subscribes to the topic's messages with one of the tags ("a || b"), or to those for
        which the SQL92 expression is true. It may be called before or after the start."""
        self._client.subscribe(topic, tags, sql=sql)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now, without those of its retry topics. Queue id -1
        stands for all queues of a topic at one broker, which this and other members pop."""
        return self._client.assignment()

    def suspend(self) -> None:
        """Stops pulling. Messages that were already pulled are still given to the listener."""
        self._client.suspend()

    def resume(self) -> None:
        """Pulls again after suspend."""
        self._client.resume()

    def update_core_pool_size(self, count: int) -> None:
        """Sets the number of threads that call the listener, at most consume_thread_max. The
        number never gets smaller."""
        self._client.update_core_pool_size(count)

    def commit(self, *, wait: bool = False) -> None:
        """Commits now how far the listener is in each queue; this also happens every 5 s by
        itself. wait: return only when brokers have answered."""
        self._client.commit(wait=wait)
