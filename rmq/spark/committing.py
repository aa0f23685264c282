"""Offsets told to the brokers for a consumer group, so that lag tools see a query."""

from __future__ import annotations

from collections.abc import Mapping

from rmq.codes import RequestCode
from rmq.spark.access import Access
from rmq.spark.offsets import QueueKey


def commit_offsets(access: Access, group: str, offsets: Mapping[QueueKey, int]) -> None:
    """Every queue's next offset at the broker that owns it; RmqError when one does not take it."""
    with access.cluster() as cluster:
        for key, offset in offsets.items():
            cluster.broker(key.broker).call(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {
                    "consumerGroup": group, "topic": key.topic, "queueId": key.queue_id,
                    "commitOffset": offset,
                },
            )  # fmt: skip
