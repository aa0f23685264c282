"""NATS as a peer: JetStream with one stream in files, loaded by a Go program on its client.

A row's topics and queues are subjects of one stream: a stream has one log, as a broker of RocketMQ
has. Work is told to the program turn by turn (tools/peers/nats.py).
"""

from __future__ import annotations

from comparison import Turn
from peer import Load, Peer, Shape
from servers import placed_on

from rmq.demo.ports import free_port
from rmq.load.cpu import CpuMeter
from tools.peers.nats import VERSION, Nats


class NatsPeer(Peer):
    key, title, version = "nats", "NATS JetStream", VERSION.removeprefix("v")
    client = "nats.go: PublishAsync; ordered consumers (tools/peers/nats_load)"

    def start(self) -> None:
        self.nats = Nats(self.folder, free_port(), self.sync)
        with placed_on(self.bench.places(self.sync)):
            self.nats.start()

    def stop(self) -> None:
        self.nats.stop()

    def pids(self) -> list[int]:
        return [self.nats.server.pid]

    def settings(self) -> dict[str, str]:
        jetstream = {f"jetstream.{key}": value for key, value in self.nats.jetstream.items()}
        return {**self.nats.settings, **jetstream, "stream": "file storage, 1 replica"}

    def promise(self) -> str:
        if self.sync:
            return "on the disk: files are opened with O_SYNC, each message has a sync of its own"
        return "written to the file: the end of the process loses nothing; synced each 2 minutes"

    def load(self, shape: Shape) -> Load:
        return NatsTurns(self, shape)


class NatsTurns(Load):
    def __init__(self, peer: NatsPeer, shape: Shape) -> None:
        self.peer = peer
        mode = "read" if shape.kind == "pull" else "batch" if shape.batch > 1 else "send"
        self.notes = {
            "read": ("an ordered consumer for each connection reads all of the stream",),
            "batch": ("atomic batches: all of it is stored or nothing",),
            "send": (),
        }[mode]
        self.load = peer.nats.load(
            shape.name, mode=mode, connections=shape.connections, window=shape.window,
            bytes=shape.body_bytes, batch=shape.batch, subjects=shape.topics * shape.queues,
            fill=shape.filled,
        )  # fmt: skip

    def turn(self, seconds: float, rate: float) -> Turn:
        meter = CpuMeter(self.peer.pids())
        found = self.load.turn(seconds, rate)
        cpu = meter.seconds()
        return Turn(
            found["seconds"], found["messages"], cpu, self.peer.resident(),
            found["failures"], found["latency_us"],
        )  # fmt: skip

    def close(self) -> None:
        self.load.close()
