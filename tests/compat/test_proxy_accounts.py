"""gRPC clients with accounts: the proxy checks the client's account, and the broker the proxy's.

Method: a broker and a name server that let in nobody without an account; the proxy with the files
of docs/proxy.md and a Super user; a user who may send to one topic and consume as one group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from compat.armed_broker import ADMIN, started
from compat.grpc_clients import CLIENTS, GrpcClient, proxy_settings
from compat.runner import ScenarioFailed, ScenarioRunner
from compat.targets import RmqTarget
from support.command_line import rmq
from support.waiting import wait_until

from tools.peers.proxy import ApacheProxy

PROXY, PASSWORD = "proxy", "through the looking-glass"
ALICE = {"accessKey": "alice", "secretKey": "wonderland 3"}
COUNT = 8


def run(target: RmqTarget, *words: str, password: str = "") -> None:
    keys = {"RMQ_ACCESS_KEY": ADMIN["accessKey"], "RMQ_SECRET_KEY": ADMIN["secretKey"]}
    with patch.dict(os.environ, {**keys, "RMQ_NEW_PASSWORD": password}):
        done = rmq(*words, "-n", target.name_server)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def armed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmqTarget]:
    with started(tmp_path_factory.mktemp("armed-proxy")) as target:
        run(target, "user", "create", PROXY, "--super", password=PASSWORD)
        run(target, "user", "create", ALICE["accessKey"], password=ALICE["secretKey"])
        run(target, "acl", "allow", "alice", "Topic:orders*", "--actions", "Pub,Sub")
        run(target, "acl", "allow", "alice", "Group:payers*", "--actions", "Sub")
        for name in CLIENTS:
            run(target, "topic", "create", f"orders-{name.replace('.', '')}")
        run(target, "topic", "create", "secrets")
        yield target


@pytest.fixture(scope="module")
def proxy(armed: RmqTarget, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheProxy]:
    settings = {**proxy_settings(0), **proxy_settings(1)}
    own = settings["innerClientAuthenticationCredentials"].replace("..", PASSWORD)
    settings["innerClientAuthenticationCredentials"] = own
    proxy = ApacheProxy(tmp_path_factory.mktemp("proxy"), armed.name_server, settings)
    proxy.server.start()
    yield proxy
    proxy.server.kill()


@pytest.fixture(params=CLIENTS)
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ScenarioRunner]:
    runner = CLIENTS[request.param](tmp_path)
    yield runner
    runner.close()


def test_a_user_does_what_he_may(
    runner: ScenarioRunner, proxy: ApacheProxy, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["runner"].replace(".", "")
    topic, group = f"orders-{name}", f"payers-{name}"
    alice = GrpcClient(runner, proxy.endpoints, ALICE)
    with alice.simple(topic, group) as receive:
        assert receive() == []  # the group begins at the end
        ids = alice.send(topic, COUNT)
        found: list[str] = []
        wait_until(lambda: found.extend(each.id for each in receive()) or len(found) >= COUNT)
    assert sorted(found) == sorted(ids)
    with pytest.raises(ScenarioFailed, match=r"(?i)no permission"):
        alice.send("secrets", 1)
    for other in ({**ALICE, "secretKey": "guessed"}, {}):
        with pytest.raises(ScenarioFailed, match=r"(?i)authenticat|signature|accesskey|40100"):
            GrpcClient(runner, proxy.endpoints, other).send(topic, 1)
