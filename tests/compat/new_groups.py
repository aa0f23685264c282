"""Groups that get all of a topic, also what is sent while their first member joins."""

from __future__ import annotations

from support.topics import make_topic

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster


def make_topic_and_group(
    cluster: Cluster, topic: str, group: str, queues: int = 4,
    attributes: dict[str, str] | None = None, **settings: object,
) -> None:  # fmt: skip
    """The group begins at 0 of each queue. Left alone, the client of a new group asks about an
    empty queue first whether the group has an offset and then where the end is, and misses what
    comes between the two; a proxy has it begin at the end."""
    make_topic(cluster, topic, queues, attributes=attributes)
    admin.create_group(cluster, group, settings)
    for each in admin.topic_queues(cluster, topic):
        admin.commit_offset(cluster, group, each.queue, 0)
