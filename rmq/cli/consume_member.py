"""Consume member: `rmq consume --group G` reads a topic as a member of the group, and commits.

    with joined(cluster, "orders", "billing", end=True) as messages:
        for message in messages: ...        a ReceivedMessage, as of tail()

It is a pull consumer: the members that are online share the queues, each queue goes on where the
group has committed, and a group that never did begins at the first message. A message counts as
consumed when the next one is asked for, or when the block ends without an exception: what could not
be printed comes again.

All members of a group must subscribe to the same, in RocketMQ: a member that does not know a topic
is given a share of its queues nevertheless, and nobody reads them. The same is true for retries,
which pull consumers do not read. So it joins no group whose members subscribe to something else, or
do not pull.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cext.client.message import MessageExt
from rmq.base import clock
from rmq.base.server_address import split_address
from rmq.cli.signals import ended_as_ctrl_c
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import ReceivedMessage, filter_expression, received
from rmq.client.threaded.pull_consumer import PullConsumer
from rmq.errors import ConfigError, ProtocolError, RmqError, RouteError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import Host, StoredMessage
from rmq.names import is_retry
from rmq.operations.client_keywords import client_keywords

POLL_MS = 200
SHARE_S = 30.0  # until a member that is given no queue gives up
PULLS = "CONSUME_ACTIVELY"


@contextmanager
def joined(
    cluster: Cluster, topic: str, group: str, *, tags: Sequence[str] = (), sql: str | None = None,
    end: bool,
) -> Iterator[Iterator[ReceivedMessage]]:  # fmt: skip
    """end: the messages end where the queues of this member ended at the begin; else they do not
    end. RemoteError: there is no such topic. RmqError: this group is not to be joined."""
    ends = {each.queue: each.max_offset for each in admin.topic_queues(cluster, topic)}
    _, expression = filter_expression(tags, sql)
    _check_members(cluster, topic, group, expression)
    given = client_keywords()
    given["namesrv_addr"] = ";".join(cluster.name_servers)
    with (
        ended_as_ctrl_c(),
        PullConsumer(
            group, consume_from_where="CONSUME_FROM_FIRST_OFFSET", **given
        ) as consumer,
    ):  # fmt: skip
        if sql is None:
            consumer.subscribe(topic, expression)
        else:
            consumer.subscribe(topic, sql=sql)
        yield _messages(consumer, ends if end else None, f"topic {topic}")


def _check_members(cluster: Cluster, topic: str, group: str, expression: str) -> None:
    found = admin.group_members(cluster, group)
    if found is None:
        return
    if found.get("consumeType") != PULLS:
        raise RmqError(
            f"group {group} has members online that do not pull: a member that pulls would get a "
            "share of its retries, and not read them; stop the others, or name another group"
        )
    table = found.get("subscriptionTable") or {}
    theirs = {str(name): str(row.get("subString")) for name, row in table.items()
              if not is_retry(str(name))}  # fmt: skip
    if theirs != {topic: expression}:
        told = ", ".join(f"{name} ({text})" for name, text in sorted(theirs.items())) or "nothing"
        raise RmqError(
            f"group {group} has members online that subscribe to {told}: members of a group must "
            "all have the same subscription; stop the others, or name another group"
        )


def _messages(
    consumer: PullConsumer, ends: Mapping[MessageQueue, int] | None, what: str
) -> Iterator[ReceivedMessage]:
    until = clock.monotonic() + SHARE_S
    while True:
        found = consumer.poll(POLL_MS, 1)
        for message in found:
            yield _received(message)
        if ends is None or any(each.queue_offset + 1 < ends.get(each.queue, 0) for each in found):
            continue
        if not consumer.assignment():
            if clock.monotonic() > until:
                raise RmqError(f"the group's other members have all queues of {what}")
        elif _is_through(consumer, ends):
            return


def _is_through(consumer: PullConsumer, ends: Mapping[MessageQueue, int]) -> bool:
    try:
        return all(consumer.position(each) >= ends.get(each, 0) for each in consumer.assignment())
    except (ConfigError, RouteError):  # shared out anew just now, or its broker is away
        return False


def _received(message: MessageExt) -> ReceivedMessage:
    stored = StoredMessage(
        topic=message.topic, body=message.stored_body, properties_bytes=message.stored_properties,
        queue_id=message.queue_id, flag=message.flag, queue_offset=message.queue_offset,
        physical_offset=message.commit_log_offset, sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp, born_host=Host(*split_address(message.born_host)),
        store_timestamp_ms=message.store_timestamp,
        store_host=Host(*split_address(message.store_host)),
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_transaction_offset,
    )  # fmt: skip
    try:
        return ReceivedMessage(message.broker_name, stored, message.properties, message.body, None)
    except ProtocolError:  # packed in a way that cannot be unpacked here: told, as tail() does
        return received(message.broker_name, stored)
