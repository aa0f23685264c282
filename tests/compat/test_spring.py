"""A Spring Boot application with rocketmq-spring 2.3.5: its template and its listeners.

Method: the application of spring/ in a process sends each kind of message and prints what its
listeners get, which is compared here. It runs with the Java client that the starter brings, and
with a newer one. Clients 5.3.1 to 5.3.3 stop waiting for a reply as soon as the broker has taken
the request, with any broker.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat.new_groups import make_topic_and_group
from compat.runner import HERE, NEW_CLIENT, java_command, scenarios_jar
from compat.targets import Target
from support.waiting import wait_until

from rmq.client.blocking.cluster import Cluster
from tools.peers.cache import fetch_dependencies

VERSION = "2.3.5"
ITS_CLIENT = "5.3.2"
PROJECT = HERE / "spring"
COUNT = 12
DELAY_MS = 3_000


@pytest.fixture(scope="module", params=[ITS_CLIENT, NEW_CLIENT])
def client(request: pytest.FixtureRequest) -> str:
    """The version of the Java client in the application."""
    return str(request.param)


@pytest.fixture(scope="module")
def got(
    types_target: Target, session_id: str, compat_folder: Path, client: str
) -> Iterator[Callable[[str], list[tuple[str, int]]]]:
    """got("plain") returns the texts that came so far, with how often each had come before."""
    folder = compat_folder / f"spring-{client}"
    folder.mkdir()
    run = f"{session_id}-spring-{client.replace('.', '_')}"
    with Cluster(types_target.name_server) as cluster:
        for kind in ("plain", "ordered", "transacted", "delayed", "asked"):
            make_topic_and_group(cluster, f"{run}-{kind}", f"{run}-{kind}")
    versions = {"rocketmq.client.version": client}
    name = f"spring-{VERSION}-client-{client}"
    jars = fetch_dependencies(name, PROJECT / "pom.xml", versions)
    properties = {
        "user.home": folder,
        "rocketmq.name-server": types_target.name_server,
        "rocketmq.producer.group": f"{run}-senders",
        "rocketmq.producer.send-message-timeout": 60_000,
        "run": run,
        "asks": str(client == NEW_CLIENT).lower(),
    }
    class_path = [scenarios_jar(folder, PROJECT), jars / "*"]
    log = folder / "spring.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            java_command("rmqspring.Application", class_path, properties),
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, cwd=folder,
        )  # fmt: skip

    def lines(what: str) -> list[tuple[str, int]]:
        assert process.poll() is None, log.read_text()[-3000:]
        rows = [line.split("\t") for line in log.read_text().splitlines() if "GOT\t" in line]
        return [(text, int(times)) for _, kind, text, times in rows if kind == what]

    try:
        wait_until(lambda: lines("sent"))
        yield lines
    finally:
        process.kill()
        process.wait()


Got = Callable[[str], list[tuple[str, int]]]


def test_spring_filters_by_tag_and_gets_what_it_refused_again(got: Got) -> None:
    wait_until(lambda: len(got("plain")) >= 2 * COUNT)
    expected = {(f"plain {number}", times): 1 for number in range(COUNT) for times in (0, 1)}
    assert Counter(got("plain")) == expected


def test_spring_gets_ordered_messages_in_order(got: Got) -> None:
    wait_until(lambda: len(got("ordered")) >= COUNT)
    found = [text.split() for text, _ in got("ordered")]
    for rest in range(3):
        numbers = [int(number) for key, number in found if key == f"key{rest}"]
        assert numbers == list(range(rest, COUNT, 3))


def test_spring_gets_delayed_messages_when_it_is_time(got: Got) -> None:
    wait_until(lambda: got("delayed"))
    ((text, _),) = got("delayed")
    sent_ms, at_ms = map(int, text.split()[1:])
    assert at_ms >= sent_ms + DELAY_MS


def test_spring_ends_transactions_and_is_asked_about_open_ones(got: Got) -> None:
    done = [number for number in range(COUNT) if number % 3 != 1]
    wait_until(lambda: len(got("transacted")) >= len(done))
    assert sorted(int(text.split()[1]) for text, _ in got("transacted")) == done
    assert {text for text, _ in got("checked")} == {f"transacted {n}" for n in range(2, COUNT, 3)}


@pytest.mark.parametrize("client", [NEW_CLIENT], indirect=True, scope="module")
def test_spring_gets_answers_to_its_requests(got: Got) -> None:
    wait_until(lambda: len(got("answered")) >= COUNT)
    expected = [(f"answer to question {number}", 0) for number in range(COUNT)]
    assert got("answered") == expected
