"""Group lag: what a group has still to consume: of topics, of its retries, and what it gave up.

    found = group_lag(cluster, "billing", set(cluster.topics()), admin.groups(cluster))
    found.lag, found.retry_lag, found.dead_letters      messages

Brokers tell of the topics in which a group has committed, and while it is online only of those that
it subscribes. Its retry topics may be neither, though messages wait there: those that pops left, or
that came before anybody read them. So they are asked for by name. From a retry queue without an
offset everything is read that is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rmq.client.blocking.admin import (
    QueueProgress,
    QueueRange,
    committed_offset,
    group_progress,
    queue_ranges,
)
from rmq.client.blocking.cluster import ClusterView
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.names import RETRY_PREFIX, dlq_topic, is_retry, retry_topic


@dataclass(frozen=True)
class GroupLag:
    """By topic, broker and queue."""

    queues: list[QueueProgress]
    retry_queues: list[QueueProgress]
    dead_letter_queues: list[QueueRange]
    messages_per_second: float

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.queues)

    @property
    def retry_lag(self) -> int:
        return sum(each.lag for each in self.retry_queues)

    @property
    def dead_letters(self) -> int:
        return sum(each.max_offset - each.min_offset for each in self.dead_letter_queues)


def group_lag(
    cluster: ClusterView, group: str, topics: Collection[str], groups: Collection[str]
) -> GroupLag:
    """`topics`, `groups`: all that there are."""
    progress, rate = group_progress(cluster, group)
    told = {(each.queue.topic, each.queue.broker_name) for each in progress}
    retries = [each for each in progress if is_retry(each.queue.topic)]
    for topic in retry_topics(group, topics, groups):
        for found in _ranges(cluster, topic):
            if (topic, found.queue.broker_name) not in told:
                at = committed_offset(cluster, group, found.queue)
                first = max(found.min_offset, at or 0)
                retries.append(QueueProgress(found.queue, found.max_offset, first, 0))
    letters = dlq_topic(group)
    return GroupLag(
        [each for each in progress if not is_retry(each.queue.topic)],
        sorted(retries, key=lambda each: each.queue),
        list(_ranges(cluster, letters)) if letters in topics else [],
        rate,
    )


def retry_topics(group: str, topics: Collection[str], groups: Collection[str]) -> list[str]:
    """Those of the group: of what is pushed and sent back, and for each topic of what is popped.

    %RETRY%eu_orders is of a group eu_orders where there is one, and else of what eu pops of orders.
    """
    retry, found = retry_topic(group), []
    for each in topics:
        mark, popped = each.removeprefix(retry)[:1], each.removeprefix(retry)[1:]
        is_popped = each.startswith(retry) and mark in ("_", "+") and popped in topics
        if each == retry or (is_popped and each.removeprefix(RETRY_PREFIX) not in groups):
            found.append(each)
    return sorted(found)


def _ranges(cluster: ClusterView, topic: str) -> Iterator[QueueRange]:
    """Also of what may not be read, as dead letters of RocketMQ 4; nothing when it is gone."""
    try:
        names = sorted({entry.broker_name for entry in cluster.route(topic).entries})
        for name in names:
            yield from queue_ranges(cluster, topic, name)
    except RemoteError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
