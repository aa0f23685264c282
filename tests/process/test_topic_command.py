"""`rmq topic` as an operator uses it: only what was named is changed, and a change after which
messages cannot be read says so first.

Method: real brokers, each a process; the commands run in this process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import command_line
from support.broker_process import BrokerProcess, broker_process
from support.replica_set import Server
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.client.blocking import topics
from rmq.client.blocking.cluster import Cluster
from rmq.format.fastjson import MessageQueue


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("topic-command")) as process:
        yield process


class Commands:
    def __init__(self, broker: BrokerProcess) -> None:
        self.namesrv = broker.namesrv

    def run(self, *words: str, answer: str = "") -> tuple[int, str, str]:
        """Exit code, standard output and error."""
        found = command_line.rmq("topic", *words, "-n", self.namesrv, text=answer)
        return found.returncode, found.stdout, found.stderr

    def done(self, *words: str, answer: str = "") -> str:
        code, shown, said = self.run(*words, answer=answer)
        assert code == 0, said
        return shown

    def refused(self, *words: str, answer: str = "", code: int = 1) -> str:
        found, shown, said = self.run(*words, answer=answer)
        assert found == code, shown + said
        return said

    def queues(self, topic: str) -> dict[int, tuple[str | None, int]]:
        """{queue: (permission, number of messages)}"""
        rows = json.loads(self.done("describe", topic, "--json"))
        return {row["queue"]: (row["perm"], row["messages"]) for row in rows}

    def send(self, topic: str, *queue_ids: int) -> None:
        with Producer("P", namesrv_addr=self.namesrv) as producer:
            for queue_id in queue_ids:
                producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", queue_id))


@pytest.fixture
def commands(broker: BrokerProcess) -> Commands:
    return Commands(broker)


def test_a_topic_that_exists_is_not_created_again(commands: Commands) -> None:
    assert commands.done("create", "first", "--queues", "16") == "first: 16 queues on broker-a\n"
    said = commands.refused("create", "first", "--perm", "r")
    assert "topic first exists: broker-a has 16 queues, rw. Change it with `rmq topic upd" in said
    said = commands.done("create", "first", "--queues", "3", "--if-not-exists")
    assert said == "first: exists, broker-a has 16 queues, rw\n"
    assert commands.queues("first") == {number: ("rw", 0) for number in range(16)}
    assert commands.done("create", "new", "--if-not-exists") == "new: 8 queues on broker-a\n"


def test_what_is_not_named_stays(commands: Commands) -> None:
    commands.done("create", "kept", "--queues", "5", "--order")
    said = commands.done("update", "kept", "--perm", "r")
    assert said == "kept: broker-a has 5 queues, r, ordered\n"
    assert commands.queues("kept") == {number: ("r", 0) for number in range(5)}
    said = commands.done("update", "kept", "--queues", "6")
    assert said == "kept: broker-a has 6 queues, r, ordered\n"
    said = commands.done("update", "kept", "--no-order", "--perm", "rw", "--write-queues", "2")
    assert said == "kept: broker-a has 6 queues to read, 2 to write, rw\n"
    assert list(commands.queues("kept").values()) == [("rw", 0)] * 2 + [("r", 0)] * 4


def test_a_topic_has_the_type_that_is_named(commands: Commands) -> None:
    assert commands.done("create", "typed", "--type", "fifo") == "typed: 8 queues on broker-a\n"
    assert commands.done("update", "typed", "--queues", "2").endswith("2 queues, rw, FIFO\n")
    with Cluster(commands.namesrv) as cluster:
        ((_, state),) = topics.states(cluster, "typed")
    assert state is not None and state.attributes == {"message.type": "FIFO"}
    assert "'LITE' is not one of" in commands.refused("create", "x", "--type", "LITE", code=2)


def test_fewer_queues_are_asked_about_when_they_hold_messages(commands: Commands) -> None:
    commands.done("create", "less", "--queues", "4")
    commands.send("less", 0, 2, 3, 3)
    said = commands.refused("update", "less", "--queues", "2", answer="n\n")
    assert "broker-a: queues 2 to 3 hold 3 messages, which nobody could read any more" in said
    assert len(commands.queues("less")) == 4
    commands.done("update", "less", "--queues", "2", answer="y\n")
    unread = {0: ("rw", 1), 1: ("rw", 0), 2: (None, 1), 3: (None, 2)}
    wait_until(lambda: commands.queues("less") == unread)  # once they have files
    _, _, said = commands.run("describe", "less")
    assert "3 messages are in queues that are not read; make them readable" in said
    assert "`rmq topic update less" in said
    commands.done("update", "less", "--queues", "4")
    assert commands.queues("less") == {0: ("rw", 1), 1: ("rw", 0), 2: ("rw", 1), 3: ("rw", 2)}
    commands.done("update", "less", "--queues", "1", "--yes")
    assert commands.done("update", "less", "--queues", "4") == "less: broker-a has 4 queues, rw\n"


def test_a_topic_that_is_to_be_read_no_more_is_asked_about(commands: Commands) -> None:
    commands.done("create", "shut", "--queues", "2")
    commands.send("shut", 1)
    said = commands.refused("update", "shut", "--perm", "w", answer="n\n")
    assert "broker-a: queues 0 to 1 hold 1 message, which nobody could read any more" in said
    assert commands.done("update", "shut", "--perm", "w", "--yes") == (
        "shut: broker-a has 2 queues, w\n"
    )


def test_empty_queues_go_without_a_question(commands: Commands) -> None:
    commands.done("create", "empty", "--queues", "4")
    assert commands.done("update", "empty", "--queues", "2") == "empty: broker-a has 2 queues, rw\n"


def test_without_permission_to_read_it_is_described(commands: Commands) -> None:
    commands.done("create", "deaf", "--queues", "2", "--perm", "w")
    commands.send("deaf", 1)
    _, shown, said = commands.run("describe", "deaf")
    assert [line.split()[2] for line in shown.splitlines()] == ["PERM", "w", "w"]
    assert "1 message is in queues that are not read" in said


def test_a_broker_that_came_later_gets_it(commands: Commands, tmp_path: Path) -> None:
    """`rmq topic create --if-not-exists` makes a topic on a broker that has come since."""
    commands.done("create", "wide", "--queues", "3")
    words = ("broker", "-n", commands.namesrv, "--store", str(tmp_path / "s"),
             "--set", "brokerName=broker-b")  # fmt: skip
    later = Server(tmp_path / "b.txt", *words)
    try:
        assert "topic wide exists: broker-a has 3 queues" in commands.refused("create", "wide")
        said = commands.done("create", "wide", "--queues", "2", "--if-not-exists")
        assert said == "wide: 2 queues on broker-b\nwide: exists, broker-a has 3 queues, rw\n"
        said = commands.done("update", "wide", "--perm", "r")
        assert said == "wide: broker-a has 3 queues, r\nwide: broker-b has 2 queues, r\n"
    finally:
        assert later.stop() == 0


def test_a_topic_goes_from_the_cluster_that_is_named(commands: Commands, tmp_path: Path) -> None:
    words = ("broker", "-n", commands.namesrv, "--store", str(tmp_path / "s"),
             "--set", "brokerName=broker-c", "--set", "brokerClusterName=c2")  # fmt: skip
    other = Server(tmp_path / "c.txt", *words)
    try:
        commands.done("create", "shared", "--queues", "2")
        with Cluster(commands.namesrv) as cluster:
            names = [each.broker_name for each in cluster.route("shared").readable()]
            assert names == ["broker-a"] * 2 + ["broker-c"] * 2
            done = commands.done("delete", "shared", "--cluster", "c2", "--yes")
            assert done == "shared: deleted\n"
            names = [each.broker_name for each in cluster.route("shared").readable()]
            assert names == ["broker-a"] * 2
        assert commands.queues("shared") == {0: ("rw", 0), 1: ("rw", 0)}
        commands.done("delete", "shared", "--yes")
        commands.refused("describe", "shared")
    finally:
        assert other.stop() == 0


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (["update", "wrong"], "nothing to change: give one of --queues", 2),
        (["update", "wrong", "--queues", "0"], "0 is not in the range 1<=x<=65535", 2),
        (["update", "wrong", "--queues", "2", "--read-queues", "2"], "cannot be used with", 2),
        (["update", "wrong", "--read-queues", "2"], "--write-queues as well, to 2 at most", 1),
        (["update", "wrong", "--write-queues", "9"], "queues that nobody reads", 1),
        (["update", "unknown", "--queues", "2"], "code 17", 1),
        (["describe", "unknown"], "code 17", 1),
    ],
)
def test_what_cannot_be_done_is_told(
    commands: Commands, words: list[str], reason: str, code: int
) -> None:
    commands.done("create", "wrong", "--queues", "4", "--if-not-exists")
    assert reason in commands.refused(*words, code=code)
    assert commands.queues("wrong") == {number: ("rw", 0) for number in range(4)}
