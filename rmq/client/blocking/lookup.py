"""Lookup: finds messages by key, unique key or tag through the brokers' index, or by offset id.

    for message in by_key(cluster, "orders", "order-7"): ...        newest last
    message = by_id(cluster, "7F00000100002A9F0000000000000061")

A topic's messages are on all its brokers, and each broker indexes its own, so all are asked.
Answers are checked again, because a broker may send messages whose key only has the same hash
(Apache RocketMQ does).
"""

from __future__ import annotations

from rmq.client.blocking.cluster import ClusterView
from rmq.client.blocking.partial import Missing, of_brokers
from rmq.client.blocking.tail import ReceivedMessage, received
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError
from rmq.format.message import StoredMessage, decode_message_id, decode_messages
from rmq.format.remoting import Command

FOREVER = 2**63 - 1
QUERY_TIMEOUT = 15.0
PORT_MAX = 65535
KEY, UNIQUE, TAG = "K", "U", "T"  # RocketMQ's letters for the kinds of keys


def by_key(
    cluster: ClusterView,
    topic: str,
    key: str,
    kind: str = KEY,
    *,
    count: int = 32,
    begin_ms: int = 0,
    end_ms: int = FOREVER,
    missing: Missing | None = None,
) -> list[ReceivedMessage]:
    """The newest `count` messages with the key, of each broker, in the order of their storing.
    missing: see partial.py."""
    fields = {
        "topic": topic, "key": key, "maxNum": count, "beginTimestamp": begin_ms,
        "endTimestamp": end_ms, "indexType": kind, "_UNIQUE_KEY_QUERY": kind == UNIQUE,
    }  # fmt: skip
    found: list[ReceivedMessage] = []
    brokers = sorted(cluster.route(topic).brokers.items())
    masters = {name: each.master for name, each in brokers if each.master is not None}

    def answer(name: str) -> tuple[str, Command]:
        code = RequestCode.QUERY_MESSAGE
        return name, cluster.ask(masters[name], code, fields, timeout_s=QUERY_TIMEOUT)

    for name, reply in of_brokers(cluster, masters.items(), answer, missing):
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            continue
        if reply.code != ResponseCode.SUCCESS:
            raise RemoteError(reply.code, reply.remark or "no reason given")
        found += [
            received(name, each)
            for each in decode_messages(reply.body)
            if each.topic == topic and _has(each, key, kind)
        ]
    return sorted(found, key=lambda message: message.stored.store_timestamp_ms)


def by_id(cluster: ClusterView, message_id: str) -> ReceivedMessage:
    """The message with this offset id, from the broker whose address is in the id."""
    host, offset = decode_message_id(message_id)
    if not 0 < host.port <= PORT_MAX:
        raise ProtocolError(
            f"{message_id} is no offset message id; as a unique id it is asked for with its topic"
        )
    address = f"[{host.ip}]:{host.port}" if ":" in host.ip else f"{host.ip}:{host.port}"
    names = [entry.name for entry in cluster.brokers() if address in entry.addresses.values()]
    if not names:
        raise ProtocolError(
            f"no broker at {address}, which the id {message_id} names; "
            "if it is a unique id, it is asked for with its topic"
        )
    reply = cluster.call(address, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    for stored in decode_messages(reply.body):
        return received(names[0], stored)
    raise ProtocolError(f"{address} sent an empty answer for {message_id}")


def _has(stored: StoredMessage, key: str, kind: str) -> bool:
    properties = stored.properties
    if kind == TAG:
        return properties.get("TAGS") == key
    if kind == UNIQUE:
        return properties.get("UNIQ_KEY") == key
    return key in properties.get("KEYS", "").split(" ")
