"""A cluster of two masters at Apache's name server, one of Apache's and one of rmq."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.replica_set import Server
from support.waiting import HANG_S

from rmq.demo.ports import free_port
from tools.peers.apache import ApacheStandalone


class Both:
    """broker-a is a broker of Apache's, broker-b one of rmq."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self.apache = ApacheStandalone(
            folder, port, free_port(below=2, above=1), {"splitMetadataSize": "2"}
        )
        self.namesrv = f"127.0.0.1:{port}"
        self.rmq_broker: Server | None = None

    def start(self) -> None:
        self.apache.start()
        words = ("broker", "-n", self.namesrv, "--store", str(self.folder / "b"))
        name = ("--set", "brokerName=broker-b")
        self.rmq_broker = Server(self.folder / "b.txt", *words, *name, port=free_port(2, 1))

    def stop(self) -> None:
        if self.rmq_broker is not None:
            self.rmq_broker.kill()
        self.apache.kill()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rmq", "cluster", *words, "-n", self.namesrv]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)

    def apply(self, *words: str) -> None:
        done = self.run("apply", *words, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr

    def steps(self, *words: str) -> list[tuple[str, str | None]]:
        done = self.run("plan", *words, "--json")
        assert done.returncode == 0, done.stderr
        return [(row["what"], row["to"]) for row in json.loads(done.stdout)["steps"]]
