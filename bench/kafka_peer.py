"""Kafka as a peer: one node, loaded by a Java program on its own client.

The program is told its work turn by turn (tools/peers/kafka.py), and one JVM does all turns. A
row's topics and queues are topics and partitions here.
"""

from __future__ import annotations

from peer import JVM_WARM_S, ORDERED_OPEN, Foreign, Load, NotOffered, ProcessLoad, Shape

from rmq.demo.ports import free_port
from tools.peers.kafka import SCRIPT_JVM, VERSION, Kafka

# For each kind of load: the program's mode, and notes that the page shows.
MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "send": ("send", ("its client makes batches of what is open",)),
    "java": ("send", ("its client makes batches of what is open, as many as there are threads",)),
    "follow": ("follow", ("one consumer of all partitions",)),
    "pull": ("read", ("a consumer for each group, which reads all partitions",)),
}
NO_SUCH = {
    "pop": "its share groups are a preview",
    "delay": "it has no delayed messages",
    "transaction": "its transactions are of many messages, each of these of one",
}


class KafkaPeer(Foreign):
    key, title, version = "kafka", "Kafka", VERSION
    client = "kafka-clients: KafkaProducer, KafkaConsumer (tools/peers/java_load)"
    warm_s = JVM_WARM_S
    program: Kafka

    def made(self) -> Kafka:
        given = {"log.flush.interval.messages": "1"} if self.sync else {}
        return Kafka(self.folder, free_port(0, 1), settings=given, jvm=SCRIPT_JVM)

    def settings(self) -> dict[str, str]:
        return {"JVM": " ".join(self.program.jvm), **self.program.settings, "acks": "1"}

    def promise(self) -> str:
        if self.sync:
            return "on the disk: each batch of records has a sync of its own"
        return "written to the file: the end of the process loses nothing"

    def load(self, shape: Shape) -> Load:
        if shape.kind not in MODES:
            raise NotOffered(NO_SUCH.get(shape.kind, "it has none"))
        mode, notes = MODES[shape.kind]
        if shape.batch > 1 and mode == "send":
            notes = (f"batches of {shape.batch} records, all of one partition",)
        if shape.ordered:
            notes = (f"{ORDERED_OPEN} are open: its idempotent producer keeps the order",)
        process = self.program.load(
            shape.name, mode=mode, bytes=shape.body_bytes, batch=shape.batch,
            window=ORDERED_OPEN if shape.ordered else shape.window, ordered=int(shape.ordered),
            connections=shape.groups if mode == "read" else shape.connections,
            topics=shape.topics, partitions=shape.queues, once=int(shape.once), fill=shape.filled,
        )  # fmt: skip
        return ProcessLoad(self, process, notes, JVM_WARM_S)
