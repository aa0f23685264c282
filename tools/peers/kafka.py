"""Kafka 4.1 on loopback, one node of KRaft, for the comparison of Spark sources.

kafka = Kafka(Path("/tmp/k"), port=19092)
kafka.start(); kafka.fill("t", partitions=2, count=1_000_000, size=1024); kafka.stop()
"""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from tools.peers.cache import HERE, fetch_dependencies, tool
from tools.peers.server import Server

VERSION = "4.1.0"
SOURCE_VERSION = "4.2.0"  # of Spark's Kafka source: the newest that is published
POM = HERE / "kafka_pom.xml"


def kafka_jars() -> Path:
    return fetch_dependencies(f"kafka-{VERSION}", POM, {"kafka.version": VERSION})


def source_jars() -> Path:
    """What spark.jars needs for format("kafka")."""
    return fetch_dependencies(
        f"spark-kafka-{SOURCE_VERSION}", POM, {"source.version": SOURCE_VERSION}
    )


class Kafka:
    """One broker that is its own controller."""

    def __init__(self, folder: Path, port: int, heap: str = "1g") -> None:
        self.folder = folder
        self.port = port
        self.address = f"127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "server.properties"
        self._settings.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{port + 1}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={folder / 'data'}\noffsets.topic.replication.factor=1\n"
        )
        self.server = Server(
            "Kafka",
            self._java("kafka.Kafka", str(self._settings), heap=heap),
            folder / "kafka.log",
            self._answers,
        )

    def start(self) -> None:
        if not (self.folder / "data").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c",
                      str(self._settings))  # fmt: skip
        self.server.start()

    def stop(self) -> None:
        self.server.stop(30)

    def fill(self, topic: str, partitions: int, count: int, size: int) -> None:
        self._run("org.apache.kafka.tools.TopicCommand", "--create", "--topic", topic,
                  "--partitions", str(partitions), "--bootstrap-server", self.address)  # fmt: skip
        self._run(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records",
            str(count), "--record-size", str(size), "--throughput", "-1", "--producer-props",
            f"bootstrap.servers={self.address}", "acks=1", "linger.ms=5", "batch.size=65536",
        )  # fmt: skip

    def _answers(self) -> bool:
        import socket

        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _java(self, main_class: str, *arguments: str, heap: str = "256m") -> list[str]:
        return [tool("java"), f"-Xmx{heap}", "-cp", f"{kafka_jars()}/*", main_class, *arguments]

    def _run(self, main_class: str, *arguments: str) -> str:
        done = subprocess.run(self._java(main_class, *arguments), capture_output=True, text=True,
                              timeout=600)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{main_class} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout
