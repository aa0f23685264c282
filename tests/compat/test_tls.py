"""TLS with official clients: Java 5.5.0 and 4.9.8, mqadmin, and the master of Go's, whose last
release (v2.1.2) knows none.

Method: a broker and name server that serve nobody without TLS, and some that nobody told anything
about TLS (as RocketMQ's TlsIT and TlsMixIT have them); the clients' own scenarios. They trust every
certificate (tls.test.mode.enable; Go's can do nothing else). That Java's refuse a wrong one, and
accounts by TLS: test_setup_security.py, test_accounts.py, test_mqadmin.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
from compat.conftest import JAVA_CLIENTS, java_clients
from compat.runner import (
    GO_MASTER,
    NEW_CLIENT,
    ScenarioFailed,
    ScenarioRunner,
    go_runner,
    java_runner,
)
from compat.targets import RmqTarget
from support.broker_process import broker_process
from support.certificates import Authority

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
    """With a certificate of its own, and plain clients beside those by TLS."""
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
    """It is let in where servers only ask for one; plain clients are served in both cases."""
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
