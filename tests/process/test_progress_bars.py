"""Commands that take long show how far they are: on a terminal, and nowhere else.

Method: the commands on a pseudo-terminal, and through pipes, with a real broker. Cannot show: that
a bar runs evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq
from support.terminal import rmq_on_terminal
from support.topics import make_topic

from rmq import Message, Producer
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster

pytest.importorskip("rich")

SMALL = ("--set", "mappedFileSizeCommitLog=4194304")
COUNT = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("bars"), SMALL) as process:
        with Cluster(process.namesrv) as cluster:
            admin.create_group(cluster, "deaf", {})
            for topic in ("orders", "%DLQ%deaf"):
                make_topic(cluster, topic, 1)
        with Producer("p", namesrv_addr=process.namesrv) as producer:
            for topic in ("orders", "%DLQ%deaf"):
                for number in range(COUNT):
                    producer.send(Message(topic, b"%d" % number))
        yield process


def test_a_terminal_has_a_bar_of_each(broker: BrokerProcess, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for words, bar, said in (
        (("export", "orders", tmp_path / "o.jsonl"), "export orders: messages", "20 messages"),
        (("import", tmp_path / "o.jsonl", "orders"), "import ", "20 "),
        (("dlq", "resend", "deaf", "--yes", "--to", "orders"), "resend deaf: dead letters",
         "20 dead letters to orders"),
        (("debug", "bundle", "--to", tmp_path / "b.tar.gz", "--store", broker.store),
         "bundle: ", "Look through it"),
        (("group", "list"), "group list: groups", "deaf"),
        (("topic", "list"), "topic list: topics", "orders"),
        (("dlq", "list"), "dlq list: groups", "deaf"),
    ):  # fmt: skip
        shown = rmq_on_terminal(*words, "-n", broker.namesrv)
        assert shown.code == 0, shown.text
        assert bar in shown.text, words
        assert said in shown.text, words
        assert shown.text.index(bar) < shown.text.rindex(said), "first how far, then what was done"


def test_what_is_sent_or_written_silently_has_one(broker: BrokerProcess, tmp_path: Path) -> None:
    where = ("-n", broker.namesrv)
    shown = rmq_on_terminal("send", "orders", "x", "--count", "30", "-q", *where)
    assert (shown.code, "send orders: messages" in shown.text) == (0, True), shown.text
    shown = rmq_on_terminal("send", "orders", "x", "--count", "3", *where)
    assert (shown.code, "send orders" in shown.text) == (0, False), "each is told"
    with (tmp_path / "bodies").open("wb") as out:
        shown = rmq_on_terminal("consume", "orders", "--body", *where, out=out)
    assert (shown.code, "consume: messages" in shown.text) == (0, True), shown.text
    assert (tmp_path / "bodies").read_bytes().startswith(b"0\n1\n")
    shown = rmq_on_terminal("consume", "orders", "--body", *where)
    assert "consume: messages" not in shown.text, "the messages are there themselves"


def test_a_pipe_has_none(broker: BrokerProcess, tmp_path: Path) -> None:
    for words in (
        ("dlq", "resend", "deaf", "--yes", "--from", "first", "--to", "orders"),
        ("debug", "bundle", "--to", str(tmp_path / "b.tar.gz"), "--store", str(broker.store)),
        ("group", "list"), ("topic", "list"), ("consume", "orders"),
        ("send", "orders", "x", "--count", "30", "-q"),
    ):  # fmt: skip
        done = rmq(*words, "-n", broker.namesrv)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "bundle: " not in done.stdout and "resend " not in done.stdout
