"""One broker for the client's tests that want a real one; another one for those that want time."""

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
    # No send is refused because a busy machine let a write take its time.
    "waitTimeMillsInSendQueue": "60000",
    "osPageCacheBusyTimeOutMills": "60000",
}
# A minute of a driven clock is three seconds while a test waits.
DRIVEN_SETTINGS = {**SETTINGS, "waitTimeMillsInSendQueue": "1200000",
                   "osPageCacheBusyTimeOutMills": "1200000"}  # fmt: skip


@pytest.fixture(autouse=True)
def _patient_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers answer these when they are on the disk, which on a busy one takes longer; and while a
    test waits, a second of a driven clock is 50 ms."""
    monkeypatch.setattr(queue_locks, "TIMEOUT_MS", 600_000)
    monkeypatch.setattr(process_queue, "LOCK_LIVES_S", 3_600.0)
    monkeypatch.setattr(send_back, "TIMEOUT_MS", 600_000)


@pytest.fixture
def told_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers share queues when brokers tell them who is there, and do not look by themselves."""
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
    """Of one file: whoever goes by a driven clock looks at it again and again, until the end."""
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
    """The clock of this process and of driven_broker. First of a test's arguments."""
    with driven_clock(broker_and_clock[1]) as clock:
        yield clock


@pytest.fixture
def driven_broker(
    broker_clock: DrivenClock, broker_and_clock: tuple[RunningBroker, DrivenClock]
) -> RunningBroker:
    """What it is to do in an hour it does while a test waits (support/waiting.py)."""
    return broker_and_clock[0]
