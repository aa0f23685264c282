"""Clients by others that speak the remoting protocol: for Node rocketmq-nodejs 1.1.2, which is
RocketMQ's C++ client, and ali-ons 3.12.0, which is JavaScript; for Rust rocketmq-client-rust 1.0.0,
if Rust 1.95 is installed. Sends and push consumers.

Method: a process of node/ or rust/ does what it is told, and reports what its consumer got, which
is compared here with what it and rmq's own producer sent. Cannot prove: order and transactions,
which no test here uses.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from compat.new_groups import make_topic_and_group
from compat.runner import HERE, ScenarioRunner
from compat.targets import Target
from support.waiting import HANG_S, wait_until

import rmq
from rmq.client.blocking.cluster import Cluster
from tools.peers.cache import tool
from tools.peers.crates import cargo_program
from tools.peers.npm import npm_modules

NODE, RUST = HERE / "node", HERE / "rust"
LEAST_RUST = (1, 95)  # the Rust version that the crate needs
COUNT = 12
LARGE_BYTES = 20_000  # so large that clients compress it

Received = list[dict[str, Any]]


class Neighbour:
    def __init__(self, runner: ScenarioRunner, name_server: str) -> None:
        self._runner = runner
        self._name_server = name_server

    def send(self, topic: str, tag: str, size: int = 0) -> None:
        """Sends COUNT messages, which must all be taken."""
        group = f"{topic}-senders"
        done = self._run("send", topic=topic, group=group, tag=tag, count=COUNT, size=size)
        assert len(done["sent"]) == COUNT
        assert set(done["sent"]) in ({"OK"}, {"SEND_OK"})

    @contextmanager
    def push(
        self, topic: str, group: str, tag: str, failures: int = 0
    ) -> Iterator[Callable[[], Received]]:
        """A push consumer that refuses each message so many times, and what it got so far."""
        self._run("open", topic=topic, group=group, tag=tag, failures=failures)
        try:
            yield lambda: self._run("received", group=group)["messages"]
        finally:
            self._run("close", group=group)

    def _run(self, scenario: str, **arguments: object) -> dict[str, Any]:
        return self._runner.run(scenario, HANG_S, nameServer=self._name_server, **arguments)


def node_program(name: str) -> list[str]:
    return [f"NODE_PATH={npm_modules(NODE)}", tool("node"), str(NODE / f"{name}.js")]


def rust_program() -> list[str]:
    cargo = shutil.which("cargo")
    version = (
        subprocess.run([cargo, "--version"], capture_output=True, text=True) if cargo else None
    )
    found = re.match(r"cargo (\d+)\.(\d+)", version.stdout) if version else None
    if found is None or (int(found[1]), int(found[2])) < LEAST_RUST:
        pytest.skip("rocketmq-client-rust needs Rust 1.95 or later")
    return [str(cargo_program(RUST, "rmq-compat"))]


@pytest.fixture(scope="module", params=["rocketmq_nodejs", "ali_ons", "rust"])
def client(
    types_target: Target, compat_folder: Path, request: pytest.FixtureRequest
) -> Iterator[Neighbour]:
    folder = compat_folder / request.param
    folder.mkdir()
    command = rust_program() if request.param == "rust" else node_program(request.param)
    runner = ScenarioRunner(["env", f"HOME={folder}", *command], folder / "client.log", folder)
    yield Neighbour(runner, types_target.name_server)
    runner.close()


@pytest.fixture
def topic(types_target: Target, session_id: str, request: pytest.FixtureRequest) -> str:
    """A topic, with a group of the same name."""
    name = "".join(each if each.isalnum() else "_" for each in request.node.name)
    name = f"{session_id}_{name}"
    with Cluster(types_target.name_server) as cluster:
        make_topic_and_group(cluster, name, name)
    return name


@pytest.mark.parametrize("size", [0, LARGE_BYTES])
def test_it_gets_what_it_sent_by_tag(client: Neighbour, topic: str, size: int) -> None:
    with client.push(topic, topic, "a") as received:
        client.send(topic, "b", size)
        client.send(topic, "a", size)
        wait_until(lambda: len(received()) >= COUNT)
        found = sorted(received(), key=lambda each: int(each["keys"][1:]))
    expected = [
        {"topic": topic, "tags": "a", "keys": f"k{number}",
         "body": f"body-{number}".ljust(size, ".")}
        for number in range(COUNT)
    ]  # fmt: skip
    assert found == expected


def test_it_gets_again_what_it_refused(client: Neighbour, topic: str) -> None:
    with client.push(topic, topic, "*", failures=2) as received:
        client.send(topic, "a")

        def times() -> Counter[str]:
            return Counter(each["keys"] for each in received())

        wait_until(lambda: len(times()) == COUNT and min(times().values()) > 2)
        assert set(times()) == {f"k{number}" for number in range(COUNT)}


def test_it_gets_what_others_sent(client: Neighbour, topic: str, types_target: Target) -> None:
    bodies = [f"body-{number}".ljust(number * 2_000, ".") for number in range(COUNT)]
    with client.push(topic, topic, "*") as received:
        with rmq.Producer(
            f"{topic}-senders", namesrv_addr=types_target.name_server, send_msg_timeout=60_000
        ) as producer:
            for body in bodies:
                producer.send(rmq.Message(topic, body, tags="a"))
        wait_until(lambda: len(received()) >= COUNT)
        found = [each["body"] for each in received()]
    assert sorted(found) == sorted(bodies)
