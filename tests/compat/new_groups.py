"""Groups that get all of a topic, also what is sent while their first member joins."""

from __future__ import annotations

from support.topics import make_topic

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster


def make_topic_and_group(
    cluster: Cluster, topic: str, group: str, queues: int = 4,
    attributes: dict[str, str] | None = None, **settings: object,
) -> None:  # fmt: skip
    """Makes a topic and a group that begins at offset 0 of each queue. By itself the client of a
    new group first asks whether the group has an offset, then where the empty queue ends, and
    misses what comes in between; a proxy lets the group begin at the end."""
    make_topic(cluster, topic, queues, attributes=attributes)
    admin.create_group(cluster, group, settings)
    for each in admin.topic_queues(cluster, topic):
        admin.commit_offset(cluster, group, each.queue, 0)
