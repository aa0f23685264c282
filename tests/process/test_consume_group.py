"""Goal: `rmq consume --group` goes on where the group is, and commits what it printed, no more and
no less; members share the queues, and a group that would suffer from such a member is not joined.

Method: the command against a broker; what is to be ended by a signal has a process of its own.
Cannot show: what happens to groups of RocketMQ's own clients.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq as run
from support.source_tree import ROOT
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import Admin, Message, Producer, PullConsumer, PushConsumer
from rmq.format.fastjson import MessageQueue

QUEUES = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("consume-group")) as process:
        yield process


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
    return broker.namesrv


def send(namesrv: str, topic: str, *bodies: str) -> None:
    """In turn to the queues; the tag is the body's first character."""
    with Admin(namesrv_addr=namesrv) as admin:
        if topic not in admin.topics():
            make_topic(admin, topic, QUEUES)
    with Producer("P", namesrv_addr=namesrv) as producer:
        for number, body in enumerate(bodies):
            queue = MessageQueue(topic, "broker-a", number % QUEUES)
            producer.send(Message(topic, body, tags=body[0], keys=body), queue=queue)


def consumed(topic: str, group: str, *words: str) -> list[str]:
    done = run("consume", topic, "--group", group, "--body", *words)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())


def committed(namesrv: str, group: str, topic: str) -> int:
    """Of both queues."""
    with Admin(namesrv_addr=namesrv) as admin:
        found = [admin.committed_offset(group, MessageQueue(topic, "broker-a", queue))
                 for queue in range(QUEUES)]  # fmt: skip
    return sum(each or 0 for each in found)


def test_it_goes_on_where_the_group_is(namesrv: str) -> None:
    send(namesrv, "orders", "a1", "b1", "a2", "b2")
    assert consumed("orders", "billing") == ["a1", "a2", "b1", "b2"]
    assert committed(namesrv, "billing", "orders") == 4
    assert consumed("orders", "billing") == []
    send(namesrv, "orders", "a3", "b3")
    row = json.loads(run("consume", "orders", "-g", "billing", "--json", "--key", "b3").stdout)
    assert (row["topic"], row["body"], row["keys"], row["offset"]) == ("orders", "b3", "b3", 2)
    assert row["stored_ms"] >= row["born_ms"] > 0 and row["born_host"].startswith("127.0.0.1:")
    assert consumed("orders", "billing") == [], "what has another key was passed over"
    assert consumed("orders", "other") == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert consumed("orders", "tagged", "--tag", "b") == ["b1", "b2", "b3"]
    assert consumed("orders", "sql", "--sql", "TAGS = 'a'") == ["a1", "a2", "a3"]


def test_what_was_printed_is_committed_and_nothing_else(namesrv: str) -> None:
    send(namesrv, "counted", "a1", "b1", "a2", "b2")
    seen: list[str] = []
    for number in range(1, 4):
        seen += consumed("counted", "g", "--count", "1")
        assert committed(namesrv, "g", "counted") == number
    seen += consumed("counted", "g")
    assert sorted(seen) == ["a1", "a2", "b1", "b2"]
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-m", "rmq", "consume", "counted", "-g", "full", "--body"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, cwd=ROOT, timeout=HANG_S)
    assert done.returncode == 1, done.stderr
    assert committed(namesrv, "full", "counted") == 0
    assert consumed("counted", "full") == ["a1", "a2", "b1", "b2"]


@contextmanager
def following(topic: str, group: str, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "rmq", "consume", topic, "-g", group, "-f", "--body"]
    with out.open("wb") as file, subprocess.Popen(words, stdout=file, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def shares(group: str) -> list[int]:
    """How many queues each member has."""
    done = run("group", "member", group, "--json")
    return sorted(len(each["queues"]) for each in json.loads(done.stdout)) if done.stdout else []


def test_members_share_the_queues_and_commit_when_they_are_ended(
    namesrv: str, tmp_path: Path
) -> None:
    send(namesrv, "shared", "a0", "b0")
    outs = [tmp_path / name for name in ("one", "two")]
    with ExitStack() as stack:
        members = [stack.enter_context(following("shared", "pair", out)) for out in outs]
        wait_until(lambda: shares("pair") == [1, 1])
        send(namesrv, "shared", "a1", "b1", "a2", "b2")
        wait_until(lambda: all(out.read_text().endswith("2\n") for out in outs))
        for member in members:
            member.send_signal(signal.SIGTERM)
            assert member.wait(HANG_S) == 130
    assert committed(namesrv, "pair", "shared") == 6
    texts = [out.read_text().split() for out in outs]
    assert sorted({*texts[0], *texts[1]}) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert {"a1", "a2"} <= {*texts[0]} or {"a1", "a2"} <= {*texts[1]}, "of one queue"


def test_a_group_that_would_lose_messages_is_not_joined(namesrv: str) -> None:
    send(namesrv, "busy", "a1")
    with PushConsumer("pushed", lambda *_: None, namesrv_addr=namesrv) as pushed:
        pushed.subscribe("busy")
        wait_until(lambda: "member " in run("group", "describe", "pushed").stdout)
        done = run("consume", "busy", "-g", "pushed")
        assert done.returncode == 1 and "that do not pull" in done.stderr
    with PullConsumer("pulled", namesrv_addr=namesrv) as pulled:
        pulled.subscribe("busy", "x || y")
        wait_until(lambda: "member " in run("group", "describe", "pulled").stdout)
        done = run("consume", "busy", "-g", "pulled")
        assert done.returncode == 1 and "subscribe to busy (x || y)" in done.stderr


def test_what_does_not_go_with_a_group(namesrv: str) -> None:
    send(namesrv, "plain", "a1")
    for words in (("--from", "first"), ("--until", "now"), ("--queue", "0"), ("--broker", "b")):
        done = run("consume", "plain", "--group", "g", *words)
        assert done.returncode == 2 and "rmq group reset" in done.stderr, words
    done = run("consume", "none", "--group", "g")
    assert done.returncode == 1 and "code 17" in done.stderr
