"""Reads: some messages of one queue, by one pull that is not held.

    found = read(cluster, queue, 120, count=20)
    found.messages, found.next_offset           those from 120 on, and where to go on

For who shows a page and goes: tail.py is for who reads to the end. With a filter there may be no
message in it though there are more behind: `next_offset` has moved then.
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
    """From this offset on, at most `count`; those with one of the tags, or those that the SQL92
    expression lets pass."""
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
