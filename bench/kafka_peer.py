"""Kafka as a peer: one node, loaded by its own kafka-producer-perf-test and -consumer-perf-test.

A run of a tool is a turn: its JVM starts anew in each, which no number counts but the broker's few
idle milliseconds meanwhile. How many messages make a turn follows from the last turn's rate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from comparison import PERCENTILES, Turn
from peer import Load, NotOffered, Peer, Shape
from servers import placed_on

from rmq.demo.ports import free_port
from rmq.load.cpu import CpuMeter
from tools.peers.kafka import VERSION, Kafka

FIRST_RATE = 2_000.0  # of a JVM that has compiled nothing
# What a batch and a record of Kafka's take beside the body (its message format 2), rounded up.
BATCH_BYTES, RECORD_BYTES = 61, 12
NO_SUCH = {
    "pop": "its share groups are a preview, and its tool has none",
    "delay": "it has no delayed messages",
    "transaction": "its transactions are of many messages, each of these of one",
    "java": "the load is RocketMQ's client",
}
FILL_BATCH = {"batch.size": "65536", "linger.ms": "5"}


class KafkaPeer(Peer):
    key, title, version = "kafka", "Kafka", VERSION
    client = "kafka-producer-perf-test, kafka-consumer-perf-test"
    warm_s = 20.0  # a JVM compiles what it runs for long

    def start(self) -> None:
        given = {"log.flush.interval.messages": "1"} if self.sync else {}
        self.kafka = Kafka(self.folder, free_port(0, 1), settings=given)
        with placed_on(self.bench.places(self.sync)):
            self.kafka.start()

    def stop(self) -> None:
        self.kafka.stop()

    def pids(self) -> list[int]:
        return [self.kafka.server.pid]

    def settings(self) -> dict[str, str]:
        return {"-Xmx": self.kafka.heap, **self.kafka.settings, "acks": "1"}

    def promise(self) -> str:
        if self.sync:
            return "on the disk: each batch of records has a sync of its own"
        return "in the page cache: the end of the process loses nothing"

    def load(self, shape: Shape) -> Load:
        if shape.kind in NO_SUCH:
            raise NotOffered(NO_SUCH[shape.kind])
        if shape.connections > 1 and shape.kind == "send":
            raise NotOffered("its tool has one producer, which has one connection to a broker")
        if shape.topics > 1:
            raise NotOffered("its tool sends to one topic")
        self.kafka.create_topic(shape.name, shape.queues)
        if shape.filled and not shape.once:
            self.kafka.produce(shape.name, shape.filled, shape.body_bytes, **FILL_BATCH)
        return (Reads if shape.kind == "pull" else Records)(self, shape)


class KafkaLoad(Load):
    def __init__(self, peer: KafkaPeer, shape: Shape) -> None:
        self.peer, self.shape = peer, shape

    def run(self, seconds: float, rate: float) -> dict[str, float]:
        raise NotImplementedError

    def turn(self, seconds: float, rate: float) -> Turn:
        meter = CpuMeter(self.peer.pids())
        found = self.run(seconds, rate)
        cpu = meter.seconds()
        latency = {name: found[name] * 1e3 for name in PERCENTILES if name in found}
        return Turn(
            found["seconds"], int(found["messages"]), cpu, self.peer.resident(), {}, latency
        )


class Records(KafkaLoad):
    """Requests of one batch each, of which so many are open as the shape says."""

    notes = ("latencies in whole ms, from when its tool handed a record to the client",)

    def __init__(self, peer: KafkaPeer, shape: Shape) -> None:
        super().__init__(peer, shape)
        self.rate = FIRST_RATE
        size = BATCH_BYTES + shape.batch * (RECORD_BYTES + shape.body_bytes)
        self.producer = {
            "batch.size": "1" if shape.batch == 1 else str(size),
            "linger.ms": "0",
            "max.in.flight.requests.per.connection": str(shape.window),
            "enable.idempotence": "false",
        }

    def run(self, seconds: float, rate: float) -> dict[str, float]:
        count = max(100, int(seconds * (rate or self.rate)))
        found = self.peer.kafka.produce(
            self.shape.name, count, self.shape.body_bytes, rate or -1, **self.producer
        )
        if found["messages"] != count:
            raise RuntimeError(f"{found['messages']:,.0f} of {count:,} records were answered")
        if not rate:
            self.rate = found["messages"] / found["seconds"]
        return found


class Reads(KafkaLoad):
    """All that is there, once a turn, however long that takes; a new group each time."""

    notes = ("a consumer for each group; a turn reads everything once, in fetches of its own size",)

    def run(self, seconds: float, rate: float) -> dict[str, float]:
        with ThreadPoolExecutor(self.shape.groups) as pool:
            runs = [
                pool.submit(self.peer.kafka.consume, self.shape.name, self.shape.filled)
                for _ in range(self.shape.groups)
            ]
        found = [each.result() for each in runs]
        # The tools do not begin at the same moment: the rate is what they would do at once.
        return {"messages": sum(each["messages"] for each in found),
                "seconds": max(each["seconds"] for each in found)}  # fmt: skip
