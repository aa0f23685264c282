"""Goal: systemd is told when a server is ready, lives and stops, and is told nothing while a server
stands still. Method: systemd's socket. Not shown here: what systemd does then."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import broker_process
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import HANG_S, until, wait_until

from rmq.node import service_manager


class Manager:
    """The socket to which a service reports. It is read all the time, because it has room for only
    a few words."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: list[str] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while (word := self.socket.recv(1000)) != b"end":
            self.heard.append(word.decode())

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
            peer.sendto(b"end", str(self.path))
        self._reader.join(HANG_S)
        self.socket.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(made.path))
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    yield made
    made.close()


@pytest.mark.parametrize("options", [[], ["--shards", "2"]], ids=["one", "two shards"])
def test_a_broker_says_that_it_is_ready_lives_and_stops(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with broker_process(tmp_path / "b", options) as broker:
        wait_until(lambda: manager.heard.count("READY=1") == 1)
        before = manager.heard.count("WATCHDOG=1")
        wait_until(lambda: manager.heard.count("WATCHDOG=1") > before + 2)
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(HANG_S) == 0
        wait_until(lambda: manager.heard[-1:] == ["STOPPING=1"])
        assert manager.heard.count("READY=1") == manager.heard.count("STOPPING=1") == 1


@pytest.mark.still_clock
@in_loop
async def test_it_is_told_four_times_in_its_time(
    clock: DrivenClock, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    task = service_manager.watched()
    assert task is not None
    for count in range(1, 4):
        await until(lambda count=count: len(manager.heard) == count, still=True)
        clock.advance(15.1)
    task.cancel()


@pytest.mark.still_clock
@in_loop
async def test_of_one_that_is_not_well_it_hears_nothing(
    clock: DrivenClock, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    asked: list[bool] = []

    def is_well() -> bool:
        asked.append(len(asked) in (0, 3))
        return asked[-1]

    task = service_manager.watched(is_well)
    assert task is not None
    for count in range(1, 5):
        await until(lambda count=count: len(asked) == count, still=True)
        clock.advance(15.1)
    await until(lambda: len(manager.heard) == 2, still=True)
    task.cancel()


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"},
     {"WATCHDOG_USEC": "9" * 30}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}],
)  # fmt: skip
def test_who_does_not_ask_is_not_told(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert service_manager.watchdog_s() == 0
    assert service_manager.watched() is None
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert service_manager.watchdog_s() == 0.25


def test_a_manager_that_is_gone_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    with caplog.at_level(logging.WARNING):
        service_manager.tell(service_manager.READY)
    assert "was not told READY=1: " in caplog.text
    monkeypatch.delenv("NOTIFY_SOCKET")
    service_manager.tell(service_manager.READY)


def test_a_socket_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        name = f"rmq-test-{os.getpid()}"
        peer.bind(f"\0{name}")
        peer.settimeout(HANG_S)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        service_manager.tell(service_manager.READY)
        assert peer.recv(100) == b"READY=1"
