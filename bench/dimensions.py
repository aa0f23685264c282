"""Dimensions: the things that grow in `make bench-growth`, and a load for each size of them.

    with DIMENSIONS["queues"].at(bench, 10_000) as load: load.slice(0.1)

Each size has a broker of its own, with a new store. Everything but the one thing that grows is the
same for all sizes: 256-byte bodies, one connection with 64 open sends, 8 queues.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import NamedTuple

from machine_rows import SPREAD, of_first_broker
from rows import Bench, Sliced, fill, sends, topic_queues

from cext.load.consumer import Consumer
from rmq.client.blocking.connection import Connection
from rmq.load import control
from rmq.load.frames import pull_frames
from rmq.load.run import connect
from rmq.system.descriptors import raise_limit

WINDOW = 64
OPEN_SENDS = 1000  # of all busy connections together
OPEN_BYTES = 16 << 20  # of large bodies
QUEUES_OF_TOPIC = 100
READ_CONNECTIONS = 8
READ_MESSAGES = 100_000
SMALL_BODY_BYTES = 16
# Disk space of a message of 16 bytes in the log, in its queue and in the index, with some spare.
BACKLOG_BYTES = 300

Load = AbstractContextManager[Sliced]


class Dimension(NamedTuple):
    title: str
    unit: str  # of the sizes
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    at: Callable[[Bench, int], Load]
    disk_bytes: int = 0  # disk space for each unit of the size


@contextmanager
def queues(bench: Bench, size: int) -> Iterator[Sliced]:
    topics = -(-size // QUEUES_OF_TOPIC)
    with bench.ours(name=f"queues-{size}") as ours:
        names = topic_queues(ours, topics, min(size, QUEUES_OF_TOPIC))
        yield sends(bench, ours, names, window=WINDOW)


@contextmanager
def idle_connections(bench: Bench, size: int) -> Iterator[Sliced]:
    raise_limit()
    with bench.ours(name=f"idle-{size}") as ours, ExitStack() as held:
        idle = [held.enter_context(connect(ours.address)) for _ in range(size)]
        yield sends(bench, ours, topic_queues(ours), window=WINDOW)
        if lost := sum(map(is_closed, idle)):
            raise RuntimeError(f"{lost:,} of {size:,} idle connections were closed")


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed the connection. Does not wait."""
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@contextmanager
def busy_connections(bench: Bench, size: int) -> Iterator[Sliced]:
    raise_limit()
    with bench.ours(name=f"busy-{size}") as ours:
        yield sends(bench, ours, topic_queues(ours), size, max(1, OPEN_SENDS // size))


@contextmanager
def backlog(bench: Bench, size: int) -> Iterator[Sliced]:
    small = replace(bench, body_bytes=SMALL_BODY_BYTES)
    with bench.ours(name=f"backlog-{size}") as ours:
        names = topic_queues(ours)
        if size:
            fill(small, ours, names, size)
        yield sends(small, ours, names, window=WINDOW)


@contextmanager
def body(bench: Bench, size: int) -> Iterator[Sliced]:
    window = max(1, min(WINDOW, OPEN_BYTES // size))
    with bench.ours(name=f"body-{size}") as ours:
        yield sends(replace(bench, body_bytes=size), ours, topic_queues(ours), window=window)


@contextmanager
def groups(bench: Bench, size: int) -> Iterator[Sliced]:
    names = [f"group-{number}" for number in range(size)]
    with bench.ours(name=f"groups-{size}") as ours, Connection(ours.address) as control_connection:
        queues = topic_queues(ours)
        fill(bench, ours, queues, min(READ_MESSAGES, bench.filter_messages))
        for name in names:
            control.subscribe(control_connection, name, [queues[0].topic])
        ranges = [control.queue_range(control_connection, queue) for queue in queues]
        frames = pull_frames(queues * size, [name for name in names for _ in queues], suspend_ms=0)
        sockets = [connect(ours.address) for _ in range(READ_CONNECTIONS)]
        offsets = ranges * size
        yield Sliced(bench, ours, Consumer(frames, sockets, [*offsets], rewind=True))


@contextmanager
def shards(bench: Bench, size: int) -> Iterator[Sliced]:
    with bench.ours(name=f"shards-{size}", shards=size) as ours:
        yield sends(bench, ours, of_first_broker(topic_queues(ours)), *SPREAD)


@contextmanager
def properties(bench: Bench, size: int) -> Iterator[Sliced]:
    more = "".join(f"property-{number:02}\x01value-{number:02}\x02" for number in range(size))
    with bench.ours(name=f"properties-{size}") as ours:
        yield sends(bench, ours, topic_queues(ours), window=WINDOW, more=more)


KIB, MIB, MILLION = 1 << 10, 1 << 20, 1_000_000
DIMENSIONS = {
    "queues": Dimension(
        "queues", "queues, a hundred of a topic, sent to in turn",
        (8, 100, 1000, 10_000, 100_000), (8, 100), queues,
    ),
    "idle": Dimension(
        "idle connections", "connections beside the one that sends",
        (10, 100, 1000, 10_000), (10, 20), idle_connections,
    ),
    "busy": Dimension(
        "busy connections", f"connections that have {OPEN_SENDS:,} open sends together",
        (1, 8, 64, 250, 1000), (1, 8), busy_connections,
    ),
    "backlog": Dimension(
        "backlog", f"messages of {SMALL_BODY_BYTES} B that were there before",
        (0, MILLION, 10 * MILLION, 50 * MILLION), (0, 2000), backlog, BACKLOG_BYTES,
    ),
    "body": Dimension(
        "body size", "bytes of a body",
        (16, 256, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB), (16, 4 * KIB), body,
    ),
    "groups": Dimension(
        "consumer groups", "groups, each of which reads all, in pulls of 32", (1, 4, 16, 64),
        (1, 4), groups,
    ),
    "shards": Dimension("shards", "shards", (1, 2, 3, 4), (1, 2), shards),
    "properties": Dimension(
        "properties", "properties of a message, beside its unique key", (0, 1, 4, 8, 16, 32),
        (0, 4), properties,
    ),
}  # fmt: skip
