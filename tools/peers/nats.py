"""NATS: one server on loopback with JetStream, whose streams are files, and the load for it.

    nats = Nats(Path("/tmp/n"), port=4222, sync=False)
    nats.start(); load = nats.load("bench", connections=1, window=64, bytes=256)
    load.turn(seconds=2.0, rate=0.0)    {"seconds": 2.0, "messages": 240_000, "latency_us": {..}}
    load.close(); nats.stop()

A message in a stream of one replica is written to the file before its answer (server/filestore.go:
it flushes at once unless AsyncFlush is set, as for replicated streams, and for streams whose owner
asks for it). The file is synced each `sync_interval`, two minutes by default; with "always" an
fsync follows each write, hence each message.

The load is a program in Go over the official client (nats_load/); one process runs all turns.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tools.peers.cache import HERE
from tools.peers.go_program import compiled, installed
from tools.peers.load_process import LoadProcess
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
            """Once the server serves, it greets each client that connects."""
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

    def pids(self) -> list[int]:
        return [self.server.pid]

    def load(self, stream: str, **shape: int | str) -> LoadProcess:
        """A load; `shape` are options of nats_load, without their dash and with _ for -."""
        command = [str(compiled(HERE / "nats_load")), "-url", self.url, "-stream", stream]
        for key, value in shape.items():
            command += [f"-{key.replace('_', '-')}", str(value)]
        return LoadProcess(command)
