"""The fixtures of mqadmin's tests in two ways: with the servers that most tests share, and with
servers that let in nobody without an account and serve nobody without TLS.

A test file imports them by these names; its tests ask for target, admin, live, java and go. mqadmin
and the clients that stay connected believe only the authority of the secured servers, and sign as
the Super user. Users and their rights: test_accounts.py.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest
from compat.armed_broker import ADMIN, believing, settings_by_tls, started
from compat.conftest import java_clients
from compat.mqadmin import Admin, Live, admin_of, live_clients
from compat.runner import GO_MASTER, ScenarioRunner, go_runner
from compat.targets import Target
from support.certificates import Authority


@pytest.fixture(scope="module", params=["plain", "secured"])
def authority(
    request: pytest.FixtureRequest, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Authority | None:
    """The authority of the servers' certificates; None: the servers are the shared ones."""
    if request.param == "plain":
        return None
    if kind != "rmq":
        pytest.skip("RocketMQ's name server has no accounts")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", name="target")
def target_by_way(
    authority: Authority | None, request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Target]:  # fmt: skip
    if authority is None:
        yield request.getfixturevalue("target")
        return
    told = {
        "RMQ_TLS": "1", "RMQ_TLS_CA": str(authority.certificate),
        "RMQ_ACCESS_KEY": ADMIN["accessKey"], "RMQ_SECRET_KEY": ADMIN["secretKey"],
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("secured")
    settings = settings_by_tls(authority, "server")
    with started(folder, **settings) as secured, patch.dict(os.environ, told):
        yield secured  # `rmq`, with which some tests compare, takes this from the environment


@pytest.fixture(scope="module", name="admin")
def admin_by_way(
    authority: Authority | None, target: Target, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Admin]:
    told, account = (believing(authority.certificate), ADMIN) if authority else ({}, {})
    with admin_of(target, tmp_path_factory.mktemp("mqadmin"), told, account) as run:
        yield run


@pytest.fixture(scope="module", name="java")
def java_by_way(
    authority: Authority | None, request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], ScenarioRunner]]:  # fmt: skip
    if authority is None:
        yield request.getfixturevalue("java")
        return
    told = believing(authority.certificate)
    with java_clients(tmp_path_factory.mktemp("java"), told, ADMIN) as client:
        yield client


@pytest.fixture(scope="module", name="go")
def go_by_way(
    authority: Authority | None, request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ScenarioRunner]:  # fmt: skip
    if authority is None:
        yield request.getfixturevalue("go")
        return
    runner = go_runner(tmp_path_factory.mktemp("go"), GO_MASTER, by_tls=True, given=ADMIN)
    yield runner
    runner.close()


@pytest.fixture(scope="module", name="live")
def live_by_way(
    target: Target, java: Callable[[str], ScenarioRunner], session_id: str, admin: Admin
) -> Iterator[Live]:
    """Live clients with names of their own, because other files have theirs on the shared
    servers."""
    run = session_id + secrets.token_hex(2)
    with live_clients(target, java("java-5.5.0-json"), run, admin) as found:
        yield found
