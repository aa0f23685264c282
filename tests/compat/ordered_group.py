"""Ordered group: consumers in order of whatever client, each in a process of its own.

    group = Group(tmp_path, "127.0.0.1:9876", "run1")      # makes a topic of four queues
    group.open("one", "java-5.5.0"); group.open("two", "go")
    with group.sending(runner):                            # of java_scenarios; numbers from 0 on
        group.wait_for_owners("one", "two")
    group.wait_for(group.sent, 60); group.journal.check(killed=set(), repeats_max=0)
    group.close()

The consumers write a journal line by line (OrderlyJournal.java, journal.go, ordered_member.py):
who began and ended which message of which queue. Two consumers must never be inside one queue at
the same time, and the messages of a queue must come in its order.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.python_scenarios import create_topic
from compat.runner import ScenarioRunner, go_runner, java_runner, ordered_member

from rmq import Admin

QUEUES = 4
PORTION = 200  # messages that one scenario sends


class Journal:
    """The file that the consumers write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[str, str, int, int, int]]:
        """The whole lines as (begin, end or left, who, queue, offset, number)."""
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
        """The messages came in order, and never were two consumers in a queue at the same time."""
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
    """A process with this client."""
    if client == "go":
        return go_runner(folder)
    if client == "python":
        return ordered_member(folder)
    return java_runner(client.removeprefix("java-"), folder, "member")


class Group:
    """Consumers of one group, each in a process of its own."""

    def __init__(self, folder: Path, namesrv: str, run: str) -> None:
        self.folder, self.namesrv, self.run = folder, namesrv, run
        self.journal = Journal(folder / "journal")
        self.sent = 0
        self.runners: dict[str, ScenarioRunner] = {}
        self.topic = f"{run}_ordered_t"
        with Admin(namesrv_addr=namesrv) as admin:
            create_topic(admin, self.topic, QUEUES)

    def open(self, who: str, client: str, **slow: int) -> None:
        """Starts a consumer. `slow`, for Java only: ms that a message takes, messages cached of a
        queue."""
        runner = member_of(client, self.folder / who)
        self.runners[who] = runner
        given = {**self.arguments(), **slow}
        runner.run("ordered_open", who=who, file=self.journal.path, **given)

    def arguments(self) -> dict[str, object]:
        # "as" is part of the names of topic and group in Java; the other clients are told the
        # names.
        return {"nameServer": self.namesrv, "run": self.run, "as": "ordered",
                "topic": self.topic, "group": f"g_{self.run}_ordered_c"}  # fmt: skip

    def send(self, runner: ScenarioRunner, count: int) -> None:
        end = self.sent + count
        runner.run("ordered_send", 300, first=self.sent, end=end, **self.arguments())
        self.sent = end

    @contextmanager
    def sending(self, runner: ScenarioRunner) -> Iterator[None]:
        """Sends numbered messages until the block ends; `sent` says how many there were."""
        stop = threading.Event()
        failures: list[BaseException] = []

        def send() -> None:
            try:
                while not stop.is_set():
                    self.send(runner, PORTION)
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
        # The Go client does not give its locks back: they expire after 60 s, and then it looks
        # twice.
        end = time.monotonic() + 150
        while not set(names) <= self.journal.owners():
            assert time.monotonic() < end, f"only {self.journal.owners()} consume"
            time.sleep(0.2)

    def close(self) -> None:
        for runner in self.runners.values():
            runner.close()
