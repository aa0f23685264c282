"""GroupLag: what a group has not consumed yet, of its topics and retries, and its dead letters.

    found = group_lag(cluster, "billing", set(cluster.topics()), admin.groups(cluster))
    found.lag, found.retry_lag, found.dead_letters      messages

Brokers report the topics in which a group has committed, and while the group is online only those
that it subscribes. Its retry topics may be neither, although messages wait there: messages that
were popped and not acknowledged, or that came before a member read the topic. Retry topics are
therefore asked for by name. From a retry queue without an offset the group will read everything.
A retry whose delay is not over lies in none of these topics yet: waiting_retries.py counts it.
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
from rmq.client.blocking.partial import Missing, left_out, of_brokers
from rmq.client.connection.replicas import Purpose
from rmq.codes import ResponseCode
from rmq.errors import RemoteError, UnreachableError
from rmq.names import RETRY_PREFIX, dlq_topic, is_retry, retry_topic


@dataclass(frozen=True)
class GroupLag:
    """The progress of a group, by topic, broker and queue."""

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
    cluster: ClusterView, group: str, topics: Collection[str], groups: Collection[str],
    missing: Missing | None = None,
) -> GroupLag:  # fmt: skip
    """The lag of a group. `topics`, `groups`: all that exist; missing: see partial.py."""
    progress, rate = group_progress(cluster, group, missing=missing)
    told = {(each.queue.topic, each.queue.broker_name) for each in progress}
    retries = [each for each in progress if is_retry(each.queue.topic)]
    for topic in retry_topics(group, topics, groups):
        for found in _ranges(cluster, topic, missing):
            if (topic, found.queue.broker_name) not in told:
                with left_out(missing, found.queue.broker_name):
                    at = committed_offset(cluster, group, found.queue)
                    first = max(found.min_offset, at or 0)
                    retries.append(QueueProgress(found.queue, found.max_offset, first, 0))
    letters = dlq_topic(group)
    return GroupLag(
        [each for each in progress if not is_retry(each.queue.topic)],
        sorted(retries, key=lambda each: each.queue),
        list(_ranges(cluster, letters, missing)) if letters in topics else [],
        rate,
    )


def retry_topics(group: str, topics: Collection[str], groups: Collection[str]) -> list[str]:
    """The retry topics of a group: the one for messages that are sent back, and one for each topic
    that is popped.

    %RETRY%eu_orders belongs to the group eu_orders if that exists, and otherwise to the group eu,
    for messages of orders that it has popped.
    """
    retry, found = retry_topic(group), []
    for each in topics:
        mark, popped = each.removeprefix(retry)[:1], each.removeprefix(retry)[1:]
        is_popped = each.startswith(retry) and mark in ("_", "+") and popped in topics
        if each == retry or (is_popped and each.removeprefix(RETRY_PREFIX) not in groups):
            found.append(each)
    return sorted(found)


def _ranges(
    cluster: ClusterView, topic: str, missing: Missing | None
) -> Iterator[QueueRange]:  # fmt: skip
    """The ranges of a topic's queues, also of those without read permission, as RocketMQ 4 makes
    dead letters; none if the topic does not exist, or only where nobody answers."""
    try:
        names = sorted({entry.broker_name for entry in cluster.route(topic).entries})
        places = [(name, cluster.address_of(name, Purpose.STATE)) for name in names]
        for part in of_brokers(
            cluster, places, lambda name: queue_ranges(cluster, topic, name), missing
        ):
            yield from part
    except RemoteError as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
    except UnreachableError:
        if not missing:
            raise
