"""Goal: a question to all brokers is answered with what those have that answer, and says which one
did not; what changes something still needs all of them.

Method: two broker processes, one of which tells the name server an address at which nobody listens:
a broker behind a network that is down. Cannot show: a process that stands still, for which each
question waits once (tests/unit/cli/test_partial.py).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from support.broker_process import broker_process, start_broker
from support.command_line import rmq
from support.console import served_console, text_of
from support.topics import until_routed
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import PERM_READ, PERM_WRITE, RequestCode
from rmq.console.settings import ConsoleSettings
from rmq.format.fastjson import MessageQueue


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Topic t is at both brokers; at the first one group g is behind by two."""
    folder = tmp_path_factory.mktemp("silent")
    with broker_process(folder / "a") as first:
        away = (f"namesrvAddr={first.namesrv}", "brokerName=broker-b", "brokerIP1=127.0.0.2")
        second = start_broker(folder / "b", [word for each in away for word in ("--set", each)])
        try:
            make(first.namesrv, f"127.0.0.1:{second.port}")
            yield first.namesrv
        finally:
            second.stop()
            second.close()


def make(namesrv: str, second: str) -> None:
    queue = MessageQueue("t", "broker-a", 0)
    with Cluster(namesrv) as cluster, Connection(second) as direct:
        wait_until(lambda: [each.name for each in cluster.masters()] == ["broker-a", "broker-b"])
        here, _ = cluster.masters()
        admin.create_topic(cluster, "t", 1, brokers=[here])
        fields = admin.topic_fields("t", 1, 1, PERM_READ | PERM_WRITE, order=False)
        direct.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        until_routed(cluster, "t", {"broker-a": 1, "broker-b": 1})
        admin.create_group(cluster, "g", {}, brokers=[here])
        with Producer("P", namesrv_addr=namesrv) as producer:
            for number in range(3):
                producer.send(Message("t", b"%d" % number), queue=queue)
        admin.commit_offset(cluster, "g", queue, 1)


def check_partial(done: subprocess.CompletedProcess[str], code: int = 3) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["exit_code"] == code and "rmq broker status" in told["hint"]
    lost = "what lies there alone is missing: broker-b: 127.0.0.2:"
    assert told["error"].startswith(lost)


def test_groups_of_the_others_are_listed(namesrv: str) -> None:
    done = rmq("group", "list", "-n", namesrv, "--json")
    check_partial(done)
    (row,) = (each for each in json.loads(done.stdout) if each["group"] == "g")
    assert (row["lag"], row["delayed_retries_exact"]) == (2, False)


def test_a_group_is_described_and_checked_by_the_others(namesrv: str) -> None:
    done = rmq("group", "describe", "g", "-n", namesrv, "--json")
    check_partial(done)
    assert [(each["broker"], each["lag"]) for each in json.loads(done.stdout)["queues"]] == [
        ("broker-a", 2)
    ]
    done = rmq("check", "group", "g", "-n", namesrv)
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("RMQ GROUP CRITICAL - broker-b does not answer (")
    assert "lag 2" in done.stdout and " | lag=2 " in done.stdout


def test_topics_are_listed_and_described_by_the_others(namesrv: str) -> None:
    done = rmq("topic", "list", "-n", namesrv, "--json")
    assert done.returncode == 0, done.stderr
    assert [each["topic"] for each in json.loads(done.stdout)] == ["t"], "no system topic"
    done = rmq("topic", "describe", "t", "-n", namesrv, "--json")
    check_partial(done)
    assert [each["broker"] for each in json.loads(done.stdout)] == ["broker-a"]


def test_the_console_shows_groups_of_the_others(namesrv: str) -> None:
    away = re.compile(r"broker-b .*does not answer: 127\.0\.0\.2:")
    with served_console(ConsoleSettings(namesrv)) as console:
        for path, found in (("/groups", r"\bg 2 0 1 0 0 0\b"), ("/group?group=g", r"Lag 2 ")):
            answer = console.get(path)
            text = text_of(answer.text)
            assert answer.status_code == 200, text
            assert away.search(text) and re.search(found, text), text


def test_what_changes_all_of_them_is_refused(namesrv: str) -> None:
    done = rmq("group", "delete", "g", "--yes", "-n", namesrv)
    assert done.returncode == 3, done.stderr
    with Cluster(namesrv) as cluster:
        assert "g" in admin.groups(cluster, {})
