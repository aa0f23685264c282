"""Offset commits: a query's offsets go to the brokers for a consumer group, for lag tools."""

from __future__ import annotations

from collections.abc import Mapping

from rmq.arrow.access import Access
from rmq.arrow.offsets import QueueKey
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError


def commit_offsets(access: Access, group: str, offsets: Mapping[QueueKey, int]) -> None:
    """Every queue's next offset at the broker that owns it, or at its slave while that is gone;
    RmqError when one does not take it."""
    rows: dict[str, list[dict[str, object]]] = {}
    for key, offset in offsets.items():
        rows.setdefault(key.broker, []).append(
            {
                "consumerGroup": group, "topic": key.topic, "queueId": key.queue_id,
                "commitOffset": offset,
            }
        )  # fmt: skip
    with access.cluster() as cluster:
        for broker, mine in rows.items():
            for reply in cluster.ask_all(broker, RequestCode.UPDATE_CONSUMER_OFFSET, mine):
                if reply.code != ResponseCode.SUCCESS:
                    raise RemoteError(reply.code, reply.remark or "no reason given")
