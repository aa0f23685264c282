"""A peer: a server under comparison, and the loads that it can be given.

    class Nats(Foreign): key, title, version, client, made(), promise(), settings(), load(shape)
    load = peer.load(Shape(name="single", title="...", window=64))
    load.turn(seconds=2.0, rate=0.0)        a Turn: as many messages as go; rate: so many a second

A load that the peer, or the client it is measured with, does not have raises NotOffered with the
reason, which the table shows in its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol

import msgspec
from comparison import Server, Turn
from rows import QUEUES, Bench
from servers import placed_on

from rmq.load.cpu import CpuMeter, resident_bytes, with_descendants
from tools.peers.load_process import LoadProcess

JVM_WARM_S = 20.0  # it compiles what it runs for long
ORDERED_OPEN = 64  # sends in order, where the order of what is open is kept


class NotOffered(Exception):
    """There is no such load of this peer; the text says why."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a row asks of every peer. A queue is a partition of Kafka's, a subject of NATS'."""

    name: str
    title: str
    kind: str = "send"  # of rocketmq_loads.py, "follow" or "cold"
    body_bytes: int = 256
    connections: int = 1  # that send, or pop; who pulls has one for each group
    window: int = 1  # open requests of a connection
    batch: int = 1  # messages of a request, or of an answer to a pull; 0: as many as are usual
    topics: int = 1
    queues: int = QUEUES  # of a topic
    groups: int = 1  # that read, each of them all, by one consumer
    filled: int = 0  # messages that are there before
    once: bool = False  # they have been there for long, and are read once
    beside: float = 0.0  # messages a second that a producer sends beside the reads
    ordered: bool = False  # all messages of a queue are read in the order they were sent
    sync: bool = False  # an answer says that the message is on the disk
    free: bool = False  # load and servers share all processors, where a client wants more than one
    paced: bool = True  # there are latencies, too
    pace: float = 0.0  # messages a second of those; 0: half of what the slowest can do


class Load(ABC):
    """A load on one peer; it begins anew in each turn."""

    notes: tuple[str, ...] = ()  # what is done in another way than the shape says
    warm_s = 0.0  # of its client before it counts

    @abstractmethod
    def turn(self, seconds: float, rate: float) -> Turn:
        """Messages for so long; rate in messages a second, 0: as many as go. Latencies are of
        schedules alone: where the next message waits for an answer, a stall delays one message
        instead of all that were due."""

    def close(self) -> None:  # noqa: B027 - few start something
        """Ends what it started."""


class Measured(Protocol):
    """Whose CPU and memory count."""

    def pids(self) -> list[int]: ...

    def resident(self) -> int: ...


class ProcessLoad(Load):
    """A load that a process of its own makes."""

    def __init__(
        self, peer: Measured, process: LoadProcess, notes: tuple[str, ...] = (), warm_s: float = 0.0
    ) -> None:
        self.measured, self.process, self.notes, self.warm_s = peer, process, notes, warm_s

    def turn(self, seconds: float, rate: float) -> Turn:
        meter = CpuMeter(self.measured.pids())
        found = self.process.turn(seconds, rate)
        cpu = meter.seconds()
        return Turn(
            found["seconds"], found["messages"], cpu, self.measured.resident(),
            found["failures"], found["latency_us"] if rate else {},
        )  # fmt: skip

    def close(self) -> None:
        self.process.close()


class Running(Protocol):
    def stop(self) -> object: ...

    def pids(self) -> list[int]: ...


class Program(Running, Protocol):
    """A server of tools/peers."""

    def start(self) -> None: ...


class Peer(ABC):
    """A server on loopback, whose files are in a folder of its own."""

    key: str
    title: str
    version: str
    client: str
    warm_s = 0.3  # of a load before it counts
    program: Running | None = None  # it was not started

    def __init__(self, bench: Bench, sync: bool) -> None:
        self.bench = bench
        self.sync = sync
        self.folder = bench.root / self.key

    @abstractmethod
    def start(self) -> None:
        """Returns when it serves, with what is in its folder, on the processors that are its."""

    def stop(self) -> None:
        """As its operator would, so that it finds all in order when it starts again."""
        if self.program is not None:
            self.program.stop()

    def pids(self) -> list[int]:
        """Whose CPU and memory count: all processes of it, whoever started them."""
        own = self.program.pids() if self.program is not None else []
        return [each for pid in own for each in with_descendants(pid)]

    @abstractmethod
    def settings(self) -> dict[str, str]: ...

    @abstractmethod
    def promise(self) -> str:
        """What an answer says about the message."""

    @abstractmethod
    def load(self, shape: Shape) -> Load:
        """Creates what the shape needs. NotOffered, see there."""

    def described(self) -> Server:
        return Server(
            self.title, self.version, self.client, self.promise(),
            without_paths(self.settings(), self.folder),
        )  # fmt: skip

    def resident(self) -> int:
        return sum(resident_bytes(pid) for pid in self.pids())


class Foreign(Peer):
    """A peer of other makers."""

    @abstractmethod
    def made(self) -> Program:
        """Its server, not started."""

    def start(self) -> None:
        self.program = program = self.made()
        with placed_on(self.bench.places(self.sync)):
            program.start()


def without_paths(settings: dict[str, str], folder: Path) -> dict[str, str]:
    """Where files were says nothing to a reader."""
    return {key: value.replace(str(folder), ".") for key, value in settings.items()}
