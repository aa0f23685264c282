"""docs/tasks.md: its commands do on a broker what the page says; its numbers count the steps that
it names, and rmq never needs more steps than others.

Method: one broker of two shards, with accounts, an audit file, a member of the group, dead letters
and a traced message; the commands of the page run in this process in its order. Cannot show: how
many steps others really need, and what a browser does (tests/process/test_browser_tasks.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from support.command_line import rmq
from support.day_tasks import (
    ACCOUNTS,
    BROWSER,
    NAME,
    PASSWORD,
    TASKS,
    TERMINAL,
    ailing_group,
    browser_steps,
)
from support.pages import pipeline
from support.sharded_broker import sharded_broker
from support.topics import until_routed
from support.waiting import HANG_S, wait_until

from rmq.console.page import SECTIONS

ENVIRONMENT = {"RMQ_ACCESS_KEY": NAME, "RMQ_SECRET_KEY": PASSWORD}
SHARDS = 2
FOLLOW = "rmq consume orders --follow"
COMMANDS = [re.findall(r"`(rmq [^`]+)`", row[1]) for row in TERMINAL]


# ---- the numbers


def test_there_are_twenty_tasks() -> None:
    assert len(TERMINAL) == len(BROWSER) == TASKS
    assert all(COMMANDS)


@pytest.mark.parametrize("row", TERMINAL, ids=lambda row: row[0])
def test_no_task_takes_more_commands_than_others_need(row: list[str]) -> None:
    ours, *others = (re.findall(r"`(?:rmq|rpk|mqadmin) [^`]+`", cell) for cell in row[1:])
    for theirs in others:
        assert not theirs or len(ours) <= len(theirs)


@pytest.mark.parametrize("row", BROWSER, ids=range(1, TASKS + 1))
def test_no_task_takes_more_steps_in_a_browser(row: list[str]) -> None:
    ours, *others = map(browser_steps, row)
    if ours is None:
        assert others == [None, None]
    assert all(theirs is None or len(ours or []) <= len(theirs) for theirs in others)
    assert not ours or ours[0] in {name for _, name, _ in SECTIONS}


# ---- the commands


class World:
    """What the commands of the page are about. Brokers and ids have other names here."""

    def __init__(self, namesrv: str, message_id: str) -> None:
        self.namesrv = namesrv
        self.names = {"broker-b": "broker-a-1", "ID": message_id}

    def words(self, command: str) -> list[str]:
        [[_, *words]] = pipeline(command)
        return [self.names.get(word, word) for word in words]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tasks")
    options = (*ACCOUNTS, "--set", f"rmqAuditLog={folder / 'audit.log'}")
    with patch.dict(os.environ, ENVIRONMENT), sharded_broker(folder, SHARDS, options) as broker:
        os.environ["NAMESRV_ADDR"] = broker.namesrv
        given = {"namesrv_addr": broker.namesrv, "access_key": NAME, "secret_key": PASSWORD}
        done("topic", "create", "orders", "--queues", "2")
        shards = ("broker-a", *(f"broker-a-{number}" for number in range(1, SHARDS)))
        until_routed(broker.namesrv, "orders", dict.fromkeys(shards, 2))
        with ailing_group(given, 1, dead_letters) as sent:
            made = World(broker.namesrv, str(sent.message_id))
            for command in ("rmq trace ID", "rmq message show ID orders"):
                wait_until(lambda command=command: rmq(*made.words(command)).returncode == 0)
            yield made


def dead_letters() -> int:
    return sum(row["dead_letters"] for row in json.loads(done("dlq", "list", "--json")))


def done(*words: str) -> str:
    result = rmq(*words)
    assert result.returncode == 0, (words, result.stdout, result.stderr)
    return result.stdout


def followed(world: World) -> str:
    """What `rmq consume --follow` prints of the next message. Messages are sent until one came."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rmq", *world.words(FOLLOW), "--count", "1"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: done("send", "orders", "now") and process.poll() is not None)
        return process.communicate(timeout=HANG_S)[0]
    finally:
        process.kill()
        process.wait()


# A text that the output of a command must have, if it is not enough that it ends with 0.
SAID = {
    "rmq group describe billing": "member ",
    "rmq group member billing": "HELD",
    "rmq message query orders --key order-7": "fine",
    "rmq message show ID orders": "billing",
    "rmq trace ID": "sent",
    "rmq consume orders --from @-1h --count 20": "fine",
    "rmq send orders hello": "SEND_OK",
    "rmq cluster apply drain broker-b --yes": "broker-a-1",
    "rmq audit fileReservedTime": "fileReservedTime",
}
MORE = {"rmq cluster apply drain broker-b --yes": ["--quiet", "0"]}  # no client has old routes


def test_the_commands_do_it_in_their_order(world: World) -> None:
    assert set(SAID) | set(MORE) <= {command for each in COMMANDS for command in each}
    for command in (command for each in COMMANDS for command in each):
        if command == FOLLOW:
            assert "now" in followed(world)
            continue
        said = done(*world.words(command), *MORE.get(command, []))
        assert SAID.get(command, "") in said, command
    topics = {row["topic"]: row for row in json.loads(done("topic", "list", "--json"))}
    assert topics["orders-2"]["read_queues"] == SHARDS * 2
    assert topics["orders"]["read_queues"] == SHARDS * 16
    assert "payments" not in topics
