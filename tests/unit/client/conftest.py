"""Fixtures: a real broker for the tests that need one, and another one whose clock a test
drives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import work
from support.driven_clock import DrivenClock, driven_clock, process_clock
from support.forked_commands import forked_broker

from rmq.client.pull import consumer as pull_consumer
from rmq.client.push import process_queue, queue_locks, rebalance, send_back
from rmq.pytest_plugin import RunningBroker

SETTINGS = {
    "transactionTimeOut": "300",
    "transactionCheckInterval": "300",
    "recallMessageEnable": "true",
    # So that no send is refused because a write took long on a busy machine.
    "waitTimeMillsInSendQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}
# While a test waits, a minute of a driven clock passes in three seconds.
DRIVEN_SETTINGS = {**SETTINGS, "waitTimeMillsInSendQueue": "1200000",
                   "osPageCacheBusyTimeOutMills": "1200000"}  # fmt: skip


@pytest.fixture(autouse=True)
def _patient_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers wait long for answers that brokers give only when something is on the disk: a busy
    disk takes longer, and while a test waits, a second of a driven clock passes in 50 ms."""
    monkeypatch.setattr(queue_locks, "TIMEOUT_MS", 600_000)
    monkeypatch.setattr(process_queue, "LOCK_LIVES_S", 3_600.0)
    monkeypatch.setattr(send_back, "TIMEOUT_MS", 600_000)


@pytest.fixture
def told_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers rebalance only when brokers tell them of members, not at their own intervals."""
    monkeypatch.setattr(rebalance, "REBALANCE_MS", 3_600_000)
    monkeypatch.setattr(pull_consumer, "REBALANCE_MS", 3_600_000)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with forked_broker(tmp_path_factory.mktemp("client"), SETTINGS) as broker:
        work.servers.add(broker.process.pid)
        yield broker


@pytest.fixture(scope="module")
def broker_and_clock(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningBroker, DrivenClock]]:
    """A broker and its driven clock, one pair for each file of tests, because a process with a
    driven clock keeps looking at that clock until it ends."""
    directory = tmp_path_factory.mktemp("driven")
    with (
        process_clock(directory) as clock,
        forked_broker(directory, DRIVEN_SETTINGS, clock.environment) as broker,
    ):
        work.servers.add(broker.process.pid)
        yield broker, clock
        work.servers.discard(broker.process.pid)


@pytest.fixture
def broker_clock(broker_and_clock: tuple[RunningBroker, DrivenClock]) -> Iterator[DrivenClock]:
    """The clock of this process and of driven_broker. It must be a test's first argument."""
    with driven_clock(broker_and_clock[1]) as clock:
        yield clock


@pytest.fixture
def driven_broker(
    broker_clock: DrivenClock, broker_and_clock: tuple[RunningBroker, DrivenClock]
) -> RunningBroker:
    """A broker that, while a test waits, does within moments what it must do within an hour
    (support/waiting.py)."""
    return broker_and_clock[0]
