"""RocketMQ loads: loads on a broker of RocketMQ's protocol, by `rmq bench`'s C loop or by Java.

send          as many sends as possible, or sends on a schedule
pull          pulls of all stored messages over and over, by one or more groups of one consumer
pop           pops of all stored messages with an ack for each pop, in each turn by a new group
delay         sends with delay level 1; a turn ends when all of its messages are delivered
transaction   half messages, then their commits; a turn ends in the same way
java          threads that share a producer of the official client

LOADS["send"](peer, shape, queues).turn(seconds=2.0, rate=0.0)
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from comparison import PERCENTILES, Turn
from peer import JVM_WARM_S, Load, Measured, ProcessLoad, Shape
from rows import Bench, messages_held
from waiting_rows import HALF_QUEUE, Held, await_half_places, await_held, commits

from cext.load.consumer import Consumer
from cext.load.histogram import Histogram
from cext.load.popper import Popper
from cext.load.producer import Producer
from rmq.base.server_address import split_address
from rmq.client.blocking.connection import Connection
from rmq.load import control
from rmq.load.cpu import CpuMeter
from rmq.load.frames import Queue, SendShape, pull_frames, send_frames
from rmq.load.report import code_name, latency_microseconds
from rmq.load.run import Result, connect, measure, open_popper, open_producer
from tools.peers.java_client import load_client
from tools.peers.load_process import LoadProcess

GROUP = "bench-consumer"
PULL_BATCH = 32  # messages of an answer: by default the most that one may have
PRODUCERS = "bench-producer"
TRANSACTION_FLAG = 4  # sysFlag of a half message
PATIENCE_S = 30.0  # for messages that were due in a turn, and requests open at its end


class Broker(Held, Measured, Protocol):
    """What a load needs from its peer."""

    bench: Bench

    @property
    def name_server(self) -> str: ...


class RocketmqLoad(Load):
    def __init__(self, peer: Broker, shape: Shape, queues: list[Queue]) -> None:
        self.peer, self.shape, self.queues = peer, shape, queues

    def shaped(self, **more: Any) -> SendShape:
        return SendShape(self.shape.body_bytes, batch=self.shape.batch, **more)

    def producer(
        self, shape: SendShape, rate: float = 0.0, seconds: float = 0.0, limit: int = 0
    ) -> Producer:
        """A producer of the C loop. With a rate it ends when all messages that are due in `seconds`
        were answered. `limit` is its number of requests, 0: no limit."""
        addresses = [self.peer.address] * self.shape.connections
        limit = limit or math.ceil(rate * seconds / shape.batch)
        frames = send_frames(self.queues, shape)
        return open_producer(frames, addresses, self.shape.window, rate, limit)


class Looped(RocketmqLoad):
    """A load of the C loop; its connections are new in each turn."""

    bounded = False  # True: no warm-up, because it would use up messages that the turn needs

    @contextmanager
    def loop(self, rate: float, seconds: float) -> Iterator[Producer | Consumer | Popper]:
        raise NotImplementedError

    def turn(self, seconds: float, rate: float) -> Turn:
        warmup = 0.0 if self.shape.once or self.bounded else self.peer.bench.warmup
        longest = seconds + PATIENCE_S if rate else seconds
        with self.loop(rate, warmup + seconds) as loop:
            result = measure(loop, longest, warmup, self.peer.pids())
        return turn_of(result, self.peer.resident(), paced=rate > 0)


def failures_of(stats: dict[str, Any], unanswered: int) -> dict[str, int]:
    """The failures in a loop's counts, by cause."""
    failures = {code_name(code): count for code, count in stats["failures"].items()}
    others = {
        "no answer": unanswered,
        "not sent in time": stats.get("overdue", 0),
        "left out": stats.get("skipped", 0),
    }
    return failures | {why: count for why, count in others.items() if count}


def turn_of(result: Result, resident_bytes: int, paced: bool) -> Turn:
    failures = failures_of(result.details, result.unanswered)
    return Turn(
        result.seconds, result.messages, result.cpu_seconds or 0.0, resident_bytes, failures,
        latency_us(result.latency) if paced else {},
    )  # fmt: skip


def latency_us(latency: Histogram) -> dict[str, float]:
    """The latencies of a turn, by name of PERCENTILES."""
    if not latency.count:
        return {}
    table = latency_microseconds(latency)
    return {name: table[name] for name in PERCENTILES}


class Sends(Looped):
    @contextmanager
    def loop(self, rate: float, seconds: float) -> Iterator[Producer]:
        yield self.producer(self.shaped(), rate, seconds)


class Read(Looped):
    """A load that reads. A heartbeat makes its groups known to the broker while a turn lasts."""

    @contextmanager
    def subscribed(self, groups: list[str]) -> Iterator[Connection]:
        topics = list(dict.fromkeys(queue.topic for queue in self.queues))
        with Connection(self.peer.address) as connection:
            for group in groups:
                control.subscribe(connection, group, topics)
            yield connection


class Pulls(Read):
    """One consumer in each group, with one connection, on which a pull of each queue is open."""

    @contextmanager
    def loop(self, rate: float, seconds: float) -> Iterator[Consumer]:
        groups = [f"{GROUP}-{number}" for number in range(self.shape.groups)]
        with self.subscribed(groups) as connection:
            ranges = [control.queue_range(connection, queue) for queue in self.queues]
            # The loop deals the queues out to the connections in turn, so each group gets its own.
            queues = [queue for queue in self.queues for _ in groups]
            offsets = [each for each in ranges for _ in groups]
            batch = self.shape.batch or PULL_BATCH
            frames = pull_frames(queues, groups * len(self.queues), batch, suspend_ms=0)
            sockets = [connect(self.peer.address) for _ in groups]
            yield Consumer(frames, sockets, [*offsets], rewind=not self.shape.once)


class Pops(Read):
    """Pops. A turn ends, at the latest, when everything was popped once."""

    bounded = True
    notes = ("a batch ack for each pop; what becomes of check points later is not counted",)

    def __init__(self, peer: Broker, shape: Shape, queues: list[Queue]) -> None:
        super().__init__(peer, shape, queues)
        self.turns = 0

    @contextmanager
    def loop(self, rate: float, seconds: float) -> Iterator[Popper]:
        self.turns += 1
        group = f"{GROUP}-{self.turns}"
        with self.subscribed([group]):
            yield open_popper(
                self.queues, self.peer.address, group, self.shape.batch,
                connections=self.shape.connections, window=self.shape.window,
                limit=self.shape.filled,
            )  # fmt: skip


# ------------------------------------------------------------------- what is delivered later


class Waits(RocketmqLoad):
    """Sends of messages that reach their queues later, and the wait for the last of them."""

    notes = ("a turn ends when the last message of it is in its queue",)
    limit = 0  # messages of a turn; 0: as many as possible

    def waiting(self) -> SendShape:
        raise NotImplementedError

    def release(self, first: int, acked: int) -> None:
        """Commits the turn's `acked` half messages; their queue had `first` messages before."""

    def turn(self, seconds: float, rate: float) -> Turn:
        meter, began = CpuMeter(self.peer.pids()), time.monotonic()
        first = messages_held(self.peer, [HALF_QUEUE])
        there = messages_held(self.peer, self.queues)
        loop = self.producer(self.waiting(), limit=self.limit)
        loop.run(int(seconds * 1e6))
        unanswered = loop.finish(int(PATIENCE_S * 1e6))
        stats = loop.stats()
        self.release(first, stats["acked"])
        await_held(self.peer, self.queues, there + stats["acked"])
        took = time.monotonic() - began
        failures = failures_of(stats, unanswered)
        return Turn(took, stats["acked"], meter.seconds(), self.peer.resident(), failures)


class Delayed(Waits):
    def waiting(self) -> SendShape:
        return self.shaped(more="DELAY\x011\x02")


class Transactions(Waits):
    """Commits follow when all half messages of the turn are in the files of their queue. Half
    messages that have waited for 6 s are stored again to be checked (transactionTimeOut). The row
    does not measure that, so a turn sends only so many that all are committed before."""

    limit = 100_000
    notes = (*Waits.notes, f"at most {limit:,} in a turn")

    def waiting(self) -> SendShape:
        more = f"TRAN_MSG\x01true\x02PGROUP\x01{PRODUCERS}\x02"
        return self.shaped(more=more, sys_flag=TRANSACTION_FLAG)

    def release(self, first: int, acked: int) -> None:
        places = await_half_places(self.peer, first, acked)
        if not places:
            return
        with socket.create_connection(split_address(self.peer.address)) as connection:
            connection.sendall(commits(first, places, PRODUCERS))
            connection.recv(1)  # the answer to the last commit


# ------------------------------------------------------------------- the official client


class JavaThreads(ProcessLoad):
    def __init__(self, peer: Broker, shape: Shape, queues: list[Queue]) -> None:
        folder = peer.store.parent / "client"
        command = load_client(folder, peer.name_server, shape.name, shape.window, shape.body_bytes)
        notes = (f"{shape.window} threads, one producer of rocketmq-client",)
        super().__init__(peer, LoadProcess(command), notes, JVM_WARM_S)


LOADS: dict[str, Callable[[Broker, Shape, list[Queue]], Load]] = {
    "send": Sends, "pull": Pulls, "pop": Pops, "delay": Delayed, "transaction": Transactions,
    "java": JavaThreads,
}  # fmt: skip
