"""Message facts: one message with all there is to it, for people.

    found = find(cluster, "7F00000100002A9F0000000000000061")
    for name, value in facts(found): ...
    for group, state in tracks(cluster, found): ...         which groups have passed the message
    said = consume_directly(cluster, found, "billing")      a member consumes it now

A group has passed a message that it consumed, sent back for a later try, or filtered out.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.lookup import UNIQUE, by_id, by_key
from rmq.client.blocking.partial import Missing, lost
from rmq.client.blocking.tail import ReceivedMessage
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.operations.message_copy import place_of
from rmq.operations.texts import time_text

DIRECT_TIMEOUT_S = 15.0  # a broker waits for its consumer for ten seconds
CONSUMED = ("CR_SUCCESS", "CR_COMMIT")


def find(cluster: Cluster, message_id: str, topic: str | None = None) -> ReceivedMessage:
    """Finds a message by its offset id, or, if the topic is given, by its unique id. RemoteError:
    there is none. UnreachableError: it may be where nobody answers."""
    if topic is None:
        return by_id(cluster, message_id)
    missing: Missing = {}
    found = by_key(cluster, topic, message_id, UNIQUE, missing=missing)
    if missing and not found:
        raise lost(missing)
    if not found:
        text = f"topic {topic} has no message with the unique id {message_id}"
        raise RemoteError(ResponseCode.QUERY_NOT_FOUND, text)
    return found[-1]


def facts(found: ReceivedMessage) -> Iterator[tuple[str, object]]:
    stored = found.stored
    yield "topic", stored.topic
    yield "place", place_of(found)
    yield "unique id", found.properties.get("UNIQ_KEY", "-")
    yield "offset id", stored.message_id
    yield "sent", f"{time_text(stored.born_timestamp_ms)} from {stored.born_host}"
    yield "stored", f"{time_text(stored.store_timestamp_ms)} at {stored.store_host}"
    yield "retries", stored.reconsume_times
    yield "flags", f"{stored.flag}, system {stored.sys_flag}"
    packed = f", packed by {found.packing}" if found.packing is not None else ""
    yield "body", f"{len(found.body)} bytes{packed}"
    yield "properties", len(found.properties)


def tracks(cluster: Cluster, found: ReceivedMessage) -> Iterator[tuple[str, str]]:
    """Each group that reads the topic, and its state: passed, not yet, or unknown."""
    stored = found.stored
    queue = MessageQueue(stored.topic, found.broker_name, stored.queue_id)
    for group in admin.groups_of_topic(cluster, stored.topic):
        offset = admin.committed_offset(cluster, group, queue)
        state = "unknown" if offset is None else (
            "passed" if offset > stored.queue_offset else "not yet")  # fmt: skip
        yield group, state


class Consumed(msgspec.Struct):
    """A member's answer to a message that it got directly."""

    client: str
    result: str
    remark: str | None
    took_ms: int | None

    @property
    def is_done(self) -> bool:
        return self.result in CONSUMED


def consume_directly(
    cluster: Cluster, found: ReceivedMessage, group: str, client: str | None = None
) -> Consumed:
    """client: the member that gets the message; None: any one online (RemoteError: none is)."""
    member = client or _member(cluster, group)
    fields = {
        "consumerGroup": group, "clientId": member, "topic": found.stored.topic,
        "brokerName": found.broker_name,
        "msgId": found.stored.message_id,
    }  # fmt: skip
    reply = cluster.call(
        cluster.address_of(found.broker_name), RequestCode.CONSUME_MESSAGE_DIRECTLY, fields,
        timeout_s=DIRECT_TIMEOUT_S,
    )  # fmt: skip
    said = fastjson.loads_object(reply.body)
    return Consumed(
        member, str(said.get("consumeResult")), said.get("remark"), said.get("spentTimeMills")
    )


def _member(cluster: Cluster, group: str) -> str:
    online = admin.online_members(cluster, group)
    ids = sorted(str(row.get("clientId")) for row in online)
    if not ids:
        raise RemoteError(
            ResponseCode.CONSUMER_NOT_ONLINE, f"no member of group {group} is online: start one"
        )
    return ids[0]
