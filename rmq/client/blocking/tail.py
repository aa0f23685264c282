"""Tail: reads all queues of a topic without a consumer group, from a start that the caller chooses.

    for message in tail(cluster, "orders", tags=("paid",), start=Start("first")): ...
    for message in tail(cluster, "orders", sql="amount > 100", start=Start("first")): ...
    for message in tail(cluster, "orders", queues={3}, start=Start("back", 10)): ...

Each queue has at most one pull under way. With `follow` the broker holds pulls until a message
comes (at most 15 s), and they are sent again for ever. Without it a queue is done when it has been
read up to where it ended at the start. Messages of one queue come in the queue's order, those of
different queues as they arrive. Nothing is committed: the pulls have the tools' own group.

The broker filters tags by their hash. Two tags may have the same hash, so tags are compared here
again.
"""

from __future__ import annotations

import selectors
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rmq.base import clock, waits
from rmq.client.blocking.admin import max_offset, min_offset, offset_at
from rmq.client.blocking.cluster import Cluster, ClusterView
from rmq.client.blocking.connection import Connection
from rmq.client.connection.replicas import Purpose, Replica
from rmq.codes import (
    COMPRESSED_FLAG,
    COMPRESSION_NAMES,
    COMPRESSION_TYPE_COMPARATOR,
    FLAG_SUBSCRIPTION,
    FLAG_SUSPEND,
    RequestCode,
    ResponseCode,
)
from rmq.errors import RemoteError, UnreachableError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import StoredMessage, decode_messages
from rmq.format.packed_body import inflated
from rmq.format.remoting import Command
from rmq.names import TOOLS_CONSUMER_GROUP

GROUP = TOOLS_CONSUMER_GROUP
BATCH = 32
HOLD_MS = 15_000
HOLD_S = HOLD_MS / 1000 + 5  # until an answer must have come
RECONNECT_PAUSE = 1.0
# How often in a row a queue is asked again that gives no messages although it says that it goes on.
# A pull gets such an answer while an account is changed.
ASKED_AGAIN_MAX = 10
# Codes of answers to a pull that say where to go on.
PULLED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


@dataclass(frozen=True)
class Start:
    """Where to begin: "first", "last", "time" with milliseconds since 1970, "offset" with an offset
    in each queue, or "back" with a number of messages before the end of each queue. `end`: read
    each queue only up to this offset; `until_ms`: only messages stored before this time."""

    kind: str
    number: int = 0
    end: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True)
class ReceivedMessage:
    """One stored message as it came from a broker."""

    broker_name: str
    stored: StoredMessage
    properties: dict[str, str]
    body: bytes  # as it was sent; if `packing` is set, as it is stored, packed in this way
    packing: str | None


@dataclass
class _Position:
    """How far one queue has been read."""

    queue: MessageQueue
    next_offset: int
    end_offset: int | None  # None: it is read for ever
    follows: bool = False  # read up to end_offset, though the queue may not be that long yet
    replica: Replica | None = None  # the broker that was asked last
    connection: Connection | None = None  # over which it was asked
    opaque: int | None = None  # of the pull under way
    asked_again: int = 0  # how often at this offset

    @property
    def done(self) -> bool:
        return self.end_offset is not None and self.next_offset >= self.end_offset


def tail(
    cluster: Cluster,
    topic: str,
    *,
    tags: Sequence[str] = (),
    sql: str | None = None,
    start: Start,
    follow: bool = False,
    queues: Collection[int] | None = None,
    broker: str | None = None,
) -> Iterator[ReceivedMessage]:
    """Yields messages until every queue is read to its end, or for ever with `follow`: those with
    one of the tags, or those for which the SQL92 expression is true. `queues`, `broker`: only of
    these queue ids, only of this broker name."""
    if tags and sql is not None:
        raise ValueError("messages are filtered by tags or by an SQL92 expression, not by both")
    readable = cluster.route(topic).readable()
    if not readable:
        raise RemoteError(ResponseCode.NO_PERMISSION, f"no queue of {topic} is readable")
    chosen = [queue for queue in readable if (queues is None or queue.queue_id in queues)
              and broker in (None, queue.broker_name)]  # fmt: skip
    known = {queue.queue_id for queue in readable}
    if not chosen or not known.issuperset(queues or ()):
        there = ", ".join(sorted(f"{each.broker_name}/{each.queue_id}" for each in readable)[:20])
        raise RemoteError(ResponseCode.INVALID_PARAMETER, f"{topic} has no such queue: {there}")
    positions = [_first_position(cluster, queue, start, follow) for queue in chosen]
    expression = filter_expression(tags, sql)
    wanted = frozenset(tags)
    while True:
        positions = [position for position in positions if not position.done]
        if not positions:
            return
        try:
            for position in positions:
                if position.opaque is None:
                    _submit(cluster, position, expression, follow)
            for position, reply in _replies(cluster, positions):
                suggested = reply.int_field("suggestWhichBrokerId", 0)
                cluster.replicas.suggest(position.queue, suggested)
                for message in _messages(cluster, position, reply):
                    if not wanted or message.properties.get("TAGS") in wanted:
                        yield message
        except UnreachableError:
            others = _others(cluster, positions)
            if not follow and not others:
                raise
            for position in positions:
                position.opaque = None
            cluster.close()
            if not others:
                waits.sleep(RECONNECT_PAUSE)


def _others(cluster: Cluster, positions: list[_Position]) -> bool:
    """Whether each queue can be read on at once, at another broker if its own one is gone."""
    for position in positions:
        if position.connection is not None and position.connection.fileno() < 0:
            cluster.replicas.gone(position.connection.address)
    return not any(
        cluster.replicas.is_gone(_replica(cluster, position).address) for position in positions
    )


def _replica(cluster: Cluster, position: _Position) -> Replica:
    return cluster.replica_of(position.queue.broker_name, Purpose.READ, position.queue)


def first_offset(cluster: ClusterView, queue: MessageQueue, start: Start, end: int) -> int:
    """The offset of `start` in a queue that ends at `end`; if `start` names an offset, it may be
    behind the end."""
    if start.kind == "last":
        return end
    least = min_offset(cluster, queue)
    if start.kind == "first":
        return least
    if start.kind == "time":
        return max(least, offset_at(cluster, queue, start.number, upper=False))
    return max(least, end - start.number if start.kind == "back" else start.number)


def span(cluster: ClusterView, queue: MessageQueue, start: Start) -> tuple[int, int]:
    """The offsets at which to begin and before which to end, in the queue as it is now."""
    end = max_offset(cluster, queue)
    first = first_offset(cluster, queue, start, end)
    if start.until_ms is not None:
        end = min(end, offset_at(cluster, queue, start.until_ms, upper=False))
    if start.end is not None:
        end = min(end, start.end)
    return min(first, end), end


def _first_position(cluster: Cluster, queue: MessageQueue, start: Start, follow: bool) -> _Position:
    if not follow:
        return _Position(queue, *span(cluster, queue, start))
    first = first_offset(cluster, queue, start, max_offset(cluster, queue))
    return _Position(queue, first, start.end, start.end is not None)


def pull_fields(
    queue: MessageQueue,
    offset: int,
    expression: tuple[str, str],
    *,
    count: int = BATCH,
    is_held: bool = False,
) -> dict[str, object]:
    """The fields of request 11 for the tools' group. expression: ("TAG", "a || b") or
    ("SQL92", "x > 1")."""
    return {
        "consumerGroup": GROUP,
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "queueOffset": offset,
        "maxMsgNums": count,
        "sysFlag": FLAG_SUBSCRIPTION | (FLAG_SUSPEND if is_held else 0),
        "commitOffset": 0,
        "suspendTimeoutMillis": HOLD_MS,
        "subVersion": 0,
        "subscription": expression[1],
        "expressionType": expression[0],
        "bname": queue.broker_name,
    }


def filter_expression(tags: Sequence[str], sql: str | None) -> tuple[str, str]:
    """The expression for pull_fields()."""
    return ("SQL92", sql) if sql is not None else ("TAG", " || ".join(tags) if tags else "*")


def _submit(
    cluster: Cluster, position: _Position, expression: tuple[str, str], follow: bool
) -> None:
    fields = pull_fields(position.queue, position.next_offset, expression, is_held=follow)
    position.replica = _replica(cluster, position)
    position.connection = cluster.connect(position.replica.address)
    position.opaque = position.connection.submit(RequestCode.PULL_MESSAGE, fields)


def _replies(cluster: Cluster, positions: list[_Position]) -> Iterator[tuple[_Position, Command]]:
    """Waits for one answer at least, and yields all that have come."""
    by_connection: dict[Connection, dict[int, _Position]] = {}
    for position in positions:
        connection = position.connection
        assert position.opaque is not None and connection is not None
        by_connection.setdefault(connection, {})[position.opaque] = position
    with selectors.DefaultSelector() as selector:
        for connection in by_connection:
            selector.register(connection, selectors.EVENT_READ)
        # Bytes read ahead do not make a socket readable, but `receive` below leaves none behind.
        end = clock.monotonic() + HOLD_S
        while not (ready := selector.select(clock.sleep_s(max(end - clock.monotonic(), 0)))):
            if clock.monotonic() >= end:
                break
    if not ready:
        for connection in by_connection:
            cluster.replicas.gone(connection.address)
        raise UnreachableError(f"no broker answered a pull within {HOLD_S:g} s")
    for key, _ in ready:
        peer = key.fileobj
        assert isinstance(peer, Connection)
        while (reply := peer.receive(0)) is not None:
            waiting = by_connection[peer].pop(reply.opaque, None)
            if waiting is not None:
                waiting.opaque = None
                yield waiting, reply


def _messages(cluster: Cluster, position: _Position, reply: Command) -> list[ReceivedMessage]:
    """Moves the position on by this answer, and returns its messages."""
    if reply.code not in PULLED:
        raise RemoteError(reply.code, reply.remark or "no reason given")
    end = None if position.follows else position.end_offset
    if end is not None and _is_asked_again(position, reply, end):
        return []
    if reply.code == ResponseCode.PULL_NOT_FOUND and end is not None:
        _check_slave(cluster, position)
        position.next_offset = _behind_nothing(position, reply, end)
        return []
    before = position.next_offset
    position.next_offset = reply.int_field("nextBeginOffset", before, 0)
    if reply.code != ResponseCode.SUCCESS:
        if position.next_offset == before and end is not None:
            _check_slave(cluster, position)
            position.next_offset = end  # it does not go on: end here instead of asking for ever
        return []
    return [
        received(position.queue.broker_name, each)
        for each in decode_messages(reply.body)
        if position.end_offset is None or each.queue_offset < position.end_offset
    ]


def _is_asked_again(position: _Position, reply: Command, end: int) -> bool:
    """Whether to ask again: the answer has no messages and does not say that the queue ends here.

    RemoteError: this has happened too often. To take it for the end would make a copy too short.
    """
    here = position.next_offset
    goes_on = _goes_on(position, reply, end)
    if reply.code not in NOTHING or not goes_on or reply.int_field("nextBeginOffset", here) > here:
        position.asked_again = 0
        return False
    position.asked_again += 1
    if position.asked_again > ASKED_AGAIN_MAX:
        raise RemoteError(
            reply.code,
            f"queue {position.queue.queue_id} of {position.queue.broker_name} has messages up to "
            f"{end}, and its broker gives none of them from {here} on; try again",
        )
    return True


def _goes_on(position: _Position, reply: Command, end: int) -> bool:
    return position.next_offset < min(end, int(reply.int_field("maxOffset", 0)))


def _behind_nothing(position: _Position, reply: Command, end: int) -> int:
    """Where to go on after an answer with code 19: at the end, unless the queue has a hole. If a
    file of the queue is lost, Apache's brokers answer with 19 and the first message of the next
    file."""
    following = int(reply.int_field("nextBeginOffset", position.next_offset))
    is_hole = following > position.next_offset and _goes_on(position, reply, end)
    return min(following, end) if is_hole else end


def _check_slave(cluster: Cluster, position: _Position) -> None:
    """UnreachableError: the answer came from a slave. A queue that ends early there may go on at
    the master."""
    replica = position.replica
    if replica is not None and not replica.is_master:
        cluster.replicas.gone(replica.address)
        raise UnreachableError(
            f"{replica.address}: the slave has queue {position.queue.queue_id} of"
            f" {position.queue.broker_name} up to {position.next_offset}, its master had it up to"
            f" {position.end_offset}; try again when one of them is back"
        )


def received(broker_name: str, stored: StoredMessage) -> ReceivedMessage:
    """The message, with its body unpacked if the standard library can do it."""
    body, packing = stored.body, None
    if stored.sys_flag & COMPRESSED_FLAG:
        packing = COMPRESSION_NAMES.get(
            stored.sys_flag & COMPRESSION_TYPE_COMPARATOR, "an unknown packing"
        )
        if packing == "zlib":
            try:
                body, packing = inflated(body), None
            except ValueError as error:
                packing = f"zlib, {error}"
    return ReceivedMessage(broker_name, stored, stored.properties, body, packing)
