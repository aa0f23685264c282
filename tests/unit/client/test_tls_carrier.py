"""The carrier of bytes between a TLS socket and the engine (rmq/client/connection/tls.py)."""

from __future__ import annotations

import fcntl
import resource
import socket
import threading
from collections.abc import Iterator

import pytest
from support.waiting import HANG_S

from rmq.client.connection.tls import carried

MANY = 1500  # more descriptors than select() can handle


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2 * MANY, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def received(end: socket.socket, count: int) -> bytes:
    end.settimeout(HANG_S)
    found = b""
    while len(found) < count:
        piece = end.recv(count - len(found))
        assert piece
        found += piece
    return found


@pytest.mark.usefixtures("many_files")
def test_a_process_with_many_files_is_served() -> None:
    near, far = socket.socketpair()
    peer = socket.socket(fileno=fcntl.fcntl(near.fileno(), fcntl.F_DUPFD_CLOEXEC, MANY))
    near.close()
    with far, carried(peer) as ours:
        assert peer.fileno() >= MANY
        far.sendall(b"in" * 100_000)
        assert received(ours, 200_000) == b"in" * 100_000
        ours.sendall(b"out" * 10_000)
        assert received(far, 30_000) == b"out" * 10_000
        far.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""


@pytest.mark.parametrize("inward", [True, False])
def test_what_came_before_the_end_is_given_to_who_is_slow(inward: bool) -> None:
    """A slow reader must get everything that came before the end. The data are far more than
    sockets hold, so the carrier is ahead of the reader, and still holds some of it when the end
    comes."""
    for count in (1_000_000, 1_500_000, 2_000_000):
        far, near = socket.socketpair()
        ours = carried(near)
        ours.setblocking(True)
        giver, taker = (far, ours) if inward else (ours, far)
        giving = threading.Thread(target=_give, args=(giver, count))
        giving.start()
        taken = 0
        with taker:
            taker.settimeout(HANG_S)
            while piece := taker.recv(1024):
                taken += len(piece)
        giving.join(HANG_S)
        assert taken == count


def _give(end: socket.socket, count: int) -> None:
    with end:
        end.sendall(bytes(count))
