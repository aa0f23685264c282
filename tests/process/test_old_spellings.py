"""Old forms of commands, which the pages do not show any more, do what they did.

Goal: a script that was written for the first commands still works (docs/versions.md). Method: each
old form and the present one are run in this process against one broker, and have the same output.
tests/unit/cli/test_spellings.py has every option. Cannot show: forms that are in no list any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Admin, Message, Producer

COUNT = 20
CONSUME = ("consume", "orders", "--format", "%o %s\\n", "--from")
# The old form, and the new one. NAMESRV stands for the address.
PAIRS = {
    "name servers before the command": (
        "-n NAMESRV topic list --json", "topic list --json -n NAMESRV",
    ),
    "name servers by the long name": (
        "--namesrv NAMESRV topic describe orders --json",
        "topic describe orders --json --namesrv NAMESRV",
    ),
    "name servers before a command with commands of its own": (
        "-n NAMESRV message query orders --key order-3 --json",
        "message query orders --key order-3 -o json -n NAMESRV",
    ),
    "json": ("topic list --json", "topic list -o json"),
    "json and a form, of which the last counts": (
        "topic list -o table --json", "topic list --output json",
    ),
}  # fmt: skip
PLACES = {
    "first": "start", "last": "end", "17": "17:", "0:5": ":5", "-1h": "@-1h",
    "2025-06-01T08:30": "@2025-06-01T08:30", "1763726400000": "@1763726400000",
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # ASYNC_FLUSH is RocketMQ's name, for which rmq also has `async`.
    options = ("--flush", "ASYNC_FLUSH")
    with broker_process(tmp_path_factory.mktemp("spellings"), options) as process:
        with Admin(namesrv_addr=process.namesrv) as admin:
            make_topic(admin, "orders", 1)
        with Producer("shop", namesrv_addr=process.namesrv) as producer:
            for number in range(COUNT):
                producer.send(Message("orders", f"{number}", keys=f"order-{number}"))
        query = ("message", "query", "orders", "--key", "order-3", "-n", process.namesrv)
        wait_until(lambda: rmq(*query).returncode == 0)  # the index follows the log
        yield process


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)


def said(*words: str) -> str:
    done = rmq(*words)
    assert done.returncode == 0, (words, done.stderr)
    assert done.stderr == "", "an old form that is to go would say so"
    return done.stdout


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_an_old_form_prints_what_the_new_one_does(
    broker: BrokerProcess, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "NAMESRV" in pair[0]:
        monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")  # the option counts more
    old, new = (words.replace("NAMESRV", broker.namesrv).split() for words in pair)
    found = json.loads(said(*new))
    assert found and json.loads(said(*old)) == found


@pytest.mark.parametrize(("old", "new"), PLACES.items(), ids=PLACES)
def test_an_old_place_is_where_the_new_one_is(old: str, new: str) -> None:
    found = said(*CONSUME, old)
    assert found == said(*CONSUME, new)
    assert bool(found) == (old != "last")


def test_a_broker_is_told_to_flush_by_either_name(broker: BrokerProcess) -> None:
    assert "ASYNC_FLUSH" in said("config", "get", "flushDiskType")
