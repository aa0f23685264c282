"""The console's pages about states that a single sound broker does not have: an open transaction,
replicas, servers that differ, clients with evil names; and all pages read-only.

Method: brokers as processes, a console in this process, and a browser without a screen. Cannot
show: how pages look (test_console_browser.py).
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.broker_process import broker_process, start_broker
from support.command_line import rmq
from support.console import Browser, served_console, text_of
from support.forked_commands import forked_children
from support.name_server import in_loop
from support.passage import Passage
from support.replica_set import Servers
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Message, Producer, TransactionProducer
from rmq.client.blocking import admin
from rmq.client.blocking.accounts import Accounts, entry
from rmq.client.blocking.cluster import Cluster
from rmq.client.producer.transaction import LocalTransactionState
from rmq.codes import RequestCode
from rmq.console.routes import CHANGES
from rmq.console.settings import ConsoleSettings
from rmq.demo.cluster import DemoCluster
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.signature import Credentials
from rmq.names import CLIENT_ID_CHARACTERS_MAX, HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC

ADMIN = Credentials("admin", "top secret")
ARMED = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
)  # fmt: skip
# Producers are asked once about a half message. It is then set aside until somebody has it checked
# again.
ASKED_ONCE = ("--set", "transactionTimeOut=0", "--set", "transactionCheckInterval=500",
              "--set", "transactionCheckMax=1")  # fmt: skip
EVIL_IDS = (
    "\"'><img src=x onerror=alert(1)>",
    "</table></main><script>alert(1)</script>",
    "javascript:alert(1)",
    "../../topic/delete?topic=t&group=g#x",
    "\u00e4\u4e2d\U0001f600 %00 %2e%2e {{ 7*7 }}",
    "x" * CLIENT_ID_CHARACTERS_MAX,
)


def shown(console: Browser, path: str, **parameters: str) -> str:
    answer = console.get(path, **parameters)
    assert answer.status_code == 200, text_of(answer.text)
    return text_of(answer.text)


class Undecided:
    """A listener that does not know how its transaction ended until the test sets `known`."""

    def __init__(self) -> None:
        self.known = LocalTransactionState.UNKNOWN
        self.asked = 0

    def execute_local_transaction(self, message: Any, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        self.asked += 1
        return self.known


def test_an_open_half_message_is_shown_and_checked_again(tmp_path: Path) -> None:
    listener = Undecided()
    with (
        broker_process(tmp_path, ASKED_ONCE) as broker,
        served_console(ConsoleSettings(broker.namesrv)) as console,
        Cluster(broker.namesrv) as cluster,
        TransactionProducer("payments", listener, namesrv_addr=broker.namesrv) as producer,
    ):  # fmt: skip
        make_topic(cluster, "orders", 1)
        producer.send_in_transaction(Message("orders", b"paid"))
        wait_until(lambda: "paid" in shown(console, "/messages", topic=HALF_TOPIC))
        aside = {"topic": TRANS_CHECK_MAX_TIME_TOPIC}

        def is_aside() -> bool:
            answer = console.get("/messages", **aside)
            return answer.status_code == 200 and "paid" in text_of(answer.text)

        wait_until(is_aside)
        assert listener.asked == 1
        assert "paid" not in shown(console, "/messages", topic="orders")
        row = re.search(r'href="(/message\?[^"]+)"', console.get("/messages", **aside).text)
        assert row is not None
        found = re.search(r"Offset id ([0-9A-F]{32})", shown(console, html.unescape(row[1])))
        assert found is not None
        listener.known = LocalTransactionState.COMMIT
        asked = console.ask("/later/check", id=found[1])
        assert "A producer of payments is asked again" in text_of(asked.text)
        assert "for topic orders ended" in text_of(asked.text)
        done = console.say_yes("/later/check", asked)
        assert f"{found[1]} is checked again" in text_of(console.get(done.headers["location"]).text)
        wait_until(lambda: "paid" in shown(console, "/messages", topic="orders"))
        wait_until(lambda: "Open transactions 0" in shown(console, "/later"))
        assert listener.asked == 2


def test_open_transactions_are_counted(tmp_path: Path) -> None:
    with (
        broker_process(tmp_path) as broker,
        served_console(ConsoleSettings(broker.namesrv)) as console,
        Cluster(broker.namesrv) as cluster,
        TransactionProducer("p", Undecided(), namesrv_addr=broker.namesrv) as producer,
    ):  # fmt: skip
        make_topic(cluster, "orders", 1)
        for _ in range(3):
            producer.send_in_transaction(Message("orders", b"x"))
        wait_until(lambda: "Open transactions 3" in shown(console, "/later"))


def test_a_master_and_its_slave_are_shown_and_where_they_differ(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    try:
        with served_console(ConsoleSettings(servers.namesrv)) as console:
            master, slave = re.escape(servers.master.address), re.escape(servers.slave.address)
            for path, asked in (("/brokers", {}), ("/broker", {"name": "shop"})):
                text = shown(console, path, **asked)
                assert re.search(rf"shop 0 {master} master yes yes [\d,–]+ [\d,]+ ", text), text
                assert re.search(rf"shop 1 {slave} slave yes yes [\d,–]+ [\d,]+ ", text), text
                assert "shop : no controller; its master is the one that brokerRole says." in text
                assert "No broker has a slave." not in text
    finally:
        servers.end()


def test_a_controlled_set_and_its_controllers_are_shown(tmp_path: Path) -> None:
    made = DemoCluster(tmp_path / "cluster", 3)
    with forked_children():
        try:
            made.start(lambda _: None)
            with served_console(ConsoleSettings(made.namesrv)) as console:
                rows = [rf"broker-a {number} {re.escape(address)} {role} yes yes 1 [\d,]+ "
                        for number, address in made.addresses.items()
                        for role in ("master" if number == 1 else "slave",)]  # fmt: skip
                wait_until(lambda: all(re.search(row, shown(console, "/brokers")) for row in rows))
                text = shown(console, "/brokers")
                assert re.search(
                    r"broker-a : master 1 of epoch 1, sync state set of epoch \d+\.", text
                )
                assert len(re.findall(r"Controller 127\.0\.0\.1:\d+ leads\.", text)) == 1
                assert "does not answer" not in text
                made.brokers[3].kill()
                wait_until(lambda: re.search(r"broker-a 3 \S+ \S+ no no ",
                                             shown(console, "/brokers")))  # fmt: skip
        finally:
            made.stop()


def test_in_what_two_servers_differ(tmp_path: Path) -> None:
    with broker_process(tmp_path / "a", ("--set", "fileReservedTime=48")) as first:
        second = start_broker(
            tmp_path / "b",
            ("--set", f"namesrvAddr={first.namesrv}", "--set", "brokerName=broker-b",
             "--set", "fileReservedTime=24", "--set", "maxMessageSize=1048576"),
        )  # fmt: skip
        try:
            with served_console(ConsoleSettings(first.namesrv)) as console:
                wait_until(lambda: "broker-b" in shown(console, "/brokers"))
                differing = shown(console, "/config", show="differing")
                assert "broker-a broker-b" in differing
                assert "fileReservedTime 72 48 24" in differing
                assert "maxMessageSize 4194304 4194304 1048576" in differing
                assert "syncFlushTimeout" not in differing, "changed, and the same"
                assert "brokerName" not in differing, "of course"
                assert "syncFlushTimeout" in shown(console, "/config")
                console.change("/config/set", servers="brokers", server="broker-b",
                               key="fileReservedTime", value="48")  # fmt: skip
                assert "fileReservedTime" not in shown(console, "/config", show="differing")
        finally:
            second.stop()
            second.close()


def test_one_broker_of_two_that_does_not_answer_hides_nothing_of_the_other(tmp_path: Path) -> None:
    """Until the name server notices, it lists both."""
    with broker_process(tmp_path / "a") as first, Passage(first.namesrv) as passage:
        second = start_broker(
            tmp_path / "b",
            ("--set", f"namesrvAddr={first.namesrv}", "--set", "brokerName=broker-b"),
        )
        try:
            fill_two(first.namesrv)
            with served_console(ConsoleSettings(passage.address)) as console:
                assert "from broker-b" in shown(console, "/messages", topic="orders")
                tail = console.get("/messages/tail", topic="orders")
                onwards = re.search(r'<tr hx-get="([^"]+)"', tail.text)
                assert onwards is not None
                passage.hide(second.address)
                for path, asked, there in HALVES:
                    wait_until(lambda p=path, a=asked: AWAY in shown(console, p, **a))
                    assert there in shown(console, path, **asked), path
                rows = console.client.get(html.unescape(onwards[1]))
                assert rows.status_code == 200
                assert AWAY in rows.text
                away = console.get("/messages", topic="orders", queue="broker-b/0")
                assert away.status_code == 503
            for words, there in (
                (("list",), "billing"),
                (("describe", "billing"), "lag 1, retries 0, delayed retries 0, dead letters 1"),
            ):
                done = rmq("group", *words, "-n", passage.address)
                assert done.returncode == 3
                assert there in done.stdout
                assert "what lies there alone is missing: broker-b" in done.stderr
        finally:
            second.stop()
            second.close()


AWAY = "What lies on broker-b alone is missing, as it does not answer"
HALVES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("/groups", {}, "billing"),
    ("/group", {"group": "billing"}, "orders broker-a 0 0 1 1"),
    ("/topics", {}, "orders"),
    ("/topic", {"topic": "orders"}, "broker-a 0 rw 0 1 1"),
    ("/messages", {"topic": "orders"}, "from broker-a"),
    ("/messages", {"topic": "orders", "from": "first"}, "from broker-a"),
    ("/messages", {"topic": "orders", "key": "k"}, "from broker-a"),
    ("/dead-letters", {}, "billing 1 1"),
    ("/dead-letters/group", {"group": "billing"}, "from broker-a"),
    ("/config", {"show": "all"}, "brokerName"),
)


def fill_two(namesrv: str) -> None:
    """A message on each of two brokers, not consumed; and one that was given up."""
    names = ("broker-a", "broker-b")
    with Cluster(namesrv) as cluster, Producer("p", namesrv_addr=namesrv) as producer:
        wait_until(lambda: [each.name for each in cluster.masters()] == list(names))
        for topic in ("orders", "%DLQ%billing"):
            make_topic(cluster, topic, 1)
            for name in names:
                message = Message(topic, f"from {name}", keys="k")
                producer.send(message, queue=MessageQueue(topic, name, 0))
        admin.create_group(cluster, "billing", {})
        for name in names:
            admin.commit_offset(cluster, "billing", MessageQueue("orders", name, 0), 0)


@pytest.fixture(scope="module")
def armed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A broker with accounts that has one of each thing which the console's pages can change."""
    with broker_process(tmp_path_factory.mktemp("armed"), ARMED) as broker:
        with Cluster(broker.namesrv, account=ADMIN) as cluster:
            Accounts(cluster).create_user("alice", "wonderland")
            Accounts(cluster).put_acl("alice", [entry("Topic:orders", ["Pub"])])
            for topic in ("orders", "%DLQ%billing"):
                make_topic(cluster, topic, 1)
            admin.create_group(cluster, "billing", {})
            keys = {"access_key": ADMIN.access_key, "secret_key": ADMIN.secret_key}
            with Producer("p", namesrv_addr=broker.namesrv, **keys) as producer:
                sent = producer.send(Message("orders", b"x"))
                producer.send(Message("%DLQ%billing", b"dead"))
            queue = sent.queue
            admin.commit_offset(cluster, "billing", queue, 0)
        yield {"namesrv": broker.namesrv, "id": sent.offset_message_id}


def pages_of(armed: dict[str, str], *, read_only: bool) -> str:
    """The texts of all pages that lead to changes, as a Super user sees them."""
    with served_console(ConsoleSettings(armed["namesrv"], read_only=read_only)) as console:
        assert console.log_in(ADMIN.access_key, ADMIN.secret_key).status_code == 303
        answers = [
            console.get(path, **asked)
            for path, asked in (
                ("/", {}), ("/brokers", {}), ("/topics", {}), ("/groups", {}), ("/later", {}),
                ("/accounts", {}), ("/config", {"show": "all"}), ("/dead-letters", {}),
                ("/audit", {}), ("/topic", {"topic": "orders"}), ("/group", {"group": "billing"}),
                ("/messages", {"topic": "orders"}), ("/message", {"id": armed["id"]}),
                ("/dead-letters/group", {"group": "billing"}),
            )
        ]  # fmt: skip
    assert all(answer.status_code == 200 for answer in answers)
    return "\n".join(answer.text for answer in answers)


@pytest.fixture(scope="module")
def seen(armed: dict[str, str]) -> dict[bool, str]:
    return {read_only: pages_of(armed, read_only=read_only) for read_only in (False, True)}


@pytest.mark.parametrize("path", sorted(change.path for change in CHANGES))
def test_read_only_shows_no_form_of_a_change_and_no_way_to_one(
    seen: dict[bool, str], path: str
) -> None:
    """A read-only console shows the same pages without the form, and without a link to it."""
    assert re.search(rf'(href|action)="{path}[?"]', seen[False]), "others get there"
    assert path not in seen[True]
    assert 'method="post"' not in seen[True].replace('method="post" action="/logout"', "")
    assert "orders" in seen[True] and "alice" in seen[True], "what can be changed is shown"


def test_clients_that_call_themselves_something_evil_are_shown_and_lead_nowhere_else(
    tmp_path: Path,
) -> None:
    with (
        broker_process(tmp_path) as broker,
        served_console(ConsoleSettings(broker.namesrv)) as console,
        Cluster(broker.namesrv) as cluster,
    ):  # fmt: skip
        make_topic(cluster, "t", 1)

        @in_loop
        async def look() -> None:
            clients = [BrokerClient(broker.port, name) for name in EVIL_IDS]
            for client in clients:
                await client.__aenter__()
                body = {
                    "clientID": client.client_id,
                    "producerDataSet": [{"groupName": "P"}],
                    "consumerDataSet": [{
                        "groupName": "g", "consumeType": "CONSUME_PASSIVELY",
                        "messageModel": "CLUSTERING", "unitMode": False,
                        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                        "subscriptionDataSet": [{"topic": "t", "subString": "*"}],
                    }],
                }  # fmt: skip
                reply = await client.call(RequestCode.HEART_BEAT, fastjson.dumps(body))
                assert reply.code == 0, reply.remark
            await asyncio.to_thread(check, console)
            for client in clients:
                await client.__aexit__()

        look()


def check(console: Browser) -> None:
    for path, asked in (("/group", {"group": "g"}), ("/topic", {"topic": "t"})):
        page = console.get(path, **asked).text
        assert "<script>alert" not in page and "<img" not in page and "<td>49" not in page
        text = html.unescape(page)
        assert all(name in text for name in EVIL_IDS), path
    page = console.get("/group", group="g").text
    links = [html.unescape(link) for link in re.findall(r'id="c-[^"]*" href="([^"]*)"', page)]
    assert len(links) == len(EVIL_IDS)
    assert all(link.startswith("/client?") for link in links)
    for name in EVIL_IDS:  # of a group that has no members
        answer = console.get("/client", group="none", client=name)
        assert answer.status_code in (404, 502)
        assert "<script>alert" not in answer.text and "<img" not in answer.text
