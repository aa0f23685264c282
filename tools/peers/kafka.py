"""Kafka 4.1 on loopback, one node of KRaft, and its own load tools.

kafka = Kafka(Path("/tmp/k"), port=19092)
kafka.start(); kafka.fill("t", partitions=2, count=1_000_000, size=1024); kafka.stop()

With acks=1 a batch is in the page cache before its answer, and the kernel writes it when it likes;
log.flush.interval.messages=1 has each batch on the disk first.
"""

from __future__ import annotations

import re
import socket
import uuid
from base64 import urlsafe_b64encode
from itertools import pairwise
from pathlib import Path

from tools.peers.cache import HERE, fetch_dependencies, ran, tool
from tools.peers.server import Server

VERSION = "4.1.0"
SOURCE_VERSION = "4.2.0"  # of Spark's Kafka source: the newest that is published
POM = HERE / "kafka_pom.xml"
TOOLS = "org.apache.kafka.tools"
PRODUCED = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms 50th, .*?([\d.]+) ms 99th,"
    r" ([\d.]+) ms 99.9th"
)


def kafka_jars() -> Path:
    return fetch_dependencies(f"kafka-{VERSION}", POM, {"kafka.version": VERSION})


def source_jars() -> Path:
    """What spark.jars needs for format("kafka")."""
    return fetch_dependencies(
        f"spark-kafka-{SOURCE_VERSION}", POM, {"source.version": SOURCE_VERSION}
    )


class Kafka:
    """One broker that is its own controller; `settings` are lines of server.properties."""

    def __init__(
        self, folder: Path, port: int, heap: str = "1g", settings: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.heap = heap
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            **(settings or {}),
        }
        self._properties = folder / "server.properties"
        lines = [f"{key}={value}\n" for key, value in self.settings.items()]
        self._properties.write_text("".join(lines))
        self.server = Server(
            "Kafka",
            self._java("kafka.Kafka", str(self._properties), heap=heap),
            folder / "kafka.log",
            self._answers,
        )

    def start(self) -> None:
        if not (self.folder / "data").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self.run("kafka.tools.StorageTool", "format", "-t", cluster, "-c",
                     str(self._properties))  # fmt: skip
        self.server.start()

    def stop(self) -> None:
        self.server.stop(30)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.run(f"{TOOLS}.TopicCommand", "--create", "--if-not-exists", "--topic", topic,
                 "--partitions", str(partitions), "--bootstrap-server", self.address)  # fmt: skip

    def fill(self, topic: str, partitions: int, count: int, size: int) -> None:
        self.create_topic(topic, partitions)
        self.produce(topic, count, size, **{"linger.ms": "5", "batch.size": "65536"})

    def produce(
        self, topic: str, count: int, size: int, rate: float = -1, **producer: str
    ) -> dict[str, float]:
        """kafka-producer-perf-test: one producer, `rate` records a second (-1: all it can).

        Gives messages, seconds, and p50, p99 and p99.9 in ms, of which it has whole ones; they
        count from when a record was handed to the client.
        """
        given = {"bootstrap.servers": self.address, "acks": "1", **producer}
        output = self.run(
            f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", str(count),
            "--record-size", str(size), "--throughput", str(rate),
            "--producer-props", *(f"{key}={value}" for key, value in given.items()),
        )  # fmt: skip
        return produced(output)

    def consume(self, topic: str, count: int) -> dict[str, float]:
        """kafka-consumer-perf-test: a new group reads so many from the first on; messages, and
        seconds without those until it had its partitions."""
        output = self.run(
            f"{TOOLS}.ConsumerPerformance", "--topic", topic, "--messages", str(count),
            "--bootstrap-server", self.address, "--timeout", "60000",
        )  # fmt: skip
        return consumed(output)

    def run(self, main_class: str, *arguments: str) -> str:
        """What one of Kafka's programs printed; RuntimeError where it fails."""
        return ran(self._java(main_class, *arguments))

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _java(self, main_class: str, *arguments: str, heap: str = "256m") -> list[str]:
        return [tool("java"), f"-Xmx{heap}", "-cp", f"{kafka_jars()}/*", main_class, *arguments]


def produced(output: str) -> dict[str, float]:
    """Of the tool's last line that has percentiles: "500 records sent, 71.3 records/sec ..."."""
    last = PRODUCED.findall(output)
    if not last:
        raise RuntimeError(f"no result of a producer in:\n{output[-2000:]}")
    count, rate, *latencies = map(float, last[-1])
    return {"messages": count, "seconds": count / rate,
            **dict(zip(("p50", "p99", "p99.9"), latencies, strict=True))}  # fmt: skip


def consumed(output: str) -> dict[str, float]:
    """A heading of names and a line of values, with commas."""
    for names, values in pairwise(output.splitlines()):
        columns = [name.strip() for name in names.split(",")]
        if "fetch.time.ms" in columns:
            found = dict(zip(columns, values.split(", "), strict=True))
            return {"messages": float(found["data.consumed.in.nMsg"]),
                    "seconds": float(found["fetch.time.ms"]) / 1e3}  # fmt: skip
    raise RuntimeError(f"no result of a consumer in:\n{output[-2000:]}")
