"""A peer: a server under comparison, and the loads that it can be given.

    class Nats(Foreign): key, title, version, client, made(), promise(), settings(), load(shape)
    load = peer.load(Shape(name="single", title="...", window=64))
    load.turn(seconds=2.0, rate=0.0)        a Turn; rate: messages a second, 0: as many as possible

When the peer, or the client it is measured with, has no such load, load() raises NotOffered with
the reason, and the table shows that reason instead of numbers.
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

JVM_WARM_S = 20.0  # time in which a JVM compiles what it runs often
ORDERED_OPEN = 64  # open sends in a row with order, where a client keeps the order of open sends


class NotOffered(Exception):
    """This peer has no such load; the text says why."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a row, for every peer. A queue is a partition in Kafka, a subject in NATS."""

    name: str
    title: str
    kind: str = "send"  # a kind of rocketmq_loads.py, "follow" or "cold"
    body_bytes: int = 256
    connections: int = 1  # that send or pop; pulls have one connection for each group
    window: int = 1  # open requests of a connection
    batch: int = 1  # messages of a request, or of an answer to a pull; 0: the client's default
    topics: int = 1
    queues: int = QUEUES  # of a topic
    groups: int = 1  # that read; each reads all messages, by one consumer
    filled: int = 0  # messages that are stored before the row begins
    once: bool = False  # these are not in memory, and are read once
    beside: float = 0.0  # messages a second that a producer sends beside the reads
    ordered: bool = False  # all messages of a queue are read in the order they were sent
    sync: bool = False  # an answer says that the message is on the disk
    free: bool = False  # load and servers share all processors: for a client that needs several
    paced: bool = True  # paced turns measure latencies, too
    pace: float = 0.0  # messages a second of paced turns; 0: half of what the slowest peer can do


class Load(ABC):
    """A load on one peer; it begins anew in each turn."""

    notes: tuple[str, ...] = ()  # what is done in another way than the shape says
    warm_s = 0.0  # how long its client must run before turns count

    @abstractmethod
    def turn(self, seconds: float, rate: float) -> Turn:
        """Runs the load for `seconds`, with `rate` messages a second; 0: as many as possible. There
        are latencies only with a rate: without a schedule the next message waits for an answer,
        and a stall delays one message instead of all that would have been due."""

    def close(self) -> None:  # noqa: B027 - few start something
        """Ends the processes and connections of the load."""


class Measured(Protocol):
    """A server whose CPU and memory are counted."""

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
    warm_s = 0.3  # how long a load must run on it before turns count
    program: Running | None = None  # None: not started yet

    def __init__(self, bench: Bench, sync: bool) -> None:
        self.bench = bench
        self.sync = sync
        self.folder = bench.root / self.key

    @abstractmethod
    def start(self) -> None:
        """Starts the server on its processors, with the files in its folder; returns when it
        serves."""

    def stop(self) -> None:
        """Stops the server cleanly, as its operator would, so that it can be started again."""
        if self.program is not None:
            self.program.stop()

    def pids(self) -> list[int]:
        """The processes whose CPU and memory are counted: all processes of the server, and those
        that these have started."""
        own = self.program.pids() if self.program is not None else []
        return [each for pid in own for each in with_descendants(pid)]

    @abstractmethod
    def settings(self) -> dict[str, str]: ...

    @abstractmethod
    def promise(self) -> str:
        """What an answer of the server says about where the message is."""

    @abstractmethod
    def load(self, shape: Shape) -> Load:
        """Creates the topics and messages that the shape needs. Raises NotOffered."""

    def described(self) -> Server:
        return Server(
            self.title, self.version, self.client, self.promise(),
            without_paths(self.settings(), self.folder),
        )  # fmt: skip

    def resident(self) -> int:
        return sum(resident_bytes(pid) for pid in self.pids())


class Foreign(Peer):
    """A peer other than rmq."""

    @abstractmethod
    def made(self) -> Program:
        """The peer's server, not started yet."""

    def start(self) -> None:
        self.program = program = self.made()
        with placed_on(self.bench.places(self.sync)):
            program.start()


def without_paths(settings: dict[str, str], folder: Path) -> dict[str, str]:
    """The settings with "." instead of the folder's path, which says nothing to a reader."""
    return {key: value.replace(str(folder), ".") for key, value in settings.items()}
