"""Reads: some messages of one queue, by one pull that is not held.

    found = read(cluster, queue, 120, count=20)
    found.messages, found.next_offset           the messages from 120 on, and where to go on

This is for showing a single page; tail.py reads a queue to its end. With a filter the result may be
empty although more messages follow; then `next_offset` has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmq.client.blocking.cluster import ClusterView
from rmq.client.blocking.tail import (
    BATCH,
    PULLED,
    ReceivedMessage,
    filter_expression,
    pull_fields,
    received,
)
from rmq.client.connection.replicas import Purpose
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_messages


class Read(NamedTuple):
    messages: list[ReceivedMessage]
    next_offset: int


def read(
    cluster: ClusterView,
    queue: MessageQueue,
    offset: int,
    *,
    count: int = BATCH,
    tags: Sequence[str] = (),
    sql: str | None = None,
) -> Read:
    """Reads at most `count` messages from this offset on: those with one of the tags, or those for
    which the SQL92 expression is true."""
    replica = cluster.replica_of(queue.broker_name, Purpose.READ, queue)
    fields = pull_fields(queue, offset, filter_expression(tags, sql), count=count)
    reply = cluster.ask(replica.address, RequestCode.PULL_MESSAGE, fields)
    if reply.code not in PULLED:
        raise RemoteError(reply.code, reply.remark or "no reason given")
    found = []
    if reply.code == ResponseCode.SUCCESS:
        found = [received(queue.broker_name, each) for each in decode_messages(reply.body)]
    wanted = frozenset(tags)  # two tags may share a hash
    kept = [each for each in found if not wanted or each.properties.get("TAGS") in wanted]
    return Read(kept, int(reply.int_field("nextBeginOffset", offset, 0)))
