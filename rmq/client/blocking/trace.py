"""Trace: the records of one message, looked up by its id or key, decoded and put in order.

    for each in traces_of(cluster, "7F00000100002A9F0000000000000061"):
        each.record.kind, each.record.group, each.client_host

A trace message holds records of many messages; only those of the message in question are kept. A
consumer writes two records with the same request id, SubBefore and SubAfter. They become one: the
second, completed by what only the first has (time, group, retries).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rmq.client.blocking.cluster import ClusterView
from rmq.client.blocking.lookup import by_key
from rmq.format.trace import TraceRecord, decode
from rmq.names import TRACE_TOPIC


@dataclass(frozen=True)
class Traced:
    """A record and the client that wrote it."""

    record: TraceRecord
    client_host: str
    stored_ms: int


def traces_of(
    cluster: ClusterView, message_id: str, *, topic: str = TRACE_TOPIC, count: int = 64
) -> list[Traced]:
    """All records of the message, in the order in which things happened."""
    found: list[Traced] = []
    for message in by_key(cluster, topic, message_id, count=count):
        host = message.stored.born_host.ip
        for record in decode(message.body):
            if record.message_id == message_id or message_id in record.keys.split():
                found.append(Traced(record, host, message.stored.store_timestamp_ms))
    return sorted(_joined(found), key=_moment)


def _moment(each: Traced) -> tuple[int, int]:
    record = each.record
    time = record.time_ms if record.time_ms >= 0 else each.stored_ms
    return time, 0 if record.kind == "Pub" else 1


def _joined(found: list[Traced]) -> list[Traced]:
    """One record for each consumption: its end if there is one, else its beginning."""
    begun = {_key(each): each for each in found if each.record.kind == "SubBefore"}
    ended = {_key(each) for each in found if each.record.kind == "SubAfter"}
    told: set[tuple[object, ...]] = set()
    out = []
    for each in found:
        once = (each.record.kind, each.record.time_ms, each.client_host, *_key(each))
        if once in told:
            continue  # a client that got no answer for a trace message sends it again
        told.add(once)
        if each.record.kind == "SubBefore" and _key(each) in ended:
            continue
        first = begun.get(_key(each)) if each.record.kind == "SubAfter" else None
        if first is not None:
            record = msgspec.structs.replace(
                each.record,
                time_ms=first.record.time_ms,
                group=first.record.group,
                region=first.record.region,
                retries=first.record.retries,
            )
            each = Traced(record, each.client_host, each.stored_ms)
        out.append(each)
    return out


def _key(each: Traced) -> tuple[str, str]:
    return each.record.request_id, each.record.message_id
