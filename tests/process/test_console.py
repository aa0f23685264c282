"""The web console's pages over a broker that runs: what an operator does there in a day.

Method: a broker as a process, the console in this one, and a browser without a screen that fills in
forms as people do. Cannot show: how it looks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.console import Browser, served_console, text_of
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer, PullConsumer
from rmq.console.settings import ConsoleSettings
from rmq.names import dlq_topic

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>&\"'"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture(scope="module")
def console(broker: BrokerProcess) -> Iterator[Browser]:
    with served_console(ConsoleSettings(broker.namesrv)) as browser:
        yield browser


def send(broker: BrokerProcess, topic: str, *messages: Message) -> list[str]:
    with Producer("console-tests", namesrv_addr=broker.namesrv) as producer:
        return [producer.send(each).offset_message_id for each in messages]


def consume(broker: BrokerProcess, group: str, topic: str, count: int) -> None:
    seen: list[object] = []
    with PullConsumer(
        group, namesrv_addr=broker.namesrv, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: seen.extend(consumer.poll(100)) or len(seen) >= count)
        consumer.commit()


def shown(console: Browser, path: str, **parameters: str) -> str:
    answer = console.get(path, **parameters)
    if answer.status_code == 303:
        answer = console.get(answer.headers["location"])
    assert answer.status_code == 200, text_of(answer.text)
    return text_of(answer.text)


def test_a_topic_from_its_making_to_its_end(broker: BrokerProcess, console: Browser) -> None:
    asked = console.ask("/topic/create", topic="bills", queues="3", message_type="NORMAL",
                        perm="rw")  # fmt: skip
    assert "bills" in text_of(asked.text)
    assert "bills" not in shown(console, "/topics"), "nothing is done before the yes"
    console.say_yes("/topic/create", asked)
    wait_until(lambda: "bills" in shown(console, "/topics"))
    said = console.change("/topic/send", topic="bills", body="hello", tag="t", keys="k1 k2",
                          properties="a=b")  # fmt: skip
    assert "sent" in said.lower()
    wait_until(lambda: "hello" in shown(console, "/messages", topic="bills", **{"from": "first"}))
    refused = console.ask("/topic/create", topic="bills", queues="3", message_type="NORMAL",
                          perm="rw")  # fmt: skip
    assert "exists" in text_of(refused.text)
    for queues in ("0", "-1", "70000", "many", ""):
        faulty = console.ask("/topic/create", topic="other", queues=queues, perm="rw",
                             message_type="NORMAL")  # fmt: skip
        assert faulty.status_code == 422, queues
    smaller = console.ask("/topic/update", topic="bills", read_queues="1", write_queues="1",
                          perm="rw")  # fmt: skip
    assert "nobody reads" in text_of(smaller.text) or smaller.status_code == 200
    assert "bills" in shown(console, "/topic", topic="bills")
    console.change("/topic/delete", topic="bills")
    wait_until(lambda: "bills" not in shown(console, "/topics"))


def test_a_message_is_found_by_all_that_names_it(broker: BrokerProcess, console: Browser) -> None:
    (offset_id,) = send(
        broker, "found", Message("found", b'{"amount": 7}', tags="paid", keys="key-7")
    )
    for named in ({"key": "key-7"}, {"from": "first", "tag": "paid"}, {"id": offset_id},
                  {"from": "first", "sql": "TAGS = 'paid'"}):  # fmt: skip
        wait_until(lambda named=named: '"amount": 7' in shown(
            console, "/messages", topic="found", **named))  # fmt: skip
    assert '"amount": 7' not in shown(
        console, "/messages", topic="found", **{"from": "first", "tag": "other"}
    )
    consume(broker, "readers", "found", 1)
    page = shown(console, "/message", id=offset_id)
    assert "key-7" in page and "paid" in page
    wait_until(lambda: "passed" in shown(console, "/message", id=offset_id))


def test_what_strangers_wrote_never_runs(broker: BrokerProcess, console: Browser) -> None:
    (offset_id,) = send(
        broker, "hostile",
        Message("hostile", EVIL, tags=EVIL.replace("|", ""), keys=EVIL, properties={"p": EVIL}),
    )  # fmt: skip
    pages = [
        ("/messages", {"topic": "hostile", "from": "first"}),
        ("/messages/tail", {"topic": "hostile", "from": "first"}),
        ("/message", {"id": offset_id}),
        ("/message/body", {"id": offset_id}),
        ("/topics", {"part": EVIL}),
        ("/messages", {"topic": EVIL, "key": EVIL}),
        ("/group", {"group": EVIL}),
        ("/dead-letters/group", {"group": EVIL, "key": EVIL}),
        ("/config", {"key": EVIL}),
    ]
    seen = ""
    for path, asked in pages:
        page = console.get(path, **asked)
        if page.headers["content-type"].startswith("text/html"):
            assert "<script>alert" not in page.text and "<img" not in page.text, path
            seen += text_of(page.text)
        else:
            assert page.headers["content-disposition"].startswith("attachment"), path
    assert "alert('x')" in seen, "it is shown as the text that it is"


def test_a_group_goes_where_it_is_sent(broker: BrokerProcess, console: Browser) -> None:
    send(broker, "moved", *(Message("moved", b"%d" % at) for at in range(6)))
    consume(broker, "movers", "moved", 6)
    wait_until(lambda: "movers" in shown(console, "/groups"))
    asked = console.ask("/group/move", group="movers", topic="moved", to="first")
    assert "6 again" in text_of(asked.text)
    console.say_yes("/group/move", asked)
    wait_until(lambda: "6" in shown(console, "/group", group="movers"))
    skipped = console.change("/group/skip", group="movers", topic="moved")
    assert "movers" in skipped
    wrong = console.ask("/group/move", group="movers", topic="moved", to="somewhere")
    assert wrong.status_code == 422
    console.change("/group/create", group="made", retryMaxTimes="3", retryQueueNums="1",
                   consumeTimeoutMinute="15", consumeEnable="yes")  # fmt: skip
    wait_until(lambda: "made" in shown(console, "/groups"))


def test_dead_letters_are_sent_again(broker: BrokerProcess, console: Browser) -> None:
    dead = dlq_topic("ill")
    console.change("/group/create", group="ill", retryMaxTimes="3", retryQueueNums="1",
                   consumeTimeoutMinute="15", consumeEnable="yes")  # fmt: skip
    run = [sys.executable, "-m", "rmq", "-n", broker.namesrv, "topic", "create", dead,
           "--queues", "1"]  # fmt: skip
    subprocess.run(run, check=True, timeout=HANG_S, stdout=subprocess.DEVNULL)
    properties = {"DLQ_ORIGIN_TOPIC": "cured"}
    send(broker, "cured", Message("cured", b"well"))
    send(broker, dead, *(Message(dead, b"%d" % at, properties=properties) for at in range(3)))
    wait_until(lambda: "ill" in shown(console, "/dead-letters"))
    wait_until(lambda: shown(console, "/dead-letters/group", group="ill").count("cured") >= 3)
    lines = console.get("/dead-letters/export", group="ill").text.splitlines()
    assert [json.loads(each)["body"] for each in lines] == ["0", "1", "2"]
    said = console.change("/dead-letters/resend", group="ill", to="origin")
    assert "3 dead letters of ill went out again" in said
    assert all(each in shown(console, "/messages", topic="cured", **{"from": "first"})
               for each in ("well", "0", "1", "2"))  # fmt: skip
    again = console.ask("/dead-letters/resend", group="ill", to="origin")
    assert "were sent again already" in text_of(again.text)


def test_settings_are_shown_and_changed(broker: BrokerProcess, console: Browser) -> None:
    assert "fileReservedTime" in shown(console, "/config", show="all")
    said = console.change("/config/set", servers="brokers", key="fileReservedTime", value="71")
    assert "fileReservedTime" in said
    wait_until(lambda: "71" in shown(console, "/config"))
    refused = console.ask("/config/set", servers="brokers", key="storePathRootDir", value="/tmp/x")
    if "pending" in refused.text:
        refused = console.say_yes("/config/set", refused)
    assert refused.status_code != 303, "what is not for a broker that runs is refused"


def test_what_there_is_at_a_glance(broker: BrokerProcess, console: Browser) -> None:
    assert "broker-a" in shown(console, "/")
    assert "broker-a" in shown(console, "/brokers")
    assert broker.address in shown(console, "/broker", name="broker-a")
    assert shown(console, "/later")
    assert console.get("/nothing").status_code == 404


def test_a_cluster_that_is_gone_is_said_and_found_again(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        ports = ("--port", str(broker.port), "--namesrv-port", broker.namesrv.rpartition(":")[2])
        with served_console(ConsoleSettings(broker.namesrv)) as console:
            assert "broker-a" in shown(console, "/brokers")
            broker.stop()
            wait_until(lambda: console.get("/brokers").status_code == 503)
            assert "no name server answers" in text_of(console.get("/brokers").text)
            with broker_process(tmp_path, ports):
                wait_until(lambda: console.get("/brokers").status_code == 200)
                assert "broker-a" in shown(console, "/brokers")
