"""PullConsumer: the class that users call; the work is done in rmq/client/pull."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cext.client.message import MessageExt
from rmq.client.consumer.subscription import EVERYTHING
from rmq.client.parameters import PullConsumerParameters
from rmq.client.parameters.parameter_help import documented
from rmq.client.pull.consumer import PullConsumerImpl
from rmq.client.threaded.base import ThreadedConsumer
from rmq.errors import ClosedError
from rmq.format.fastjson import MessageQueue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import PullConsumerKeywords


@documented(PullConsumerParameters)
class PullConsumer(ThreadedConsumer[PullConsumerImpl]):
    """Returns messages when poll is called, as a member of one group; any thread may use it.

        with PullConsumer("invoices", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || sent")   # shared with the group's other members
            for message in consumer.poll(1_000): ...       # up to 1000 of what was pulled ahead
            for message in consumer: ...                   # one by one, until it is closed

        consumer.assign(consumer.queues("orders"))         # or: these, even if others read them
        consumer.seek(queue, 42); consumer.seek_to_time(queue, timestamp); consumer.pause(queues)

    Each message is delivered at least once. The messages that poll returned count as consumed when
    poll is called again. With auto_commit, poll commits offsets every auto_commit_interval_millis,
    and close commits them once more. If the `with` block ends by an exception, what the last poll
    returned is not committed.
    """

    def __init__(
        self,
        consumer_group: str | None = None,
        *,
        parameters: PullConsumerParameters | None = None,
        **changes: Unpack[PullConsumerKeywords],
    ) -> None:
        """`changes` are parameters by name, listed above. ConfigError: one of them is not valid."""
        super().__init__(PullConsumerImpl(consumer_group, parameters=parameters, **changes))

    @property
    def parameters(self) -> PullConsumerParameters:
        """The parameters that the consumer was made with."""
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
        """Reads a share of the topic's queues, which the group's members divide among themselves:
        messages with one of the tags ("a || b"), or for which the SQL92 expression is true."""
        self._client.subscribe(topic, tags, sql=sql)

    def assign(
        self, queues: Iterable[MessageQueue], tags: str = EVERYTHING, *, sql: str | None = None
    ) -> None:
        """Reads exactly these queues, each from the offset that the group has committed. After an
        empty list topics may be subscribed again. RouteError: a topic does not exist, and nothing
        has changed."""
        self._client.assign(queues, tags, sql=sql)

    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._client.assignment()

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic."""
        return self._client.queues(topic)

    # ---- messages

    def poll(self, timeout_ms: float | None = None, max_messages: int = 1_000) -> list[MessageExt]:
        """Returns up to max_messages of the messages that were pulled ahead. If there are none, it
        waits for some, at most timeout_ms (by default poll_timeout_millis). The messages of each
        queue are in order."""
        return self._client.poll(timeout_ms, max_messages)

    def __iter__(self) -> Iterator[MessageExt]:
        """Yields messages one by one until the consumer is closed. A message counts as consumed
        when the next one is asked for."""
        while not self._client.is_closed:
            try:
                found = self.poll(None, 1)
            except ClosedError:
                return
            yield from found

    def pause(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """Makes poll return nothing from these queues until they are resumed."""
        self._client.pause(queues)

    def resume(self, queues: MessageQueue | Iterable[MessageQueue]) -> None:
        """Makes poll return messages of these queues again."""
        self._client.resume(queues)

    def paused(self) -> list[MessageQueue]:
        """The queues that are paused."""
        return self._client.paused()

    # ---- offsets

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Makes poll go on at this offset of the queue. ConfigError: no queue can have it."""
        self._client.seek(queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Makes poll go on at the queue's first message."""
        self._client.seek_to_begin(queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Makes poll go on behind the message that is now the queue's last one."""
        self._client.seek_to_end(queue)

    def seek_to_time(self, queue: MessageQueue, timestamp: Any) -> None:
        """Makes poll go on at the first message stored at or after a time (ms since 1970, or a
        datetime)."""
        self._client.seek_to_time(queue, timestamp)

    def offset_for_timestamp(self, queue: MessageQueue, timestamp: Any) -> int:
        """The offset of the first message stored at or after a time; the queue's end if there is
        none."""
        return self._client.offset_for_timestamp(queue, timestamp)

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message of this queue that poll returns."""
        return self._client.position(queue)

    def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the group has committed for this queue; None if it never committed."""
        return self._client.committed(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commits these offsets, or by default the position behind what poll has returned so far.
        Returns when the brokers have answered. ConfigError: no queue can have one of the offsets,
        and nothing is committed. Whether a queue is that long is not asked: a group that goes on
        beyond the end of a queue begins at the end."""
        self._client.commit(offsets)
