"""The list of name servers from a file or an address server, also while it cannot be read."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmq.base import clock
from rmq.client.connection.name_servers import FIRST_AGAIN_S, READ_AGAIN_S, NameServerSource
from rmq.client.parameters import ClientParameters
from rmq.errors import UnreachableError


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(clock, "monotonic", lambda: self.now_s)
        monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.fixture(name="time")
def _time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class AddressServer:
    """Answers each request with the present `answer`, and counts the requests."""

    def __init__(self, listener: socket.socket) -> None:
        self.answer = b""
        self.asked = 0
        self._listener = listener
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/nsaddr"

    def run(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                link.recv(4096)
                self.asked += 1
                link.sendall(self.answer)

    def lists(self, text: str) -> None:
        self.answer = f"HTTP/1.0 200 OK\r\n\r\n{text}".encode()


@contextmanager
def address_server() -> Iterator[AddressServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = AddressServer(listener)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def warnings(caplog: pytest.LogCaptureFixture) -> int:
    return sum(each.levelno == logging.WARNING for each in caplog.records)


BAD = [b"HTTP/1.0 503 Service Unavailable\r\n\r\n", b"", b"what?\r\n\r\n",
       b"HTTP/1.0 200 OK\r\n\r\n\n", b"HTTP/1.0 200 OK\r\n\r\nnone here"]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_an_address_server_that_fails_is_asked_again_after_two_minutes(
    time: Clock, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with address_server() as server:
        source = NameServerSource(ClientParameters(namesrv_http=server.url))
        server.lists("a:1")
        assert source.addresses() == ["a:1"]
        server.answer = bad
        for minutes in range(3):
            time.now_s += READ_AGAIN_S
            for _ in range(5):
                assert source.addresses() == ["a:1"]
            assert server.asked == minutes + 2
        assert warnings(caplog) == 1
        server.lists("b:1;c:1")
        time.now_s += READ_AGAIN_S - 1
        assert source.addresses() == ["a:1"]
        time.now_s += 1
        assert source.addresses() == ["b:1", "c:1"]


@pytest.mark.parametrize("bad", BAD)
def test_one_that_never_gave_a_list_is_asked_again_after_ten_seconds(
    time: Clock, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with address_server() as server:
        source = NameServerSource(ClientParameters(namesrv_http=server.url))
        server.answer = bad
        for tens in range(3):
            for _ in range(5):
                with pytest.raises(UnreachableError, match="gives no list of name servers: "):
                    source.addresses()
            assert server.asked == tens + 1
            time.now_s += FIRST_AGAIN_S
        assert warnings(caplog) == 1
        server.lists("a:1")
        assert source.addresses() == ["a:1"]


def test_a_file_that_is_gone_leaves_its_list(
    time: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "list"
    path.write_text("a:1\n")
    source = NameServerSource(ClientParameters(namesrv_file=str(path)))
    assert source.addresses() == ["a:1"]
    path.unlink()
    time.now_s += READ_AGAIN_S
    assert source.addresses() == source.addresses() == ["a:1"]
    assert warnings(caplog) == 1
