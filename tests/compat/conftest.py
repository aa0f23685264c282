"""Fixtures of the compatibility tests: brokers of the kind under test and processes with clients.

`pytest tests/compat` tests rmq. `pytest tests/compat --target=apache` runs the same tests against
Apache RocketMQ 5.5.0, which shows that a test asks for what clients really get.
Every session has an id of its own, which is part of all names of topics and groups.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from compat.mqadmin import admin, live
from compat.runner import (
    NEW_CLIENT,
    OLD_CLIENT,
    ScenarioRunner,
    go_runner,
    java_runner,
)
from compat.targets import Target, make_target

__all__ = ["admin", "live"]

# name: (version, system properties). Binary headers can only be chosen for a whole JVM.
JAVA_CLIENTS: dict[str, tuple[str, dict[str, str]]] = {
    "java-5.5.0-json": (NEW_CLIENT, {}),
    "java-5.5.0-binary": (
        NEW_CLIENT,
        {"rocketmq.serialize.type": "ROCKETMQ", "rocketmq.message.compressType": "LZ4"},
    ),
    "java-4.9.8-json": (OLD_CLIENT, {}),
    "java-4.9.8-binary": (OLD_CLIENT, {"rocketmq.serialize.type": "ROCKETMQ"}),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.compat)


@pytest.fixture(scope="session")
def kind(pytestconfig: pytest.Config) -> str:
    """Kind of broker under test: "rmq" or "apache"."""
    chosen = pytestconfig.getoption("--target")
    return str(chosen or os.environ.get("RMQ_COMPAT_TARGET", "rmq"))


@pytest.fixture(scope="session")
def session_id() -> str:
    return "c" + secrets.token_hex(3)


@pytest.fixture(scope="session")
def compat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compat")


@pytest.fixture(scope="session")
def target(kind: str, compat_folder: Path) -> Iterator[Target]:
    """The broker that most tests share. It is never restarted."""
    broker = make_target(kind, compat_folder / "shared")
    broker.start()
    yield broker
    broker.stop()


SMALL_SEGMENT_BYTES = 4 * 1024 * 1024


@pytest.fixture(scope="session")
def strict_target(kind: str, compat_folder: Path) -> Iterator[Target]:
    """A broker that creates no topics by itself, and deletes every segment as soon as it is
    full."""
    settings = {
        "autoCreateTopicEnable": "false",
        "mappedFileSizeCommitLog": str(SMALL_SEGMENT_BYTES),
        "maxMessageSize": str(256 * 1024),
        "fileReservedTime": "0",
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
        "cleanResourceInterval": "1000",
        "deleteCommitLogFilesInterval": "1",
    }
    broker = make_target(kind, compat_folder / "strict", settings)
    broker.start()
    yield broker
    broker.stop()


TYPES_SETTINGS = {
    "messageDelayLevel": "1s 2s 1s 2s 3s",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "3000",  # longer than a busy machine delays an answer
    # Apache's broker writes ends down at this interval, and asks again about those not written yet.
    "transactionOpBatchInterval": "100",
    "recallMessageEnable": "true",
}


@pytest.fixture(scope="session")
def types_target(kind: str, compat_folder: Path) -> Iterator[Target]:
    """A broker with short delays, which soon asks about open transactions."""
    broker = make_target(kind, compat_folder / "types", TYPES_SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def filter_target(
    kind: str, compat_folder: Path, request: pytest.FixtureRequest
) -> Iterator[Target]:
    """A broker that filters by SQL92. rmq does so by default, Apache's broker by a setting."""
    if kind == "rmq":
        yield request.getfixturevalue("target")
        return
    broker = make_target(kind, compat_folder / "filters", {"enablePropertyFilter": "true"})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def two_shards(kind: str, compat_folder: Path) -> Iterator[Target]:
    """Two shards of rmq, or a cluster of two Apache brokers, with the short times of
    types_target."""
    brokers = make_target(kind, compat_folder / "two", TYPES_SETTINGS, shards=2)
    brokers.start()
    yield brokers
    brokers.stop()


@pytest.fixture
def private_target(kind: str, tmp_path: Path) -> Iterator[Target]:
    """A broker of the test's own, which the test may end and start again."""
    # By default offsets are written every 5 s, and a test that kills the broker waits that long.
    broker = make_target(kind, tmp_path / "private", {"flushConsumerOffsetInterval": "1000"})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def telling_target(kind: str, tmp_path: Path) -> Iterator[Target]:
    """A broker that tells connected consumers where to go on, as RocketMQ 4 does."""
    broker = make_target(kind, tmp_path / "telling", {"useServerSideResetOffset": "false"})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def typing_target(kind: str, tmp_path: Path) -> Iterator[Target]:
    """Like types_target, but a broker of the test's own, to be ended and started again. Checks
    count towards transactionCheckMax even if there is no producer to hear them."""
    settings = {**TYPES_SETTINGS, "transactionCheckMax": "100", "transactionCheckInterval": "1000"}
    broker = make_target(kind, tmp_path / "typing", settings)
    broker.start()
    yield broker
    broker.stop()


@contextmanager
def java_clients(
    folder: Path, properties: Mapping[str, str], given: Mapping[str, str] | None = None
) -> Iterator[Callable[[str], ScenarioRunner]]:
    """client("java-5.5.0-json") is the JVM with that client, started at first use.

    properties: set in every JVM in addition to those of the client's name; given: arguments of
    all scenarios.
    """
    running: dict[str, ScenarioRunner] = {}

    def client(name: str) -> ScenarioRunner:
        if name not in running:
            version, own = JAVA_CLIENTS[name]
            running[name] = java_runner(version, folder / name, name, {**own, **properties}, given)
        return running[name]

    try:
        yield client
    finally:
        for runner in running.values():
            runner.close()


@pytest.fixture(scope="session")
def java(compat_folder: Path) -> Iterator[Callable[[str], ScenarioRunner]]:
    with java_clients(compat_folder, {}) as client:
        yield client


@pytest.fixture(scope="session")
def go(compat_folder: Path) -> Iterator[ScenarioRunner]:
    runner = go_runner(compat_folder / "go")
    yield runner
    runner.close()
