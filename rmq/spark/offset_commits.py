"""Offset commits: a query's offsets go to the brokers for a consumer group, for lag tools."""

from __future__ import annotations

from collections.abc import Mapping

from rmq.arrow.access import Access
from rmq.arrow.offsets import QueueKey
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError


def commit_offsets(access: Access, group: str, offsets: Mapping[QueueKey, int]) -> None:
    """Commits each queue's next offset at the broker that has the queue, or at its slave while the
    broker is away. When a broker does not take an offset, RmqError is raised after all others have
    been told: a checkpoint names brokers that have left the cluster, and deleted topics, for ever.
    """
    rows: dict[str, list[dict[str, object]]] = {}
    for key, offset in offsets.items():
        rows.setdefault(key.broker, []).append(
            {
                "consumerGroup": group, "topic": key.topic, "queueId": key.queue_id,
                "commitOffset": offset,
            }
        )  # fmt: skip
    failure: RmqError | None = None
    with access.cluster() as cluster:
        for broker, mine in rows.items():
            try:
                replies = cluster.ask_all(broker, RequestCode.UPDATE_CONSUMER_OFFSET, mine)
            except RmqError as error:
                failure = failure or error
                continue
            for reply in replies:
                if reply.code != ResponseCode.SUCCESS:
                    failure = failure or RemoteError(reply.code, reply.remark or "no reason given")
    if failure is not None:
        raise failure
