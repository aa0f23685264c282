"""NATS as a peer: JetStream with one stream in files, loaded by a Go program on its client.

A row's topics and queues are subjects of one stream, because a stream has one log, as a RocketMQ
broker has. The program is told its work turn by turn (tools/peers/nats.py).
"""

from __future__ import annotations

from peer import ORDERED_OPEN, Foreign, Load, NotOffered, ProcessLoad, Shape

from rmq.demo.ports import free_port
from tools.peers.nats import VERSION, Nats

# For each kind of load: the program's mode, and notes that the page shows.
MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "send": ("send", ()),
    "follow": ("follow", ("an ordered consumer",)),
    "pull": ("read", ("ordered consumers on one connection, as many as queues, each reads all",)),
    "pop": ("work", ("one consumer for all connections; an ack for each message, not answered",)),
}
NO_SUCH = {
    "delay": "a subject holds one scheduled message at a time",
    "transaction": "it has none",
    "java": "its client here is Go's; 64 open sends on 1 connection are a row of their own",
}


class NatsPeer(Foreign):
    key, title, version = "nats", "NATS JetStream", VERSION.removeprefix("v")
    client = "nats.go: PublishAsync; ordered consumers (tools/peers/nats_load)"

    program: Nats

    def made(self) -> Nats:
        return Nats(self.folder, free_port(), self.sync)

    def settings(self) -> dict[str, str]:
        jetstream = {f"jetstream.{key}": value for key, value in self.program.jetstream.items()}
        return {**self.program.settings, **jetstream, "stream": "file storage, 1 replica"}

    def promise(self) -> str:
        if self.sync:
            return "on the disk: each message has an fsync of its own"
        return "written to the file: the end of the process loses nothing; synced each 2 minutes"

    def load(self, shape: Shape) -> Load:
        if shape.kind not in MODES:
            raise NotOffered(NO_SUCH.get(shape.kind, "it has none"))
        mode, notes = MODES[shape.kind]
        if mode == "send" and shape.batch > 1:
            mode, notes = "batch", ("atomic batches: all of it is stored or nothing",)
        connections, consumers, window = shape.connections, 1, shape.window
        if shape.ordered:
            window = ORDERED_OPEN
            notes = (f"{window} are open: a stream keeps the order of a connection",)
        if mode == "read" and shape.groups > 1:
            connections = shape.groups
            notes = ("an ordered consumer for each group, with a connection of its own",)
        elif shape.once:  # a second consumer would find in memory what the first one has read
            notes = ("one ordered consumer reads the stream",)
        elif mode == "read":
            consumers = shape.queues
        process = self.program.load(
            shape.name, mode=mode, connections=connections, consumers=consumers,
            window=window, bytes=shape.body_bytes, batch=shape.batch,
            subjects=shape.topics * shape.queues, once=int(shape.once),
            fill=0 if shape.once else shape.filled,
        )  # fmt: skip
        return ProcessLoad(self, process, notes)
