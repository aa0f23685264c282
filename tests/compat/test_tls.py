"""TLS with official clients: Java 5.5.0 and 4.9.8, mqadmin, and Go's master branch, because
Go's last release (v2.1.2) has no TLS.

Method: a broker and name server that serve nobody without TLS, and some without any TLS settings
(as in RocketMQ's TlsIT and TlsMixIT); the clients' own scenarios. They trust every certificate
(tls.test.mode.enable; Go's can do nothing else), except in the test in which a name server's
certificate is renewed. That Java's clients refuse a wrong one, and accounts with TLS:
test_setup_security.py, test_accounts.py, test_mqadmin.py.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
from compat.armed_broker import believing
from compat.conftest import JAVA_CLIENTS, java_clients
from compat.runner import (
    GO_MASTER,
    NEW_CLIENT,
    Answer,
    ScenarioFailed,
    ScenarioRunner,
    go_runner,
    java_runner,
)
from compat.targets import RmqTarget
from support.broker_process import PATIENT, broker_process
from support.certificates import Authority, Pair, lay
from support.replica_set import Server
from support.tls_client import Client, trusting
from support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.compat

SCENARIOS = [
    "send_sync", "send_async", "send_batch", "pull_statuses", "push_one_consumer",
    "orderly_two_consumers", "size_small_to_1m", "lite_subscribe",
]  # fmt: skip
GO = [
    "send_sync", "send_async", "send_oneway", "send_batch", "send_sizes", "pull_poll",
    "push_three_consumers", "push_orderly",
]  # fmt: skip


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmqTarget]:
    folder = tmp_path_factory.mktemp("tls")
    pair = Authority(folder).pair("server")
    target = RmqTarget(folder / "target", {
        "tls.server.mode": "enforcing", "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key),
    })  # fmt: skip
    with patch.dict(os.environ, {"RMQ_TLS": "1"}):
        target.start()
    yield target
    target.stop()


@pytest.fixture(scope="module")
def untold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmqTarget]:
    """Servers without TLS settings: they have a certificate of their own, and serve clients with
    and without TLS."""
    target = RmqTarget(tmp_path_factory.mktemp("untold"), {})
    target.start()
    yield target
    target.stop()


@pytest.fixture(scope="module")
def java_by_tls(compat_folder: Path) -> Iterator[Callable[[str], ScenarioRunner]]:
    with java_clients(compat_folder / "tls", {"tls.enable": "true"}) as client:
        yield client


@pytest.fixture(scope="module")
def go_by_tls(compat_folder: Path) -> Iterator[ScenarioRunner]:
    runner = go_runner(compat_folder / "go-tls", GO_MASTER, by_tls=True)
    yield runner
    runner.close()


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("client", JAVA_CLIENTS)
def test_java_clients_by_tls(
    client: str, name: str, hidden: RmqTarget, java_by_tls: Callable[[str], ScenarioRunner]
) -> None:
    run = f"tls{client}".replace(".", "").replace("-", "")
    java_by_tls(client).run(name, nameServer=hidden.name_server, broker=hidden.broker, run=run)


@pytest.mark.parametrize("name", ["send_sync", "push_one_consumer"])
@pytest.mark.parametrize("client", JAVA_CLIENTS)
def test_java_clients_by_tls_and_without_share_a_server_that_was_told_nothing(
    client: str, name: str, untold: RmqTarget, java: Callable[[str], ScenarioRunner],
    java_by_tls: Callable[[str], ScenarioRunner],
) -> None:  # fmt: skip
    for kind, runner in (("hidden", java_by_tls(client)), ("plain", java(client))):
        run = f"{kind}{client}".replace(".", "").replace("-", "")
        runner.run(name, nameServer=untold.name_server, broker=untold.broker, run=run)


@pytest.mark.parametrize("name", GO)
def test_the_go_client_by_tls(name: str, hidden: RmqTarget, go_by_tls: ScenarioRunner) -> None:
    go_by_tls.run(name, nameServer=hidden.name_server, broker=hidden.broker, run="tls")


@pytest.mark.parametrize("name", ["send_sync", "push_one_consumer"])
def test_go_clients_by_tls_and_without_share_a_server_that_was_told_nothing(
    name: str, untold: RmqTarget, go: ScenarioRunner, go_by_tls: ScenarioRunner
) -> None:
    for kind, runner in (("hidden", go_by_tls), ("plain", go)):
        runner.run(name, nameServer=untold.name_server, broker=untold.broker, run=kind)


@pytest.mark.parametrize("asked", ["optional", "require"])
def test_the_go_client_shows_no_certificate(
    asked: str, tmp_path: Path, go: ScenarioRunner, go_by_tls: ScenarioRunner
) -> None:
    """It is let in if servers only ask for a certificate. Plain clients are served in both
    cases."""
    authority = Authority(tmp_path)
    ask = {"need.client.auth": asked, "trustCertPath": authority.certificate}
    settings = authority.pair("server").settings("permissive", **ask)
    with broker_process(tmp_path / "asking", settings) as broker:
        given = {"nameServer": broker.namesrv, "broker": broker.address}
        go.run("send_sync", run=f"plain{asked}", **given)
        refused = pytest.raises(ScenarioFailed) if asked == "require" else nullcontext()
        with refused:
            go_by_tls.run("send_sync", run=f"tls{asked}", **given)


def test_mqadmin_by_tls(hidden: RmqTarget, compat_folder: Path) -> None:
    settings = {"rmqcompat.threads": "1", "tls.enable": "true"}
    runner = java_runner(NEW_CLIENT, compat_folder / "tls-mqadmin", "mqadmin", settings)
    try:
        answer = runner.run("mqadmin", nameServer=hidden.name_server, a0="clusterList")
        assert "broker-a" in str(answer["output"])
    finally:
        runner.close()


def test_a_client_without_it_is_served_by_nobody(
    hidden: RmqTarget, java: Callable[[str], ScenarioRunner], go: ScenarioRunner
) -> None:
    for runner in (java("java-5.5.0-json"), go):
        with pytest.raises(ScenarioFailed):
            runner.run(
                "send_sync", nameServer=hidden.name_server, broker=hidden.broker, run="plain"
            )


@pytest.mark.parametrize("client", ["java-5.5.0-json", "java-4.9.8-json"])
def test_no_send_of_java_fails_while_the_name_servers_certificate_is_renewed(
    client: str, tmp_path: Path
) -> None:
    """The broker keeps its certificate. One client stays, others come and go all the time, and they
    believe only this authority: at the end the certificate of another authority is refused."""
    authority = Authority(tmp_path)
    pairs = [authority.pair(f"round-{number}") for number in range(3)]
    used = Pair(tmp_path / "used.pem", tmp_path / "used.key")
    lay(pairs[0], used)
    believed = believing(authority.certificate)
    asks = [word for key, value in believed.items() for word in ("--set", f"{key}={value}")]
    names = Server(tmp_path / "n.txt", "namesrv", *used.settings("enforcing"))
    serves = authority.pair("broker").settings("enforcing")
    broker = Server(
        tmp_path / "b.txt", "broker", "-n", names.address, "--store", str(tmp_path / "store"),
        *PATIENT, *serves, *asks,
    )  # fmt: skip

    def shown() -> str:
        with Client(names.address, trusting(authority)) as comer:
            assert isinstance(comer.socket, ssl.SSLSocket)
            return str(comer.socket.getpeercert())

    patient = {"com.rocketmq.remoting.client.connect.timeout": str(int(HANG_S * 1000))}
    given = {"nameServer": names.address, "run": "renewed"}
    try:
        with java_clients(tmp_path / "java", {**believed, **patient}, given) as started:
            java = started(client)
            load = java.submit("renewal_load", **{"as": "goes_on"})
            renewed = authority.renewed(pairs[-1], "same-key")
            for name, pair in [*((f"round-{at}", each) for at, each in enumerate(pairs)),
                               ("same-key", renewed)]:  # fmt: skip
                lay(pair, used)
                wait_until(lambda name=name: f"'{name}'" in shown())
                until_more_have_come(java, load, "goes_on")
            java.run("renewal_stop", **{"as": "goes_on"})
            assert int(java.result(load, HANG_S)["sent"]) >= 3 * 4
            load = java.submit("renewal_load", **{"as": "refused"})
            until_more_have_come(java, load, "refused")
            (tmp_path / "stranger").mkdir()
            lay(Authority(tmp_path / "stranger").pair("stranger"), used)
            with pytest.raises(ScenarioFailed, match=r"RenewalScenarios\.comes"):
                java.result(load, HANG_S)
    finally:
        for server in (broker, names):
            server.kill()


def until_more_have_come(java: ScenarioRunner, load: Future[Answer], name: str) -> None:
    """Waits until more clients have come since the present certificate is in use."""

    def came() -> int:
        return int(java.run("renewal_came", **{"as": name})["came"])

    before = came()
    wait_until(lambda: load.done() or came() >= before + 3)
    assert not load.done(), load.result()
