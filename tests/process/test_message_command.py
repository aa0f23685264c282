"""Goal: one message is shown with all there is to it, and a consumer gets it on request.

Method: the commands against a broker and consumers of rmq's client.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq as run
from support.terminal import at_terminal
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Admin, Message, Producer, PushConsumer
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus
from rmq.format.fastjson import MessageQueue


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("message")) as process:
        yield process


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
    return broker.namesrv


def sent(namesrv: str, topic: str, *bodies: bytes) -> list[str]:
    """Sends the bodies to a new topic. Returns the unique ids of the messages."""
    with Admin(namesrv_addr=namesrv) as admin:
        make_topic(admin, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)
    with Producer("P", namesrv_addr=namesrv) as producer:
        return [
            producer.send(
                Message(topic, body, tags="t", keys="k", properties={"region": "eu"}), queue=queue
            ).message_id
            for body in bodies
        ]


HOSTILE = b"\x1b]0;owned\x07 \x1b[2J \xc2\x9b2J end"


def test_a_body_commands_a_terminal_in_no_form(namesrv: str) -> None:
    """A pipe and a file get it byte for byte."""
    sent(namesrv, "hostile", HOSTILE)
    for words in ((), ("--body",), ("--format", "%t: %s\\n"), ("-o", "wide"), ("--json",)):
        with at_terminal("consume", "hostile", *words) as terminal:
            assert terminal.code() == 0
        assert "end" in terminal.shown
        assert not {"\x1b", "\x07", "\x9b"} & {*terminal.shown}, (words, terminal.shown)
    assert run("consume", "hostile", "--body").stdout.encode() == HOSTILE + b"\n"
    assert HOSTILE in json.loads(run("consume", "hostile", "--json").stdout)["body"].encode()


def test_all_there_is_to_a_message(namesrv: str) -> None:
    ids = sent(namesrv, "shown", b"hello", b"\x00\xff" * 300)
    with Admin(namesrv_addr=namesrv) as admin:
        for group in ("behind", "beyond"):
            admin.create_group(group)
            admin.commit_offset(group, MessageQueue("shown", "broker-a", 0), int(group == "beyond"))
    # The key index has the message a moment later.
    wait_until(lambda: run("message", "show", ids[1], "shown").returncode == 0)
    text = run("message", "show", ids[0], "shown").stdout
    for each in ("broker-a, queue 0, offset 0", "5 bytes", "region          eu", "\nhello\n",
                 "behind  not yet", "beyond  passed", ids[0]):  # fmt: skip
        assert each in text, text
    row = json.loads(run("message", "show", ids[0], "shown", "--json").stdout)
    assert row["groups"] == {"behind": "not yet", "beyond": "passed"} and row["body"] == "hello"
    offset_id = next(line.split()[-1] for line in text.splitlines() if "offset id" in line)
    assert run("message", "show", offset_id).stdout == text
    second = run("message", "show", ids[1], "shown").stdout
    assert "000000  00 ff 00 ff" in second and "... and 88 bytes more" in second
    missing = run("message", "show", "7F" * 16, "shown")
    assert missing.returncode == 1 and "has no message with the unique id" in missing.stderr
    for unique in (ids[0], "7F" * 16, "0" * 32):
        alone = run("message", "show", unique)
        assert alone.returncode == 1 and "unique id" in alone.stderr, alone
        assert "asked for with its topic" in alone.stderr


def test_a_consumer_gets_it_now(namesrv: str) -> None:
    """`rmq message direct` gives a stored message to a consumer at once, and tells the result."""
    (unique,) = sent(namesrv, "direct", b"hello")
    got: list[tuple[str, bytes]] = []
    status = [ConsumeConcurrentlyStatus.CONSUME_SUCCESS]

    def take(messages: list[Any], context: Any) -> Any:
        got.extend((each.topic, each.body) for each in messages)
        return status[0]

    words = ("message", "direct", unique, "takers", "--topic", "direct")
    wait_until(lambda: run("message", "show", unique, "direct").returncode == 0)
    assert "no member of group takers is online" in run(*words).stderr
    with PushConsumer("takers", take, namesrv_addr=namesrv) as consumer:
        consumer.subscribe("direct")
        wait_until(lambda: run("group", "describe", "takers").stdout.count("member ") == 1)
        said = run(*words)
        assert (said.returncode, "CR_SUCCESS" in said.stdout) == (0, True), said
        assert ("direct", b"hello") in got
        status[0] = ConsumeConcurrentlyStatus.RECONSUME_LATER
        said = run(*words, "--json")
        assert (said.returncode, json.loads(said.stdout)["result"]) == (1, "CR_LATER")
        said = run(*words, "--client", "nobody")
        assert said.returncode == 1 and "is not online" in said.stderr
