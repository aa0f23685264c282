"""NATS with JetStream on loopback: one server whose streams are files, and the load for it.

    nats = Nats(Path("/tmp/n"), port=4222, sync=False)
    nats.start(); load = nats.load("bench", connections=1, window=64, body_bytes=256)
    load.turn(seconds=2.0, rate=0.0)    {"seconds": 2.0, "messages": 240_000, "latency_us": {..}}
    load.close(); nats.stop()

A stream of one replica is written before its answer (server/filestore.go: flush in place unless
AsyncFlush, which only replicated streams have). The disk is asked for it each `sync_interval`, two
minutes by default; "always" opens the files with O_SYNC, so that each message waits for its own.

The load is a program in Go over the official client (nats_load/), which stays for as many turns as
are asked of it.
"""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

from tools.peers.cache import HERE
from tools.peers.go_program import compiled, installed
from tools.peers.server import Server

MODULE = "github.com/nats-io/nats-server/v2"
VERSION = "v2.15.2"


class Nats:
    """One server; `sync`: a message is on the disk before its answer."""

    def __init__(self, folder: Path, port: int, sync: bool = False) -> None:
        self.folder = folder
        self.url = f"nats://127.0.0.1:{port}"
        self.settings = {"host": "127.0.0.1", "port": str(port)}
        self.jetstream = {"store_dir": str(folder / "store")}
        if sync:
            self.jetstream["sync_interval"] = "always"
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "nats.conf"
        configuration.write_text(
            "".join(f"{key}: {value}\n" for key, value in self.settings.items())
            + "jetstream {\n"
            + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in self.jetstream.items())
            + "}\n"
        )

        def ready() -> bool:
            """It greets who connects once it serves."""
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as connection:
                    return connection.recv(4) == b"INFO"
            except OSError:
                return False

        command = [str(installed(MODULE, VERSION)), "-c", str(configuration)]
        self.server = Server("nats-server", command, folder / "nats.log", ready)

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def load(self, stream: str, **shape: int | str) -> NatsLoad:
        """Of nats_load's options, without their dash and with _ for -."""
        return NatsLoad(self.url, stream, shape)


class NatsLoad:
    """A process of nats_load."""

    def __init__(self, url: str, stream: str, shape: dict[str, int | str]) -> None:
        command = [str(compiled(HERE / "nats_load")), "-url", url, "-stream", stream]
        for key, value in shape.items():
            command += [f"-{key.replace('_', '-')}", str(value)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._answer()

    def turn(self, seconds: float, rate: float = 0.0) -> dict[str, Any]:
        """One turn; rate in messages a second, 0: as many as it can."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds} {rate}\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self.process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"nats_load ended: {self.process.communicate()[1][-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
