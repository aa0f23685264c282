"""Retries with the limits of a group, and order kept over kills: several processes, one broker.

What orderly consumers do is in a journal that they write line by line (OrderlyJournal.java,
journal.go, ordered_member.py): who began and ended which message of which queue. Two consumers
must never be inside one queue at a time, and a queue's messages must come in its order; what a
killed one had begun may come again. Members of one group may be of different clients.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from compat.conftest import JAVA_CLIENTS
from compat.python_scenarios import create_topic
from compat.runner import (
    NEW_CLIENT,
    OLD_CLIENT,
    ScenarioRunner,
    go_runner,
    java_runner,
    ordered_member,
)
from compat.targets import Target, make_target

from rmq import Admin
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode
from rmq.format import fastjson

QUEUES = 4
PORTION = 200  # messages sent by one scenario


def set_group(target: Target, group: str, **members: Any) -> None:
    """What mqadmin updateSubGroup does."""
    with Cluster(target.name_server) as cluster:
        body = fastjson.dumps({"groupName": group, **members})
        cluster.connect(target.broker).call(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body
        )


@pytest.mark.parametrize("client", ["java-5.5.0-json", "java-4.9.8-json"])
def test_a_group_says_how_often_and_over_how_many_queues_messages_come_again(
    client: str, java: Callable[[str], ScenarioRunner], types_target: Target, session_id: str
) -> None:
    run = f"{session_id}_{client.replace('.', '')}_limits"
    group = f"g_{run}_retry_group_limits_c"
    set_group(types_target, group, retryMaxTimes=2, retryQueueNums=3)
    java(client).run(
        "retry_group_limits", nameServer=types_target.name_server, run=run, times=2, queues=3
    )


# ---- in order


class Journal:
    """What the consumers wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[str, str, int, int, int]]:
        """(begin, end or left, who, queue, offset, number), whole lines only."""
        if not self.path.exists():
            return []
        lines = self.path.read_text().split("\n")[:-1]
        rows = []
        for line in lines:
            what, who, queue, offset, number = line.split(" ")
            rows.append((what, who, int(queue), int(offset), int(number)))
        return rows

    def numbers(self) -> set[int]:
        return {number for what, _, _, _, number in self.rows() if what == "end"}

    def owners(self) -> set[str]:
        return {row[1] for row in self.rows()}

    def check(self, killed: set[str], repeats_max: int) -> None:
        """In order, and one consumer in a queue at a time."""
        for queue in range(QUEUES):
            inside: str | None = None
            newest, repeats = -1, 0
            for what, who, _, offset, _ in (row for row in self.rows() if row[2] == queue):
                if what != "begin":
                    assert inside == who, f"queue {queue}: {who} ended what {inside} had begun"
                    inside = None
                    continue
                assert inside is None or inside in killed, (
                    f"queue {queue}: {who} began {offset} while {inside} was inside"
                )
                inside = who
                assert offset <= newest + 1, f"queue {queue}: {offset} came after {newest}"
                repeats += offset <= newest
                newest = max(newest, offset)
            assert repeats <= repeats_max, f"queue {queue}: {repeats} messages came again"


def member_of(client: str, folder: Path) -> ScenarioRunner:
    """A process with that client."""
    if client == "go":
        return go_runner(folder)
    if client == "python":
        return ordered_member(folder)
    return java_runner(client.removeprefix("java-"), folder, "member")


class Group:
    """Consumers of one group, each in a process of its own."""

    def __init__(self, folder: Path, target: Target, run: str) -> None:
        self.folder, self.target, self.run = folder, target, run
        self.journal = Journal(folder / "journal")
        self.sent = 0
        self.runners: dict[str, ScenarioRunner] = {}
        self.topic = f"{run}_ordered_t"
        with Admin(namesrv_addr=target.name_server) as admin:
            create_topic(admin, self.topic, QUEUES)

    def open(self, who: str, client: str) -> None:
        runner = member_of(client, self.folder / who)
        self.runners[who] = runner
        runner.run("ordered_open", who=who, file=self.journal.path, **self.arguments())

    def arguments(self) -> dict[str, str]:
        # "as" is part of the names that Java makes of topic and group; the others are told them.
        return {"nameServer": self.target.name_server, "run": self.run, "as": "ordered",
                "topic": self.topic, "group": f"g_{self.run}_ordered_c"}  # fmt: skip

    @contextmanager
    def sending(self, runner: ScenarioRunner) -> Iterator[None]:
        """Numbered messages go on all the time; `sent` says how many there were."""
        stop = threading.Event()
        failures: list[BaseException] = []

        def send() -> None:
            try:
                while not stop.is_set():
                    end = self.sent + PORTION
                    runner.run("ordered_send", 300, first=self.sent, end=end, **self.arguments())
                    self.sent = end
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(300)
        assert not failures, failures[0]
        assert self.sent > 0

    def kill(self, who: str) -> None:
        process = self.runners[who]._process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def wait_for(self, count: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while len(self.journal.numbers()) < count:
            assert time.monotonic() < end, (
                f"{len(self.journal.numbers())} of {count} messages after {seconds} s"
            )
            time.sleep(0.2)

    def wait_for_owners(self, *names: str) -> None:
        # The Go client gives no locks back: they expire after 60 s, and then it looks twice.
        end = time.monotonic() + 150
        while not set(names) <= self.journal.owners():
            assert time.monotonic() < end, f"only {self.journal.owners()} consume"
            time.sleep(0.2)

    def close(self) -> None:
        for runner in self.runners.values():
            runner.close()


@pytest.fixture
def ordered_target(kind: str, tmp_path: Path) -> Iterator[Target]:
    broker = make_target(kind, tmp_path / "broker", {"flushConsumerOffsetInterval": "1000"})
    broker.start()
    yield broker
    broker.stop()


# Messages that may come again when a member was killed, of one queue: 2 ms each and what was cached
# then. Go's client commits every 5 s, the others every second.
REPEATS = {"go": 3600}
OTHERS_REPEAT = 1200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", [f"java-{NEW_CLIENT}", f"java-{OLD_CLIENT}", "go", "python"])
def test_order_is_kept_when_consumers_come_leave_and_are_killed(
    client: str,
    ordered_target: Target,
    tmp_path: Path,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> None:
    sender = java(next(iter(JAVA_CLIENTS)))
    group = Group(tmp_path, ordered_target, f"{session_id}_{client.replace('.', '')}")
    try:
        group.open("one", client)
        with group.sending(sender):
            group.wait_for_owners("one")
            group.open("two", client)  # takes queues over from "one" after a rebalance
            group.wait_for_owners("one", "two")
            time.sleep(2)
            group.runners["two"].run("ordered_close", who="two")
            group.open("three", client)
            group.wait_for_owners("three")
            time.sleep(1)
            group.kill("three")  # its locks expire after 60 s
        group.wait_for(group.sent, 180)
        group.journal.check({"three"}, repeats_max=REPEATS.get(client, OTHERS_REPEAT))
    finally:
        group.close()


# Two clients in one group share its queues by the same rule.
PAIRS = [
    (f"java-{NEW_CLIENT}", f"java-{OLD_CLIENT}"),
    ("go", "go"),
    ("python", "python"),
    ("python", f"java-{NEW_CLIENT}"),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_order_is_kept_when_the_broker_is_killed(
    first: str,
    second: str,
    ordered_target: Target,
    tmp_path: Path,
    java: Callable[[str], ScenarioRunner],
    session_id: str,
) -> None:
    sender = java(next(iter(JAVA_CLIENTS)))
    group = Group(tmp_path, ordered_target, f"{session_id}_{first}_{second}_bk".replace(".", ""))
    try:
        group.open("one", first)
        group.open("two", second)
        with group.sending(sender):
            group.wait_for_owners("one", "two")
            for _ in range(2):
                time.sleep(1.5)
                ordered_target.end("kill")
                ordered_target.start()
            time.sleep(5)
        group.wait_for(group.sent, 180)
        group.journal.check(set(), repeats_max=group.sent)
    finally:
        group.close()
