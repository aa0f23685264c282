"""RocketMQ's own tests of TLS, TlsIT, TlsMixIT and TlsMix2IT of 5.5.0: a producer and a consumer,
one or both with TLS, at a name server and three brokers without any TLS settings.

Method: the classes as Maven has them compiled (rocketmq-test, its jar of tests), run by JUnit. The
class by which they start servers is replaced (apache_tests/): it gives them those of the target.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.runner import HERE, NEW_CLIENT, java_command, scenarios_jar
from compat.targets import Target, make_target
from support.waiting import HANG_S

from tools.peers.cache import apache_jars, fetch_dependencies

PROJECT = HERE / "apache_tests"
NAMES = ["broker-a", "broker-a-1", "broker-a-2"]
# What Java prints for each finished TLS handshake (javax.net.debug).
SHAKEN = "Consuming server Finished handshake message"


@pytest.fixture(scope="module")
def three_brokers(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    brokers = make_target(kind, tmp_path_factory.mktemp("three"), shards=len(NAMES))
    brokers.start()
    yield brokers
    brokers.stop()


@pytest.mark.parametrize("name", ["TlsIT", "TlsMixIT", "TlsMix2IT"])
def test_it_passes(name: str, three_brokers: Target, tmp_path: Path) -> None:
    (tmp_path / "rmq.logback.xml").write_text("<configuration/>\n")
    own = fetch_dependencies(
        f"apache-tests-{NEW_CLIENT}", PROJECT / "pom.xml", {"rocketmq.version": NEW_CLIENT}
    )
    class_path = [tmp_path, scenarios_jar(tmp_path, PROJECT), own / "*", apache_jars() / "*"]
    properties = {
        "user.home": tmp_path,
        "rocketmq.client.logRoot": tmp_path / "logs",
        "rmq.nameServer": three_brokers.name_server,
        "rmq.brokers": " ".join(NAMES),
        "javax.net.debug": "ssl:handshake",
    }
    command = java_command("org.junit.runner.JUnitCore", class_path, properties)
    done = subprocess.run(
        [*command, f"org.apache.rocketmq.test.tls.{name}"], cwd=tmp_path, capture_output=True,
        text=True, timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 0 and "OK (1 test)" in done.stdout, done.stdout[-5000:]
    assert done.stderr.count(SHAKEN) >= 2, "name server and broker by TLS"
