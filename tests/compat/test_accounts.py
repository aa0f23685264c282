"""Accounts with official clients: Java 5.5.0 and 4.9.8, JSON and binary headers, Go, and mqadmin.

Method: a broker that lets in nobody without an account, and one that also serves nobody without
TLS. The clients of the second one believe only its authority (Go's believes everybody). mqadmin
makes a user, first as Super user, then with entries of its own; the clients' own scenarios run as
that user. Cannot show: the proxy, gRPC.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from compat.armed_broker import ADMIN, believing, settings_by_tls, started
from compat.conftest import JAVA_CLIENTS, java_clients
from compat.mqadmin import BROKER, CLUSTER
from compat.runner import (
    GO_MASTER,
    NEW_CLIENT,
    ScenarioFailed,
    ScenarioRunner,
    go_runner,
    java_runner,
)
from compat.targets import RmqTarget
from support.certificates import Authority
from support.command_line import rmq
from support.waiting import wait_until

pytestmark = pytest.mark.compat

USER = {"accessKey": "fullUser", "secretKey": "wonderland 1"}
LESSER = {"accessKey": "lesser", "secretKey": "wonderland 2"}
JAVA = [
    "send_sync", "send_async", "send_oneway", "send_batch", "send_properties", "send_creates_topic",
    "pull_statuses", "pull_async", "pull_tag_filter", "view_by_id", "search_by_timestamp",
    "push_one_consumer", "push_three_consumers", "orderly_two_consumers", "lite_subscribe",
    "offset_pull_commit", "type_transaction", "trace_send_and_consume",
]  # fmt: skip
GO = [
    "send_sync", "send_async", "send_oneway", "send_batch", "send_properties", "pull_from",
    "push_one_consumer", "push_tag_filter", "push_orderly", "admin_topics", "request_reply",
    "transaction", "trace_send_and_consume",
]  # fmt: skip


@pytest.fixture(scope="module", params=["plain", "tls"])
def authority(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Authority | None:
    """The authority of the servers' certificates; None: everything is plain."""
    is_plain = request.param == "plain"
    return None if is_plain else Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def properties(authority: Authority | None) -> dict[str, str]:
    """Properties of JVMs with clients."""
    return believing(authority.certificate) if authority else {}


@pytest.fixture(scope="module")
def armed(
    authority: Authority | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RmqTarget]:
    settings = settings_by_tls(authority, "armed") if authority else {}
    with started(tmp_path_factory.mktemp("armed"), **settings) as target:
        yield target


@pytest.fixture(scope="module")
def armed_for_go(
    authority: Authority | None, armed: RmqTarget, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RmqTarget]:
    """A broker whose name server answers requests for routes without a signature, because v2.1.2's
    admin client and pull consumer do not sign these; those of Go's master branch do."""
    if authority:
        yield armed
        return
    white = {"authenticationWhitelist": "105"}
    with started(tmp_path_factory.mktemp("armed-go"), **white) as target:
        yield target


@pytest.fixture(scope="module")
def java_client(
    java: Callable[[str], ScenarioRunner], properties: dict[str, str], compat_folder: Path
) -> Iterator[Callable[[str], ScenarioRunner]]:
    if not properties:
        yield java
        return
    with java_clients(compat_folder / "accounts-tls", properties) as client:
        yield client


@pytest.fixture(scope="module")
def go_client(
    go: ScenarioRunner, authority: Authority | None, compat_folder: Path
) -> Iterator[ScenarioRunner]:
    """v2.1.2, or with TLS the client of Go's master branch."""
    if not authority:
        yield go
        return
    runner = go_runner(compat_folder / "accounts-go-tls", GO_MASTER, by_tls=True)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def mqadmin(
    armed: RmqTarget, properties: dict[str, str], compat_folder: Path
) -> Iterator[Callable[..., str]]:
    settings = {"rmqcompat.threads": "1", **properties}
    folder = compat_folder / f"mqadmin-accounts{len(properties)}"
    runner = java_runner(NEW_CLIENT, folder, "mqadmin", settings)

    def run(*words: str, who: dict[str, str] = ADMIN) -> str:
        arguments = {f"a{index}": word for index, word in enumerate(words)}
        answer = runner.run("mqadmin", nameServer=armed.name_server, **who, **arguments)
        return str(answer["output"])

    yield run
    runner.close()


@pytest.fixture(scope="module")
def users(mqadmin: Callable[..., str]) -> None:
    for who, kind in ((USER, "Super"), (LESSER, "Normal")):
        output = mqadmin("createUser", "-c", CLUSTER, "-u", who["accessKey"], "-p",
                         who["secretKey"], "-t", kind)  # fmt: skip
        assert "success" in output, output


def test_mqadmin_makes_changes_and_shows_users(
    mqadmin: Callable[..., str], armed: RmqTarget
) -> None:
    where = ("-b", armed.broker)
    assert "success" in mqadmin("createUser", *where, "-u", "carol", "-p", "one")
    assert "The user is existed" in mqadmin("createUser", *where, "-u", "carol", "-p", "one")
    shown = mqadmin("getUser", *where, "-u", "carol")
    assert [word for word in ("carol", "one", "Normal", "enable") if word not in shown] == []
    assert "success" in mqadmin("updateUser", *where, "-u", "carol", "-s", "disable")
    assert "disable" in mqadmin("getUser", *where, "-u", "carol")
    listed = mqadmin("listUser", *where)
    assert "admin" in listed
    assert "carol" in listed
    assert "carol" not in mqadmin("listUser", *where, "-f", "adm")
    assert "success" in mqadmin("deleteUser", *where, "-u", "carol")
    assert "carol" not in mqadmin("listUser", *where)


def test_mqadmin_makes_changes_and_shows_acls(
    mqadmin: Callable[..., str], armed: RmqTarget, users: None
) -> None:
    where = ("-b", armed.broker)
    subject = ("-s", "User:lesser")
    output = mqadmin("createAcl", *where, *subject, "-r", "Topic:seen,Topic:other*", "-a",
                     "Pub,Sub", "-d", "Allow", "-i", "127.0.0.1,10.0.0.0/8")  # fmt: skip
    assert "success" in output, output
    shown = mqadmin("getAcl", *where, *subject)
    for word in ("User:lesser", "Topic:seen", "Topic:other*", "Pub", "Sub", "Allow", "10.0.0.0/8"):
        assert word in shown, word
    output = mqadmin("updateAcl", *where, *subject, "-r", "Topic:seen", "-a", "Pub", "-d", "Deny")
    assert "success" in output, output
    assert "Deny" in mqadmin("listAcl", *where, "-r", "seen")
    assert "success" in mqadmin("deleteAcl", *where, *subject, "-r", "Topic:seen")
    assert "Topic:seen" not in mqadmin("getAcl", *where, *subject)
    assert "success" in mqadmin("deleteAcl", *where, *subject)
    assert "Topic:other" not in mqadmin("listAcl", *where)
    missing = mqadmin("createAcl", *where, "-s", "User:nobody", "-r", "Topic:t", "-a", "Pub", "-d",
                      "Allow")  # fmt: skip
    assert "The subject of User:nobody is not exist." in missing


@pytest.fixture(scope="module")
def second(
    authority: Authority | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RmqTarget]:
    """Another cluster with the same administrator."""
    settings = settings_by_tls(authority, "second") if authority else {}
    with started(tmp_path_factory.mktemp("second"), **settings) as target:
        yield target


def test_mqadmin_copies_users_and_acls(
    mqadmin: Callable[..., str], armed: RmqTarget, second: RmqTarget
) -> None:
    for name in ("dan", "eve"):
        output = mqadmin("createUser", "-b", armed.broker, "-u", name, "-p", f"of {name}")
        assert "success" in output, output
        output = mqadmin("createAcl", "-b", armed.broker, "-s", f"User:{name}", "-r",
                         f"Topic:{name}s", "-a", "Pub", "-d", "Allow")  # fmt: skip
        assert "success" in output, output
    way = ("-f", armed.broker, "-t", second.broker)
    mqadmin("copyUser", *way, "-u", "dan")
    there = ("-b", second.broker)
    assert "of dan" in mqadmin("getUser", *there, "-u", "dan")
    assert "eve" not in mqadmin("listUser", *there)
    mqadmin("copyUser", *way)
    assert "of eve" in mqadmin("getUser", *there, "-u", "eve")
    mqadmin("copyAcl", *way, "-s", "User:dan")
    assert "Topic:dans" in mqadmin("getAcl", *there, "-s", "User:dan")
    assert "Topic:eves" not in mqadmin("listAcl", *there)
    mqadmin("copyAcl", *way)
    assert "Topic:eves" in mqadmin("listAcl", *there)


def test_mqadmin_without_a_right_is_told_so(
    mqadmin: Callable[..., str], armed: RmqTarget, users: None
) -> None:
    assert "username cannot be null." in mqadmin("brokerStatus", "-b", armed.broker, who={})
    wrong = {**USER, "secretKey": "guessed"}
    assert "check signature failed." in mqadmin("brokerStatus", "-b", armed.broker, who=wrong)
    denied = mqadmin("updateBrokerConfig", "-b", armed.broker, "-k", "fileReservedTime", "-v", "9",
                     who=LESSER)  # fmt: skip
    assert f"has no permission to access Cluster:{CLUSTER}" in denied
    assert "bootTime" in mqadmin("brokerStatus", "-b", armed.broker, who=USER)
    assert BROKER in mqadmin("clusterList", who=USER)


@pytest.fixture(scope="module")
def answers(
    armed: RmqTarget, armed_for_go: RmqTarget, users: None,
    java_client: Callable[[str], ScenarioRunner], go_client: ScenarioRunner,
) -> Callable[[str, str], dict[str, Any]]:  # fmt: skip
    """answers(client, scenario) returns the scenario's result. All scenarios of a client are asked
    for at once, of which four run at a time. Clients come one after the other, because on two cores
    a JVM with TLS takes long to start."""
    asked: dict[tuple[str, str], Future[Any]] = {}

    def ask(client: str) -> None:
        is_go = client == "go"
        runner, server = (go_client, armed_for_go) if is_go else (java_client(client), armed)
        given = {"nameServer": server.name_server, "broker": server.broker,
                 "run": f"acl{client}".replace(".", "").replace("-", ""),
                 **(ADMIN if is_go else USER)}  # fmt: skip
        for name in GO if is_go else JAVA:
            asked[client, name] = runner.submit(name, **given)

    def answer(client: str, name: str) -> dict[str, Any]:
        if (client, name) not in asked:
            ask(client)
        return (go_client if client == "go" else java_client(client)).result(asked[client, name])

    return answer


@pytest.mark.parametrize("name", JAVA)
@pytest.mark.parametrize("client", JAVA_CLIENTS)
def test_java_clients_with_an_account(
    client: str, name: str, answers: Callable[[str, str], dict[str, Any]]
) -> None:
    answers(client, name)


@pytest.mark.parametrize("name", GO)
def test_the_go_client_with_an_account(
    name: str, answers: Callable[[str, str], dict[str, Any]]
) -> None:
    answers("go", name)


@pytest.mark.parametrize("client", [*JAVA_CLIENTS, "go"])
@pytest.mark.parametrize(
    ("who", "text"),
    [({}, "username cannot be null"), ({**USER, "secretKey": "x"}, "check signature failed")],
)
def test_clients_without_one_are_refused(
    client: str, who: dict[str, str], text: str, armed: RmqTarget, users: None,
    java_client: Callable[[str], ScenarioRunner], go_client: ScenarioRunner,
) -> None:  # fmt: skip
    runner = go_client if client == "go" else java_client(client)
    run = f"no{client}{len(who)}".replace(".", "").replace("-", "")
    with pytest.raises(ScenarioFailed) as caught:
        runner.run("send_sync", nameServer=armed.name_server, broker=armed.broker, run=run, **who)
    if client != "go":  # the Go client reports codes without reasons
        assert text in str(caught.value)


def test_a_user_with_entries_of_its_own_uses_these(
    mqadmin: Callable[..., str], armed: RmqTarget, users: None,
    java_client: Callable[[str], ScenarioRunner],
) -> None:  # fmt: skip
    """The user may use the topics and groups of one run; everything of another run is closed to
    it."""
    where, subject = ("-b", armed.broker), ("-s", "User:lesser")
    for resource, actions in (("Topic:mine*", "Pub,Sub,Create,Get"), ("Group:g_mine*", "Sub,Get"),
                              ("Topic:TBW102", "Get")):  # fmt: skip
        entry = ("-r", resource, "-a", actions, "-d", "Allow")
        output = mqadmin("createAcl", *where, *subject, *entry)
        assert "success" in output, output
    runner = java_client("java-5.5.0-json")
    given = {"nameServer": armed.name_server, "broker": armed.broker, **LESSER}
    for name in ("send_sync", "push_one_consumer"):
        runner.run(name, run="mine", **given)
    with pytest.raises(ScenarioFailed, match="User:lesser has no permission"):
        runner.run("send_sync", run="others", **given)


PLAIN_CLIENTS = ["java-4.9.8-json", "java-4.9.8-binary", "java-5.5.0-json"]
PLAIN = """
globalWhiteRemoteAddresses: []
accounts:
  - {accessKey: plainAdmin, secretKey: "12345678", admin: true}
  - accessKey: plainUser
    secretKey: wonderland
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
  - accessKey: tracedUser
    secretKey: wonderland
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [%s]
"""
AUDIT = "audit.log"
PLAIN_ADMIN = {"accessKey": "plainAdmin", "secretKey": "12345678"}


def run_of(client: str) -> str:
    return f"plain{client}".replace(".", "").replace("-", "")


@pytest.fixture(scope="module")
def plain_acl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmqTarget]:
    folder = tmp_path_factory.mktemp("plain-acl")
    path = folder / "plain_acl.yml"
    traced = (f"{run_of(client)}t_trace_send_and_consume_t=PUB|SUB" for client in PLAIN_CLIENTS)
    path.write_text(PLAIN % ", ".join(traced))
    settings = {"aclEnable": "true", "rmqPlainAclPath": str(path),
                "rmqAuditLog": str(folder / AUDIT)}  # fmt: skip
    with as_account(PLAIN_ADMIN):
        target = RmqTarget(folder / "store", settings)
        target.start()
    yield target
    target.stop()


def as_account(who: dict[str, str]) -> AbstractContextManager[Any]:
    """Commands in the block ask as this account."""
    keys = {"RMQ_ACCESS_KEY": who["accessKey"], "RMQ_SECRET_KEY": who["secretKey"]}
    return patch.dict(os.environ, keys)


@pytest.mark.parametrize("client", PLAIN_CLIENTS)
def test_java_clients_with_the_files_of_acl_1(
    client: str, plain_acl: RmqTarget, java: Callable[[str], ScenarioRunner]
) -> None:
    runner, run = java(client), run_of(client)
    given = {"nameServer": plain_acl.name_server, "broker": plain_acl.broker, "run": run}
    for name in ("send_sync", "push_one_consumer", "trace_send_and_consume"):
        runner.run(name, **given, **PLAIN_ADMIN)
    lesser = {"accessKey": "plainUser", "secretKey": "wonderland"}
    with pytest.raises(ScenarioFailed, match="User:plainUser has no permission"):
        # This send makes the topic.
        runner.run("send_sync", **{**given, "run": run + "l"}, **lesser)
    with pytest.raises(ScenarioFailed, match="check signature failed"):
        runner.run("send_sync", **given, **{**lesser, "secretKey": "12345678"})


@pytest.mark.parametrize("client", PLAIN_CLIENTS)
def test_traces_need_no_entry_in_the_files_of_acl_1(
    client: str, plain_acl: RmqTarget, java: Callable[[str], ScenarioRunner]
) -> None:
    """Every topic is closed to this account except its own, which an admin has made."""
    given = {"nameServer": plain_acl.name_server, "broker": plain_acl.broker,
             "run": run_of(client) + "t"}  # fmt: skip
    user = {"accessKey": "tracedUser", "secretKey": "wonderland"}
    maker = {"makerAccessKey": "plainAdmin", "makerSecretKey": "12345678"}
    traced = java(client).run("trace_send_and_consume", **given, **user, **maker)
    asked = ("trace", str(traced["id1"]), "--namesrv", plain_acl.name_server, "--json")

    def kinds() -> list[tuple[str, str]]:
        with as_account(PLAIN_ADMIN):
            shown = rmq(*asked)
        found = json.loads(shown.stdout) if shown.returncode == 0 else []
        return sorted((each["kind"], each["group"]) for each in found)

    def refusals() -> list[str]:
        """Refused sends, from the audit log: a client that traces tells nobody that its sends are
        refused."""
        lines = (plain_acl.store.parents[1] / AUDIT).read_text().splitlines()
        found = [each for each in map(json.loads, lines) if each["verdict"] == "refused"]
        return [each["message"] for each in found
                if each["user"] == "tracedUser" and each["request"].startswith("SEND")]  # fmt: skip

    consumed = ("SubAfter", str(traced["consumerGroup"]))
    wait_until(lambda: len(kinds()) >= 3 or refusals())
    assert refusals() == []
    assert kinds() == [("Pub", str(traced["producerGroup"])), consumed, consumed]
    with as_account(user):
        assert "access Topic:RMQ_SYS_TRACE_TOPIC" in rmq(*asked).stderr, "it is for who looks"
