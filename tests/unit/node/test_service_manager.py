"""Goal: systemd hears that a server is ready, lives and stops, and hears nothing of one that stands
still. Method: its socket. Cannot prove: what systemd does then."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import broker_process
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import HANG_S, until

from rmq.node import service_manager


class Manager:
    """The socket that a service tells."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(HANG_S)

    def heard(self) -> str:
        return self.socket.recv(1000).decode()

    def all_heard(self) -> list[str]:
        """What is there by now."""
        self.socket.setblocking(False)
        found = []
        try:
            while True:
                found.append(self.heard())
        except BlockingIOError:
            return found


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(made.path))
    with made.socket:
        yield made


@pytest.mark.parametrize("options", [[], ["--shards", "2"]], ids=["one", "two shards"])
def test_a_broker_says_that_it_is_ready_lives_and_stops(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with broker_process(tmp_path / "b", options) as broker:
        heard = [manager.heard()]
        while heard[-2:] != ["WATCHDOG=1"] * 2 or "READY=1" not in heard:
            heard.append(manager.heard())
        assert heard.count("READY=1") == 1
        broker.process.send_signal(signal.SIGTERM)
        while heard[-1] != "STOPPING=1":
            heard.append(manager.heard())
        assert broker.process.wait(HANG_S) == 0
        assert manager.all_heard() == []


@pytest.mark.still_clock
@in_loop
async def test_one_that_stands_still_says_nothing(
    clock: DrivenClock, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    turns = [1]
    looks = []
    task = service_manager.watched(lambda: looks.append(turns[0]) or turns[0])
    assert task is not None
    for turn, is_heard in ((1, True), (1, False), (1, False), (2, True), (2, False)):
        turns[0], count = turn, len(looks)
        if looks:
            clock.advance(30.1)
        await until(lambda count=count: len(looks) > count, still=True)
        await asyncio.sleep(0)
        found = manager.all_heard()
        assert found == ["WATCHDOG=1"] * is_heard, (turn, found)
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
    assert service_manager.watchdog_s() == 0.5


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
