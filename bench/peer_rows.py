"""Peer rows: the shapes of load of `make bench-peers`, and how one is measured on all peers.

    row, servers = measured(SHAPES["single-256"], bench, [Rmq, Apache, NatsPeer, KafkaPeer])

All peers of a row run at the same time, on the same processors and disk, each with an empty store.
In a round each peer has one turn while the others wait, in alternating order; the paced rounds
follow. When a peer fails, its cell gets the error and it takes no more turns; the others go on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import msgspec
from cold import Cold
from comparison import Cell, Row, Server, Turn, common_pace
from peer import Load, NotOffered, Peer, Shape
from rounds import in_turns
from rows import QUEUES, Bench
from servers import placed_on

PACE_SHARE = 0.5  # of the slowest peer's rate, so that all peers can keep the pace
TAIL_PACE = 10_000.0
KIB = 1024
MEGABYTE = 1_000_000  # not 1 MiB: Kafka's default takes no such request, NATS' nothing larger


def sends(
    name: str, title: str, connections: int, window: int, sizes: tuple[int, ...] = (256, KIB)
) -> list[Shape]:
    """A shape for each size of body."""
    return [
        Shape(
            name=f"{name}-{size}", title=f"{title}, {size} B", connections=connections,
            window=window, body_bytes=size,
        )
        for size in sizes
    ]  # fmt: skip


SINGLE, MANY, ONE = "1 connection, 64 open sends", "64 connections, 1 open send", "1 x 1"


def send_shapes() -> list[Shape]:
    return [
        *sends("single", SINGLE, 1, 64),
        *sends("many", MANY, 64, 1),
        *sends("one", ONE, 1, 1),
        *sends("wide", "16 connections, 32 open sends each", 16, 32),
        *[msgspec.structs.replace(each, title=f"{each.title}, batches of 32", batch=32)
          for each in sends("batch", "1 connection, 4 open", 1, 4)],
        Shape(name="batch-64k", title="1 connection, 4 open, batches of 64 KiB: 224 of 256 B",
              window=4, batch=224),
        *sends("large", "1 connection, 4 open sends", 1, 4, (64 * KIB, MEGABYTE)),
        Shape(name="topics", title="10,000 topics, 1 connection, 64 open sends, 256 B", window=64,
              topics=10_000, queues=1),
        *[Shape(name=f"java-{size}", kind="java", window=64, body_bytes=size, free=True,
                title=f"Java client, 64 threads, 1 connection, shared processors, {size} B")
          for size in (256, KIB)],
    ]  # fmt: skip


CONSUMER = f"one consumer of {QUEUES} queues"  # which has one connection


def reads(size: int) -> list[Shape]:
    """Shapes of reads: of messages in memory, and of messages as they come."""
    memory = Shape(
        name=f"pull-{size}", title=f"pulls of 32 from memory, {CONSUMER}, {size} B", kind="pull",
        batch=32, body_bytes=size, filled=200_000, paced=False,
    )  # fmt: skip
    usual = f"reads from memory, fetches of the client's own size, {CONSUMER}, {size} B"
    return [
        memory,
        msgspec.structs.replace(memory, name=f"read-{size}", title=usual, batch=0),
        Shape(
            name=f"tail-{size}", title=f"{SINGLE}, a consumer follows, {size} B", kind="follow",
            window=64, body_bytes=size, pace=TAIL_PACE,
        ),
    ]  # fmt: skip


def read_shapes() -> list[Shape]:
    return [
        *reads(256),
        *reads(KIB),
        Shape(name="ordered", title="sends in order to 1 queue, a consumer follows in order, 256 B",
              kind="follow", queues=1, ordered=True),
        Shape(name="fan-out", title=f"pulls of 32 from memory, 4 groups, each {CONSUMER}, 256 B",
              kind="pull", groups=4, batch=32, filled=200_000, paced=False),
        Shape(name="cold", title=f"reads from cold pages, {CONSUMER}, a producer beside it, 1024 B",
              kind="cold", batch=0, body_bytes=KIB, filled=1_000_000, beside=1000.0, paced=False),
        Shape(name="pop", title="pops of 32 with acks, 8 connections, 256 B", kind="pop",
              connections=8, batch=32, filled=1_000_000, paced=False),
    ]  # fmt: skip


def later_shapes() -> list[Shape]:
    return [
        Shape(name="delay", title="delay of 1 s, sent and delivered, 256 B", kind="delay",
              window=64, paced=False),
        Shape(name="transaction", title="half messages and commits, 256 B", kind="transaction",
              window=64, paced=False),
    ]  # fmt: skip


def sync_shapes() -> list[Shape]:
    small = (256,)
    found = [
        *sends("sync-one", f"SYNC_FLUSH, {ONE}", 1, 1, small),
        *sends("sync-many", f"SYNC_FLUSH, {MANY}", 64, 1, small),
        *sends("sync-single", f"SYNC_FLUSH, {SINGLE}", 1, 64, small),
    ]
    return [msgspec.structs.replace(each, sync=True) for each in found]


SHAPES = {
    shape.name: shape for shape in (*send_shapes(), *read_shapes(), *later_shapes(), *sync_shapes())
}


@contextmanager
def started(peer: Peer) -> Iterator[Peer]:
    """Starts the peer with an empty store; stops it and removes the store afterwards."""
    try:
        peer.start()
        yield peer
    finally:
        with suppress(TimeoutError):  # stop() has killed it then
            peer.stop()
        shutil.rmtree(peer.folder, ignore_errors=True)


class Contender:
    """A peer in a row: its load, and the cell that gets its turns."""

    def __init__(self, peer: Peer, shape: Shape, until: ExitStack) -> None:
        self.peer = peer
        self.cell = Cell()
        self.server: Server | None = None
        self.load: Load | None = None
        with self.trying():
            until.enter_context(started(peer))
            self.server = peer.described()
            self.load = Cold(peer, shape) if shape.kind == "cold" else peer.load(shape)
            until.callback(self.load.close)
            self.cell.notes = list(self.load.notes)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Writes an error of the block into the cell, and ends the peer's part in the row."""
        try:
            yield
        except NotOffered as reason:
            self.load, self.cell.not_offered = None, str(reason)
        except Exception as error:  # the row is still useful without this peer
            self.load, self.cell.error = None, f"{type(error).__name__}: {error}"

    def warm(self, seconds_max: float) -> None:
        """Takes turns that do not count, for as long as server and client need. A turn may take
        less time, or more, than was asked for."""
        if self.load is None:
            return
        until = time.monotonic() + min(max(self.peer.warm_s, self.load.warm_s), seconds_max)
        while self.load is not None and (left := until - time.monotonic()) > 0:
            with self.trying():
                self.load.turn(left, 0.0)

    def turn(self, into: list[Turn], seconds: float, rate: float) -> None:
        if self.load is not None:
            with self.trying():
                turn = self.load.turn(seconds, rate)
                if not turn.messages:
                    raise RuntimeError(f"nothing was answered: {turn.failures}")
                into.append(turn)
                self.cell.notes = list(self.load.notes)


def measured(
    shape: Shape, bench: Bench, peers: list[Callable[[Bench, bool], Peer]]
) -> tuple[Row, dict[str, Server]]:
    """The row, and the peers' servers as they were measured."""
    row = Row(shape.name, shape.title, msgspec.to_builtins(shape))
    with ExitStack() as until:
        if shape.free:
            until.enter_context(placed_on(bench.all_cpus))
            bench = replace(bench, cpus=bench.all_cpus)
        found = [Contender(make(bench, shape.sync), shape, until) for make in peers]
        for each in found if shape.kind != "cold" else ():  # cold turns warm the server themselves
            each.warm(bench.warm_s_max)
        in_turns(bench.rounds, [full_speed(each, bench.seconds) for each in found])
        row.pace = shape.beside
        if shape.paced:
            row.pace = shape.pace or common_pace((each.cell for each in found), PACE_SHARE)
            if row.pace:
                in_turns(bench.rounds, [paced(each, bench.seconds, row.pace) for each in found])
        row.cells = {each.peer.key: each.cell for each in found}
        servers = {each.peer.key: each.server for each in found if each.server is not None}
    return row, servers


def full_speed(each: Contender, seconds: float) -> Callable[[], None]:
    return lambda: each.turn(each.cell.turns, seconds, 0.0)


def paced(each: Contender, seconds: float, rate: float) -> Callable[[], None]:
    return lambda: each.turn(each.cell.paced, seconds, rate)
