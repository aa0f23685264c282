"""A producer and a push consumer that stay open while a test works on their group, for each kind of
client. Messages are numbered: `send` gives the group more, `counts` says how often it got each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from compat.consumer_scenarios import Kept, consumer
from compat.python_scenarios import WAIT_S, topic_of
from compat.runner import ScenarioRunner
from compat.targets import Target
from support.waiting import wait_until

from rmq import Admin, Message, Producer

CLIENTS = ["java-5.5.0-json", "java-4.9.8-json", "go", "python"]


class LiveGroup(Protocol):
    topic: str
    group: str
    last_offset_id: str

    def send(self, count: int) -> None:
        """Sends so many more messages, and waits until all have come."""

    def counts(self, *, least: int = 1, first: int = 0, seconds: int = 60) -> dict[int, int]:
        """How often each message came, as soon as each from `first` on has come `least` times."""

    def close(self) -> None: ...


class ScenarioGroup:
    """A group of a Java or Go client."""

    def __init__(self, runner: ScenarioRunner, target: Target, run: str, name: str) -> None:
        self.runner = runner
        self.arguments = {"nameServer": target.name_server, "broker": target.broker,
                          "run": run, "as": name}  # fmt: skip
        opened = runner.run("live_open", **self.arguments)
        self.topic, self.group = str(opened["topic"]), str(opened["consumerGroup"])
        self.last_offset_id = ""

    def send(self, count: int) -> None:
        answer = self.runner.run("live_send", count=count, **self.arguments)
        self.last_offset_id = str(answer["lastOffsetId"])

    def counts(self, *, least: int = 1, first: int = 0, seconds: int = 60) -> dict[int, int]:
        answer = self.runner.run(
            "live_counts", least=least, first=first, seconds=seconds, **self.arguments
        )
        pairs = [pair.split(":") for pair in str(answer["counts"]).split()]
        return {int(number): int(times) for number, times in pairs}

    def close(self) -> None:
        self.runner.run("live_close", **self.arguments)


class PythonGroup:
    """A group of rmq's Python client."""

    def __init__(self, target: Target, run: str, name: str) -> None:
        address = target.name_server
        self.group = f"g-{run}-{name}"
        with Admin(namesrv_addr=address) as admin:
            self.topic = topic_of(admin, f"live{name}", run, 4)
        self.kept = Kept()
        self.producer = Producer(f"{self.group}-p", namesrv_addr=address).start()
        self.consumer = consumer(address, self.group, self.kept, subscription={self.topic: "*"},
                                 persist_consumer_offset_interval=1000).start()  # fmt: skip
        wait_until(lambda: len(self.consumer.assignment()) == 4, WAIT_S)
        self.sent = 0
        self.last_offset_id = ""

    def came(self) -> Counter[int]:
        return Counter(int(each.body) for each in list(self.kept.messages))

    def send(self, count: int) -> None:
        queues = sorted(self.producer.queues(self.topic))
        for number in range(self.sent, self.sent + count):
            result = self.producer.send(Message(self.topic, str(number)), queue=queues[number % 4])
            self.last_offset_id = result.offset_message_id
        self.sent += count
        wait_until(lambda: len(self.came()) == self.sent, WAIT_S)

    def counts(self, *, least: int = 1, first: int = 0, seconds: int = 60) -> dict[int, int]:
        def enough() -> bool:
            came = self.came()
            return all(came[number] >= least for number in range(first, self.sent))

        wait_until(enough, seconds)
        time.sleep(1)
        return dict(self.came())

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


def open_group(
    client: str,
    java: Callable[[str], ScenarioRunner],
    go: Callable[[], Any],
    target: Target,
    run: str,
    name: str,
) -> LiveGroup:
    """`go` is called for the Go client only, because to start it may mean to compile it."""
    if client == "python":
        return PythonGroup(target, run, name)
    runner = go() if client == "go" else java(client)
    return ScenarioGroup(runner, target, run, name)
