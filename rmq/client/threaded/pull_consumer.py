"""PullConsumer as users have it; the work is rmq/client/pull."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cext.client.message import MessageExt
from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.parameters import PullConsumerParameters
from rmq.client.parameters.documented import documented
from rmq.client.pull.consumer import PullConsumerImpl
from rmq.client.threaded.base import ThreadedConsumer
from rmq.errors import ClosedError
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PullConsumerKeywords


@documented(PullConsumerParameters)
class PullConsumer(ThreadedConsumer[PullConsumerImpl]):
    """Reads as a member of one group, when it is asked to; any thread may use it.

        with PullConsumer("invoices", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || sent")   # shared with the group's other members
            for message in consumer.poll(1_000): ...       # up to 1000 of what was pulled ahead
            for message in consumer: ...                   # one by one, until it is closed

        consumer.assign(consumer.queues("orders"))         # or: these queues, whoever else reads
        consumer.seek(queue, 42); consumer.seek_to_time(queue, timestamp); consumer.pause(queues)

    Each message is delivered at least once: what poll returned counts as dealt with when poll is
    called again; with auto_commit offsets are committed every auto_commit_interval_millis, by poll,
    and by close. A block that ends by an exception does not commit what the last poll returned.
    """

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PullConsumerParameters | None = None,
        **changes: Unpack[PullConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above; ConfigError for one that cannot be."""
        super().__init__(PullConsumerImpl(consumer_group, parameters=parameters, **changes))

    @property
    def parameters(self) -> PullConsumerParameters:
        """What it was made with."""
        return self._client.parameters

    # ---- life

    def close(self) -> None:
        """Commits (with auto_commit) what poll has returned, and leaves the group."""
        self._client.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close(finished=kind is None)

    # ---- what is read

    def subscribe(self, topic: str, tags: str = EVERYTHING, *, sql: str | None = None) -> None:
        """Shares the topic's queues with the group: messages with one of the tags ("a || b"), or
        for which the SQL92 expression holds."""
        self._client.subscribe(topic, tags, sql=sql)

    def assign(
        self, queues: Iterable[MessageQueue], tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Reads exactly these queues, from where the group has committed; with none of them topics
        may be subscribed again. RouteError for a topic that does not exist: nothing changes."""
        self._client.assign(queues, tags, sql=sql)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._client.assignment()

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic."""
        return self._client.queues(topic)

    # ---- messages

    def poll(self, timeout_ms: float | None = None, max_messages: int = 1_000) -> list[MessageExt]:
        """What was pulled ahead, up to max_messages: at once when there is some, otherwise after
        waiting for it (poll_timeout_millis unless given). Each queue's messages are in order."""
        return self._client.poll(timeout_ms, max_messages)

    def __iter__(self) -> Iterator[MessageExt]:
        """Messages one by one, as long as it is open; one counts as dealt with when the next is
        asked for."""
        while not self._client.is_closed:
            try:
                found = self.poll(None, 1)
            except ClosedError:
                return
            yield from found

    def pause(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """poll returns nothing from these queues until they are resumed."""
        self._client.pause(queues)

    def resume(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """poll returns messages of these queues again."""
        self._client.resume(queues)

    def paused(self) -> list[MessageQueue]:
        """The queues that are paused."""
        return self._client.paused()

    # ---- offsets

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """poll goes on at this offset of the queue."""
        self._client.seek(queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """To the first message there is."""
        self._client.seek_to_begin(queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Behind the last message there is now."""
        self._client.seek_to_end(queue)

    def seek_to_time(self, queue: MessageQueue, timestamp: Any) -> None:
        """To the first message stored at or after a time (ms since 1970, or datetime)."""
        self._client.seek_to_time(queue, timestamp)

    def offset_for_timestamp(self, queue: MessageQueue, timestamp: Any) -> int:
        """Offset of the first message stored at or after a time; the end when there is none."""
        return self._client.offset_for_timestamp(queue, timestamp)

    def position(self, queue: MessageQueue) -> int:
        """Offset of the next message poll returns."""
        return self._client.position(queue)

    def committed(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in this queue; None when it never committed."""
        return self._client.committed(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tells brokers how far the group is: by these offsets, or by what poll has returned so
        far. Returns when they have answered."""
        self._client.commit(offsets)
