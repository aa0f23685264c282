"""NATS as a peer: JetStream with one stream in files, loaded by a Go program on its client.

A row's topics and queues are subjects of one stream: a stream has one log, as a broker of RocketMQ
has. Work is told to the program turn by turn (tools/peers/nats.py).
"""

from __future__ import annotations

from peer import Load, NotOffered, Peer, ProcessLoad, Shape
from servers import placed_on

from rmq.demo.ports import free_port
from tools.peers.nats import VERSION, Nats

# The program's way for each kind of load, and what is to be said of it.
MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "send": ("send", ()),
    "pull": ("read", ("an ordered consumer for each connection reads all of the stream",)),
    "pop": ("work", ("one consumer that all connections fetch from; an ack for each message",)),
}
NO_SUCH = {
    "delay": "a subject holds one scheduled message at a time",
    "transaction": "it has none",
    "java": "the load is RocketMQ's client",
}


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
        if shape.kind not in MODES:
            raise NotOffered(NO_SUCH.get(shape.kind, "it has none"))
        mode, notes = MODES[shape.kind]
        if mode == "send" and shape.batch > 1:
            mode, notes = "batch", ("atomic batches: all of it is stored or nothing",)
        readers = shape.groups if shape.groups > 1 else shape.connections
        process = self.nats.load(
            shape.name, mode=mode, connections=readers,
            window=shape.window, bytes=shape.body_bytes, batch=shape.batch,
            subjects=shape.topics * shape.queues, once=int(shape.once),
            fill=0 if shape.once else shape.filled,
        )  # fmt: skip
        load = ProcessLoad(self, process)
        load.notes = notes
        return load
