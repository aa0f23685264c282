"""mqadmin 5.5.0 as a function, and clients that stay connected meanwhile: fixtures and helpers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from compat.runner import NEW_CLIENT, ScenarioRunner, java_runner
from compat.targets import Target

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
Admin = Callable[..., str]


@dataclass
class Live:
    """Clients that stay connected, and what they have sent: 40 messages to 4 queues."""

    topic: str
    consumer_group: str
    producer_group: str
    last_message_id: str


@contextmanager
def admin_of(
    target: Target, folder: Path, properties: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> Iterator[Admin]:  # fmt: skip
    """admin("topicRoute", "-t", "x") returns what the command printed. properties: of mqadmin's
    JVM."""
    settings = {"rmqcompat.threads": "1", **(properties or {})}
    runner = java_runner(NEW_CLIENT, folder, "mqadmin", settings, given)

    def run(*words: str) -> str:
        arguments = {f"a{index}": word for index, word in enumerate(words)}
        answer = runner.run("mqadmin", nameServer=target.name_server, **arguments)
        return str(answer["output"])

    yield run
    runner.close()


@pytest.fixture(scope="session")
def admin(target: Target, compat_folder: Path) -> Iterator[Admin]:
    with admin_of(target, compat_folder / "mqadmin") as run:
        yield run


@contextmanager
def live_clients(target: Target, runner: ScenarioRunner, run: str, admin: Admin) -> Iterator[Live]:
    arguments = {"nameServer": target.name_server, "run": run, "as": "adminlive"}
    opened = runner.run("live_open", **arguments)
    sent = runner.run("live_send", count=40, **arguments)
    # Java's consumer commits for the first time 10 s after its start.
    words = ["consumerProgress", "-g", opened["consumerGroup"]]
    eventually(admin, words, "Consume Diff Total: 0", 40)
    yield Live(
        opened["topic"], opened["consumerGroup"], opened["producerGroup"], sent["lastOffsetId"]
    )
    runner.run("live_close", **arguments)


@pytest.fixture(scope="session")
def live(
    target: Target, java: Callable[[str], ScenarioRunner], session_id: str, admin: Admin
) -> Iterator[Live]:
    with live_clients(target, java("java-5.5.0-json"), session_id, admin) as found:
        yield found


def eventually(admin: Admin, words: list[str], expected: str, seconds: float = 15.0) -> str:
    """Repeats a command until its output has the pattern, because routes spread at the broker's
    pace."""
    end = time.monotonic() + seconds
    while True:
        output = admin(*words)
        if re.search(expected, output) or time.monotonic() > end:
            assert re.search(expected, output), f"{words}: no {expected!r} in\n{output}"
            return output
        time.sleep(0.3)


def fields(text: str, separator: str) -> dict[str, str]:
    """Parses lines "name <separator> value" into a dictionary."""
    pairs = [line.split(separator, 1) for line in text.splitlines() if separator in line]
    return {name.strip(): value.strip() for name, value in pairs}


def make_topic(admin: Admin, target: Target, topic: str, queues: int, *more: str) -> None:
    count = str(queues)
    output = admin("updateTopic", "-b", target.broker, "-t", topic, "-r", count, "-w", count, *more)
    assert f"create topic to {target.broker} success." in output
    assert f"topicName={topic}, readQueueNums={queues}, writeQueueNums={queues}" in output
    eventually(admin, ["topicRoute", "-t", topic], f'"writeQueueNums":{queues}')
