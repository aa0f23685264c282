"""Kafka: version 4.1 on loopback, one node of KRaft, and the load for it.

    kafka = Kafka(Path("/tmp/k"), port=19092)
    kafka.start(); kafka.fill("t", partitions=2, count=1_000_000, size=1024)
    load = kafka.load("bench", connections=1, window=64, bytes=256)
    load.turn(seconds=2.0, rate=0.0)    {"seconds": 2.0, "messages": 240_000, "latency_us": {..}}
    load.close(); kafka.stop()

The load is a program over Kafka's own Java client (java_load/KafkaLoad.java). It is not
kafka-producer-perf-test, which only fills topics here, because the latencies which that shows are
whole milliseconds and leave out the time that a message waited to be sent.

With acks=1 a batch is in the page cache before its answer, and the kernel decides when it is
written; with log.flush.interval.messages=1 each batch is on the disk before its answer.
"""

from __future__ import annotations

import socket
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

from tools.peers.cache import HERE, fetch_dependencies, ran, tool
from tools.peers.java_program import JAVA_LOAD, compiled
from tools.peers.load_process import LoadProcess
from tools.peers.server import Server

VERSION = "4.1.0"
SOURCE_VERSION = "4.2.0"  # the newest published version of Spark's Kafka source
POM = HERE / "kafka_pom.xml"
TOOLS = "org.apache.kafka.tools"
# The options of bin/kafka-run-class.sh.
SCRIPT_JVM = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
)  # fmt: skip
LOAD_JVM = ("-Xmx512m", "-Dlog4j2.level=WARN")


def kafka_jars() -> Path:
    return fetch_dependencies(f"kafka-{VERSION}", POM, {"kafka.version": VERSION})


def source_jars() -> Path:
    """The folder of the jars that spark.jars needs for format("kafka")."""
    return fetch_dependencies(
        f"spark-kafka-{SOURCE_VERSION}", POM, {"source.version": SOURCE_VERSION}
    )


class Kafka:
    """One broker that is its own controller; `settings` are lines of server.properties."""

    def __init__(
        self,
        folder: Path,
        port: int,
        heap: str = "1g",
        settings: dict[str, str] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.jvm = (f"-Xms{heap}", f"-Xmx{heap}", *jvm)
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
            self._java("kafka.Kafka", str(self._properties), jvm=self.jvm),
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

    def pids(self) -> list[int]:
        return [self.server.pid]

    def create_topic(self, topic: str, partitions: int) -> None:
        self.run(f"{TOOLS}.TopicCommand", "--create", "--if-not-exists", "--topic", topic,
                 "--partitions", str(partitions), "--bootstrap-server", self.address)  # fmt: skip

    def fill(self, topic: str, partitions: int, count: int, size: int) -> None:
        """Creates the topic and fills it by one producer, in batches of 64 KiB."""
        self.create_topic(topic, partitions)
        self.run(
            f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", str(count),
            "--record-size", str(size), "--throughput", "-1", "--producer-props",
            f"bootstrap.servers={self.address}", "acks=1", "linger.ms=5", "batch.size=65536",
        )  # fmt: skip

    def load(self, topic: str, **shape: int | str) -> LoadProcess:
        """A load; `shape` are options of KafkaLoad.java, which creates and fills its topics."""
        classes = compiled(JAVA_LOAD / "KafkaLoad.java", kafka_jars())
        told = {"servers": self.address, "topic": topic, **shape}
        return LoadProcess([
            tool("java"), *LOAD_JVM, "-cp", f"{classes}:{kafka_jars()}/*", "KafkaLoad",
            *(f"{key}={value}" for key, value in told.items()),
        ])  # fmt: skip

    def run(self, main_class: str, *arguments: str) -> str:
        """Runs one of Kafka's programs; returns what it printed. RuntimeError when it fails."""
        return ran(self._java(main_class, *arguments))

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _java(
        self, main_class: str, *arguments: str, jvm: Sequence[str] = ("-Xmx256m",)
    ) -> list[str]:
        return [tool("java"), *jvm, "-cp", f"{kafka_jars()}/*", main_class, *arguments]
