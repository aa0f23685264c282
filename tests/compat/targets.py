"""The broker under test: rmq from this checkout, or Apache RocketMQ to prove the test itself.

Both kinds have the same interface, so that a test never asks which one it talks to:

    target = make_target("rmq", folder, {"autoCreateTopicEnable": "false"})
    target.start()
    target.name_server, target.broker        # "127.0.0.1:28017", "127.0.0.1:28411"
    target.end("kill"); target.start()       # the same store, the same ports
    target.stop()

With rmq's standalone command name server and broker are one process, so both end together. Apache's
name server stays up while its broker is away. Clients must cope with either.

With shards=2 rmq runs two shards, and Apache RocketMQ two brokers in one cluster, named as shards
are: broker-a, broker-a-1. `brokers` has all addresses.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Protocol

from rmq.demo.ports import free_port
from tools.peers.apache import ApacheStandalone
from tools.peers.cache import APACHE_VERSION
from tools.peers.probe import answers, has_route
from tools.peers.server import Server

ROOT = Path(__file__).resolve().parents[2]

# Both have the same cluster and broker name, because these are stored and shown.
COMMON_SETTINGS = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
}

# A write on a busy disk may take longer than the 200 ms for which a send waits by default.
PATIENCE = {"waitTimeMillsInSendQueue": "10000", "osPageCacheBusyTimeOutMills": "10000"}


class Target(Protocol):
    """A name server and a broker with a store directory."""

    kind: str
    store: Path
    name_server: str
    broker: str
    brokers: list[str]

    def start(self) -> None: ...

    def end(self, manner: str) -> None:
        """Ends the broker: "clean" (SIGTERM) or "kill" (SIGKILL). `start` may follow."""

    def stop(self) -> None:
        """Ends everything quickly, because the store is not read any more."""


class RmqTarget:
    """`rmq standalone` of this checkout."""

    kind = "rmq"

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str],
        store: Path | None = None,
        port: int | None = None,
        shards: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store = store or folder / "store"
        name_server_port = free_port()
        broker_port = port or free_port(2, 10 * shards - 9)
        self.name_server = f"127.0.0.1:{name_server_port}"
        self.brokers = [f"127.0.0.1:{broker_port + 10 * index}" for index in range(shards)]
        self.broker = self.brokers[0]
        command = [sys.executable, "-m", "rmq", "standalone", "--store", str(self.store)]
        command += ["--namesrv-port", str(name_server_port), "--port", str(broker_port)]
        command += ["--shards", str(shards)] if shards > 1 else []
        for key, value in {**COMMON_SETTINGS, **PATIENCE, **settings}.items():
            command += ["--set", f"{key}={value}"]

        def ready() -> bool:
            return answers(("127.0.0.1", broker_port)) and all(
                has_route(("127.0.0.1", name_server_port), "SELF_TEST_TOPIC", broker)
                for broker in self.brokers
            )

        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.server = Server(
            "rmq", command, folder / "rmq.log", ready, {"PYTHONPATH": path}, ready_seconds=30
        )

    def start(self) -> None:
        self.server.start()

    def end(self, manner: str) -> None:
        if manner == "clean":
            seconds = self.server.stop(30)
            code = self.server.process.returncode if self.server.process else None
            assert code == 0, f"rmq ended with {code}\n{self.server.log_tail()}"
            assert seconds < 10, f"a clean stop took {seconds:.1f} s"
        else:
            self.server.kill()

    def stop(self) -> None:
        self.server.stop(30)


class ApacheTarget:
    """Apache RocketMQ, 5.5.0 by default."""

    kind = "apache"

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str],
        store: Path | None = None,
        port: int | None = None,
        shards: int = 1,
        version: str = APACHE_VERSION,
    ) -> None:
        common = {**COMMON_SETTINGS, **settings}
        self.servers = ApacheStandalone(
            folder, free_port(), port or free_port(2, 1), common, store=store, version=version
        )
        name_server = self.servers.name_server_port
        self.others = [
            ApacheStandalone(
                folder / f"broker-{index}", name_server, free_port(2, 1),
                {**common, "brokerName": f"{common['brokerName']}-{index}"}, version=version,
            )
            for index in range(1, shards)
        ]  # fmt: skip
        self.store = self.servers.store
        self.name_server = f"127.0.0.1:{name_server}"
        ports = [each.broker_port for each in (self.servers, *self.others)]
        self.brokers = [f"127.0.0.1:{each}" for each in ports]
        self.broker = self.brokers[0]

    def start(self) -> None:
        self.servers.start()
        for other in self.others:
            other.start_broker()

    def end(self, manner: str) -> None:
        end_broker(self.servers, manner)

    def stop(self) -> None:
        for server in (*self.others, self.servers):
            server.kill()  # a clean stop takes 12 s


def end_broker(servers: ApacheStandalone, manner: str) -> None:
    """Ends the broker as Target.end does."""
    if manner == "clean":
        servers.stop_broker()
    else:
        servers.kill_broker()


def make_target(
    kind: str,
    folder: Path,
    settings: dict[str, str] | None = None,
    store: Path | None = None,
    port: int | None = None,
    shards: int = 1,
) -> Target:
    """A target that is not started yet."""
    classes: dict[str, type[RmqTarget] | type[ApacheTarget]] = {
        "rmq": RmqTarget,
        "apache": ApacheTarget,
    }
    return classes[kind](folder, settings or {}, store, port, shards)
