"""The console if brokers ask for accounts: it asks with the account of the user who has logged in,
and that user may do no more than by other ways.

Method: a broker with accounts, consoles in this process and one as a process that speaks TLS to a
broker of `rmq setup security`; browsers without a screen. Cannot show: other brokers' accounts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.console import Browser, served_console, text_of
from support.console_process import console_process
from support.secured_broker import secured_broker
from support.topics import make_topic

from rmq.client.blocking.accounts import Accounts, entry
from rmq.client.blocking.cluster import Cluster
from rmq.console.login import FAILURES_MAX
from rmq.console.settings import ConsoleSettings
from rmq.format.signature import Credentials

ADMIN = Credentials("admin", "top secret")
ALICE = Credentials("alice", "wonderland")
ARMED = (
    "--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true",
    "--set", 'initAuthenticationUser={"username":"admin","password":"top secret"}',
)  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """alice may send to and read orders, and see the cluster."""
    with broker_process(tmp_path_factory.mktemp("armed"), ARMED) as process:
        with Cluster(process.namesrv, account=ADMIN) as cluster:
            Accounts(cluster).create_user(ALICE.access_key, ALICE.secret_key)
            Accounts(cluster).put_acl("alice", [
                entry("Topic:orders", ["Pub", "Sub", "Get"]),
                entry("Group:*", ["Sub", "Get"]),
                entry("Cluster:*", ["Get"]),
            ])  # fmt: skip
            make_topic(cluster, "orders", 1)
            make_topic(cluster, "secret", 1)
        yield process


@pytest.fixture
def console(broker: BrokerProcess) -> Iterator[Browser]:
    with served_console(ConsoleSettings(broker.namesrv)) as browser:
        yield browser


def logged_in(console: Browser, who: Credentials) -> Browser:
    answer = console.log_in(who.access_key, who.secret_key)
    assert answer.status_code == 303, text_of(answer.text)
    return console


def test_nobody_is_sent_to_the_login_and_back(console: Browser) -> None:
    """A browser without a login is sent to the login page, and afterwards to the page that it
    wanted."""
    answer = console.get("/topic", topic="orders")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=/topic%3Ftopic%3Dorders"
    form = console.client.get(answer.headers["location"])
    assert 'name="next" value="/topic?topic=orders"' in form.text
    fields = {"name": "admin", "password": "top secret", "next": "/topic?topic=orders",
              "csrf": console.token_of(form)}  # fmt: skip
    entered = console.post("/login", fields)
    assert entered.headers["location"] == "/topic?topic=orders"
    assert "Topic orders" in text_of(console.get("/topic", topic="orders").text)


def test_a_wrong_password_an_unknown_name_and_too_many_of_them(console: Browser) -> None:
    """Wrong logins are refused. After too many of them a right one must wait, too."""
    for name, password in [("alice", "wrong"), ("nobody", "x"), ("", "x"), ("alice", "")]:
        answer = console.log_in(name, password)
        assert answer.status_code == 403
        assert console.get("/").status_code == 303
    for _ in range(FAILURES_MAX - 4):
        console.log_in("alice", "wrong")
    waits = console.log_in(*("alice", "wonderland"))
    assert waits.status_code == 429
    assert "wait a minute" in text_of(waits.text)


def test_logins_that_succeed_are_not_counted(console: Browser) -> None:
    for _ in range(FAILURES_MAX + 1):
        logged_in(console, ALICE)


def test_a_login_gives_the_browser_another_name_and_a_logout_too(console: Browser) -> None:
    """A login changes the session's name in the cookie. After a logout that name opens nothing."""
    console.get("/login")
    before = console.client.cookies["rmq-console"]
    logged_in(console, ALICE)
    inside = console.client.cookies["rmq-console"]
    assert inside != before
    page = console.get("/")
    assert "alice" in page.text
    assert "wonderland" not in page.text
    left = console.post("/logout", {"csrf": console.token_of(page)})
    assert left.headers["location"] == "/login"
    assert console.get("/").status_code == 303
    other = Browser(console.base, cookies={"rmq-console": inside})
    assert other.get("/").status_code == 303  # the session's name opens nothing any more
    other.close()


def test_an_account_sees_and_does_what_it_may(console: Browser, broker: BrokerProcess) -> None:
    logged_in(console, ALICE)
    assert "Topic orders" in text_of(console.get("/topic", topic="orders").text)
    sent = console.change("/topic/send", topic="orders", body="hello")
    assert "SEND_OK" in sent
    assert "hello" in text_of(console.get("/messages", topic="orders").text)
    forbidden = console.get("/messages", topic="secret")
    assert forbidden.status_code in (403, 422)
    assert "no matched policies" in text_of(forbidden.text)
    for path, fields in [("/topic/create", {"topic": "mine", "queues": "1", "perm": "rw"}),
                         ("/topic/delete", {"topic": "orders"}),
                         ("/config/set", {"servers": "brokers", "key": "fileReservedTime",
                                          "value": "1"})]:  # fmt: skip
        asked = console.ask(path, **fields)
        done = console.say_yes(path, asked) if asked.status_code == 200 else asked
        assert done.status_code in (403, 422), path
        assert "no matched policies" in text_of(done.text), path
    with Cluster(broker.namesrv, account=ADMIN) as cluster:
        assert "mine" not in cluster.topics()
        assert "orders" in cluster.topics()


def test_two_browsers_are_two_accounts(console: Browser) -> None:
    logged_in(console, ADMIN)
    other = logged_in(Browser(console.base), ALICE)
    for _ in range(3):
        assert console.get("/messages", topic="secret").status_code == 200
        assert other.get("/messages", topic="secret").status_code != 200
    other.close()


def test_users_and_what_they_may_do(console: Browser, broker: BrokerProcess) -> None:
    logged_in(console, ADMIN)
    made = console.change("/account/create", user="bob", password="builder-1", is_super="")
    assert "User bob was made on" in made
    assert "bob Normal enable" in text_of(console.get("/accounts").text)
    put = {"user": "bob", "resource": "Topic:orders", "actions": ["Pub", "Sub"],
           "sources": "10.0.0.0/8", "decision": "Allow"}  # fmt: skip
    said = console.change("/acl/put", **put)
    assert "bob Topic:orders Pub, Sub 10.0.0.0/8 Allow" in said
    for bad in ({"resource": "orders"}, {"actions": []}, {"sources": "somewhere"}):
        assert console.ask("/acl/put", **{**put, **bad}).status_code == 422, bad
    console.change("/acl/delete", user="bob", resource="Topic:orders", kind="Custom")
    asked = console.ask(
        "/account/update", user="bob", password="another-1", type="keep", status="disable"
    )
    assert "another-1" not in asked.text
    console.say_yes("/account/update", asked)
    assert "bob Normal disable" in text_of(console.get("/accounts").text)
    other = Browser(console.base)
    assert other.log_in("bob", "another-1").status_code == 403
    console.change("/account/update", user="bob", password="", type="keep", status="enable")
    assert other.log_in("bob", "another-1").status_code == 303
    assert "User bob was deleted" in console.change("/account/delete", user="bob")
    assert other.get("/").headers["location"].startswith("/login")  # the session has ended
    other.close()


def test_an_account_changes_its_own_password_and_logs_in_again(
    console: Browser, broker: BrokerProcess
) -> None:
    logged_in(console, ADMIN)
    console.change("/account/create", user="carol", password="first-one", is_super="yes")
    other = logged_in(Browser(console.base), Credentials("carol", "first-one"))
    asked = other.ask(
        "/account/update", user="carol", password="second-one", type="keep", status="keep"
    )
    assert other.say_yes("/account/update", asked).status_code == 303
    assert other.get("/").headers["location"].startswith("/login")
    logged_in(other, Credentials("carol", "second-one"))
    assert other.get("/").status_code == 200
    other.close()


def test_passwords_are_in_no_log_and_changes_are(tmp_path: Path, broker: BrokerProcess) -> None:
    with console_process(tmp_path, broker.namesrv) as console:
        browser = console.browser
        browser.log_in("admin", "wrong one")
        browser.log_in("eve\n2026-01-01 INFO rmq.console: admin", "wrong one")
        logged_in(browser, ADMIN)
        browser.change("/account/create", user="dora", password="dora-secret", is_super="")
        browser.change("/topic/create", topic="logged", queues="1", perm="rw")
        page = browser.get("/")
        for _ in range(3):
            browser.post("/topic/delete", {"topic": "logged", "csrf": "0" * 64})
        browser.post("/logout", {"csrf": browser.token_of(page)})
        alice = logged_in(browser, ALICE)
        assert alice.get("/messages", topic="secret").status_code in (403, 422)
        asked = alice.ask("/topic/delete", topic="orders")
        assert alice.say_yes("/topic/delete", asked).status_code == 403
        log = console.log()
    assert "admin from 127.0.0.1: Topic logged was created" in log
    assert "admin from 127.0.0.1: User dora was made" in log
    assert "admin from 127.0.0.1: login\n" in log
    assert "admin from 127.0.0.1: logout\n" in log
    assert "nobody from 127.0.0.1: login as 'admin' failed: There is no such account" in log
    assert log.count("admin from 127.0.0.1: refused /topic/delete: The form is of another") == 1
    assert "alice from 127.0.0.1: /topic/delete failed: " in log
    assert "alice from 127.0.0.1: refused /topic/delete: User:alice has no permission" in log
    assert not [line for line in log.splitlines() if line.startswith("2026-01-01 INFO")]
    for secret in ("top secret", "wrong one", "dora-secret"):
        assert secret not in log


def test_an_account_of_the_console_itself_is_nobody_elses(
    tmp_path: Path, broker: BrokerProcess
) -> None:
    """A console with an account of its own does not let users without an account use it. With a
    password file, those who know the password do use it."""
    given = {"RMQ_ACCESS_KEY": "admin", "RMQ_SECRET_KEY": "top secret"}
    with console_process(tmp_path, broker.namesrv, environment=given) as console:
        assert console.browser.get("/topics").status_code == 303
        logged_in(console.browser, ALICE)
        assert console.browser.get("/messages", topic="secret").status_code != 200
    password = tmp_path / "password"
    password.write_text("for operators\n")
    with console_process(
        tmp_path, broker.namesrv, "--password-file", str(password), "--read-only", environment=given
    ) as console:  # fmt: skip
        assert console.browser.log_in("", "for operators").status_code == 303
        assert console.browser.get("/messages", topic="secret").status_code == 200
        assert console.browser.ask("/topic/delete", topic="secret").status_code == 403


def test_a_secured_cluster_is_shown_by_tls(tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        tls = {name: text for name, text in secured.settings.items() if name.startswith("RMQ_TLS")}
        settings = json.loads((secured.folder / "admin.json").read_text())
        with console_process(tmp_path, secured.broker.namesrv, environment=tls) as console:
            browser = console.browser
            assert browser.get("/").status_code == 303
            logged_in(browser, Credentials(settings["username"], settings["password"]))
            assert re.search("broker-a .* running", text_of(browser.get("/").text))
            created = browser.change("/topic/create", topic="by-tls", queues="1", perm="rw")
            assert "was created" in created
            assert "SEND_OK" in browser.change("/topic/send", topic="by-tls", body="x")
