"""The gRPC clients of RocketMQ 5, each as a process that does what it is told (runner.py).

All are told the same words; grpc_java/ and grpc_node/ say what each word does.

    client = GrpcClient(node_runner(folder), proxy.endpoints)
    client.send("orders", 10, tag="a")          # ids
    with client.push("orders", "payers") as received:
        wait_until(lambda: len(received()) == 10)
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat.runner import HERE, ScenarioRunner, java_command, scenarios_jar
from support.pages import DOCS, blocks_of
from support.waiting import HANG_S

from tools.peers.cache import fetch_dependencies, tool
from tools.peers.npm import npm_modules

JAVA_PROJECT = HERE / "grpc_java"
NODE_PROJECT = HERE / "grpc_node"
JAVA_VERSION = "5.2.0"
_names = itertools.count(1)


@dataclass(frozen=True)
class Received:
    """A message as a client showed it."""

    id: str
    topic: str
    body: str
    tag: str | None
    keys: str
    group: str | None
    n: int  # its property n, the number with which it was sent
    attempt: int
    atMs: int  # when the client got it


class GrpcClient:
    """A client of one kind. credentials: accessKey and secretKey."""

    def __init__(
        self, runner: ScenarioRunner, endpoints: str, credentials: Mapping[str, str] | None = None
    ) -> None:
        self._runner = runner
        self._always = {"endpoints": endpoints, **(credentials or {})}

    def send(self, topic: str, count: int, **more: object) -> list[str]:
        """Sends messages 0, 1 .. with bodies body-0, body-1 ..; returns their ids. Options: tag,
        groups="a,b" for ordered messages, delayMs."""
        ids: list[str] = self._run("send", topic=topic, count=count, **more)["ids"]
        return ids

    @contextmanager
    def transactions(
        self, topic: str, count: int, outcome: str, **more: object
    ) -> Iterator[Callable[[], dict[int, int]]]:
        """Sends so many transactions; their producer answers when it is asked. Yields a function
        that returns how often each number was asked about. outcome: commit, rollback, or open, with
        which even numbers are committed when asked about."""
        name = self._named("transact", topic=topic, count=count, outcome=outcome, **more)

        def asked() -> dict[int, int]:
            times: dict[str, int] = self._run("asked", **name)["asked"]
            return {int(number): count for number, count in times.items()}

        try:
            yield asked
        finally:
            self._run("close", **name)

    @contextmanager
    def push(
        self, topic: str, group: str, **more: object
    ) -> Iterator[Callable[[], list[Received]]]:
        """A push consumer, and what it got so far. tag: its filter; failures: how often each
        message fails."""
        name = self._named("push_open", topic=topic, group=group, **more)
        try:
            yield lambda: self._messages("push_received", **name)
        finally:
            self._run("close", **name)

    @contextmanager
    def simple(
        self, topic: str, group: str, **more: object
    ) -> Iterator[Callable[..., list[Received]]]:
        """A simple consumer: each call of receive(ack=True, batch=16, invisibleMs=60_000) asks
        once."""
        name = self._named("simple_open", topic=topic, group=group, **more)

        def receive(ack: bool = True, batch: int = 16, invisibleMs: int = 60_000) -> list[Received]:
            return self._messages(
                "simple_receive", ack=ack, batch=batch, invisibleMs=invisibleMs, **name
            )

        try:
            yield receive
        finally:
            self._run("close", **name)

    def _named(self, scenario: str, **arguments: object) -> dict[str, object]:
        name: dict[str, object] = {"as": f"client-{next(_names)}"}
        self._run(scenario, **name, **arguments)
        return name

    def _messages(self, scenario: str, **arguments: object) -> list[Received]:
        return [Received(**each) for each in self._run(scenario, **arguments)["messages"]]

    def _run(self, scenario: str, **arguments: object) -> dict[str, Any]:
        return self._runner.run(scenario, HANG_S, **self._always, **arguments)


def java_runner(folder: Path) -> ScenarioRunner:
    folder.mkdir(parents=True, exist_ok=True)
    jars = fetch_dependencies(f"client-java-{JAVA_VERSION}", JAVA_PROJECT / "pom.xml", {})
    settings = {"user.home": folder, "rocketmq.log.root": folder / "logs"}
    class_path = [scenarios_jar(folder, JAVA_PROJECT), jars / "*"]
    command = java_command("rmqgrpc.Main", class_path, settings)
    return ScenarioRunner(command, folder / "java.log", folder)


def node_runner(folder: Path) -> ScenarioRunner:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["env", f"HOME={folder}", f"NODE_PATH={npm_modules(NODE_PROJECT)}", tool("node")]
    return ScenarioRunner([*command, str(NODE_PROJECT / "main.js")], folder / "node.log", folder)


CLIENTS = {"java-5.2.0": java_runner, "node-1.0.8": node_runner}


def proxy_settings(number: int) -> dict[str, Any]:
    """A file of docs/proxy.md, without the settings that a test chooses."""
    found: dict[str, Any] = json.loads(blocks_of(DOCS / "proxy.md", "json")[number])
    said = ("namesrvAddr", "grpcServerPort", "remotingListenPort")
    return {name: value for name, value in found.items() if name not in said}
