"""`rmq audit` and the console's audit page, with two shards that write to one audit file.

Method: real processes of shards and name server, commands and console in this process. Cannot show:
servers on several machines (tests/unit/cli/test_audit.py imitates several in a few lines).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account
from support.broker_process import broker_process
from support.command_line import rmq
from support.console import Browser, served_console, text_of
from support.sharded_broker import ShardedBroker, sharded_broker
from support.waiting import wait_until

from rmq.client.blocking.accounts import Accounts, entry
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.console.paging import ROWS_MAX
from rmq.console.settings import ConsoleSettings
from rmq.format.signature import Credentials

ADMIN = Credentials("admin", "top secret")
ALICE = Credentials("alice", "wonderland")
ARMED = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
)  # fmt: skip
EVIL = "<script>alert(1)</script>"
TOPICS = ROWS_MAX + 5  # more than a page has


@dataclass
class World:
    broker: ShardedBroker
    console: Browser  # as the Super user


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """alice may do everything by her entries, and is no Super user."""
    folder = tmp_path_factory.mktemp("audit")
    options = (*ARMED, "--set", f"rmqAuditLog={folder / 'audit.log'}")
    with ExitStack() as stack:
        with account(ADMIN):
            broker = stack.enter_context(sharded_broker(folder, 2, options))
            with Cluster(broker.namesrv) as cluster:
                Accounts(cluster).create_user(ALICE.access_key, ALICE.secret_key)
                Accounts(cluster).put_acl("alice", [entry("*", ["All"])])
            for port in broker.ports:
                change_much(f"127.0.0.1:{port}")
        with served_console(ConsoleSettings(broker.namesrv)) as console:
            assert console.log_in(ADMIN.access_key, ADMIN.secret_key).status_code == 303
            yield World(broker, console)


def change_much(address: str) -> None:
    """Makes topics at this shard, and has a stranger refused whose name is a piece of HTML."""
    with Connection(address) as connection:
        for number in range(TOPICS):
            fields = {
                "topic": f"audited-{number:03d}", "defaultTopic": "TBW102", "readQueueNums": 1,
                "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0, "order": False,
            }  # fmt: skip
            connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    with account(Credentials(EVIL, "x")), Connection(address) as connection:
        assert connection.ask(RequestCode.GET_BROKER_CONFIG).code == 16


def audit(world: World, *words: str) -> list[dict[str, Any]]:
    done = rmq("audit", *words, "-n", world.broker.namesrv, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def shown(world: World, **asked: str) -> str:
    answer = world.console.get("/audit", **asked)
    assert answer.status_code == 200, text_of(answer.text)
    return text_of(answer.text)


def test_one_file_of_two_shards_is_told_once_and_the_newest_comes_first(world: World) -> None:
    with account(ADMIN):
        found = audit(world, "audited-000")
        assert [each["server"] for each in found] == ["broker-a-1", "broker-a"]
        assert {each["verdict"] for each in found} == {"allowed"}
        assert {each["what"] for each in found} == {"Create Topic:audited-000"}
        assert {each["by"] for each in found} == {"signature"}
        newest = audit(world, "audited-", "--count", "3")
        assert [each["what"][-3:] for each in newest] == ["054", "053", "052"]
        assert audit(world, "audited-", "--until", str(found[-1]["time_ms"] - 1)) == []
        refused = audit(world, "--verdict", "refused", "--of", EVIL)
        assert {each["what"] for each in refused} == {f"User:{EVIL} is not found."}


def test_who_is_no_super_user_is_told_nothing(world: World) -> None:
    for who, why in ((ALICE, "open to Super users alone"), (None, "username cannot be null")):
        with account(who):
            done = rmq("audit", "-n", world.broker.namesrv)
        assert done.returncode != 0
        assert why in done.stderr
        assert "audited" not in done.stdout + done.stderr
    with served_console(ConsoleSettings(world.broker.namesrv)) as browser:
        assert browser.get("/audit").status_code == 303  # to the login
        browser.log_in(ALICE.access_key, ALICE.secret_key)
        text = text_of(browser.get("/audit").text)
    assert "open to Super users alone" in text
    assert "audited" not in text


def test_the_page_shows_who_did_what_and_what_strangers_call_themselves(world: World) -> None:
    page = world.console.get("/audit", user=EVIL)
    assert EVIL not in page.text
    assert html.escape(EVIL) in page.text
    row = rf"refused {re.escape(EVIL)} 127\.0\.0\.1:\d+ GET_BROKER_CONFIG User:"
    assert len(re.findall(row, text_of(page.text))) == 2
    text = shown(world, user="admin", verdict="allowed", text="audited-007")
    wanted = r"allowed admin 127\.0\.0\.1:\d+ UPDATE_AND_CREATE_TOPIC Create Topic:audited-007 "
    assert re.findall(wanted + r"signature (broker-a\S*)", text) == ["broker-a-1", "broker-a"]
    assert "No line." in shown(world, user="nobody")
    evil = world.console.get("/audit", text='"><b>', user="'><b>")
    assert "<b>" not in evil.text


def test_a_long_log_has_pages_that_keep_what_was_asked_for(world: World) -> None:
    first = world.console.get("/audit", text="audited-")
    assert f"{2 * TOPICS} in all" in text_of(first.text)
    assert "audited-054" in first.text
    link = re.search(r'rel="next" href="(/audit\?[^"]+)"', first.text)
    assert link is not None
    second = world.console.client.get(html.unescape(link[1]))
    assert "text=audited-" in link[1]
    assert "Page 2 of 3" in text_of(second.text)
    assert "audited-001" in second.text


def test_what_cannot_be_asked_for_is_said_beside_the_field(world: World) -> None:
    answer = world.console.get("/audit", since="yesterday", verdict="perhaps")
    assert answer.status_code == 422
    text = text_of(answer.text)
    assert "'yesterday': give milliseconds" in text
    assert "one of allowed, refused" in text
    assert "audited-" in shown(world, since="-1h", until="now")
    assert "No line." in shown(world, until="2020-01-01")


def test_a_change_of_the_console_is_in_it(world: World) -> None:
    world.console.change("/account/create", user="carol", password="secret")
    wait_until(lambda: re.search(r"allowed admin \S+ AUTH_CREATE_USER .*carol",
                                 shown(world, text="carol")))  # fmt: skip


@pytest.mark.parametrize("options", [(), ARMED], ids=["nobody is asked", "no file"])
def test_brokers_that_keep_none_say_what_would_help(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """If there is no audit log, the console's page says which setting is missing."""
    with (
        broker_process(tmp_path, options) as broker,
        served_console(ConsoleSettings(broker.namesrv)) as browser,
    ):
        if options:
            browser.log_in(ADMIN.access_key, ADMIN.secret_key)
        text = text_of(browser.get("/audit").text)
    assert ("rmqAuditLog=FILE" if options else "accounts are not in use here") in text
