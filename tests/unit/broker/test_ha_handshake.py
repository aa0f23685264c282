"""The handshake of master and slave over real sockets.

Goal: the bytes are RocketMQ's. Each side takes exactly the other's handshake, in whatever pieces it
comes. Garbage, an end of the connection and silence end the handshake with the reason. Not shown
here: RocketMQ's own brokers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import until

from rmq.broker.replication import ha_handshake
from rmq.broker.replication.epochs import ENTRIES_MAX, Epochs
from rmq.broker.replication.ha_handshake import (
    MasterHandshake,
    SlaveHandshake,
    decode_master,
    decode_slave,
    encode_master,
    encode_slave,
    epoch_bytes,
    handshake_as_master,
    handshake_as_slave,
)
from rmq.broker.replication.ha_socket import HASocket
from rmq.errors import ProtocolError, UnreachableError

pytestmark = pytest.mark.still_clock

EPOCHS = Epochs.of([(1, 0), (3, 4096)])
SLAVE = bytes.fromhex("00000001 0000 0001 0000000000000002")
MASTER = bytes.fromhex(
    "00000001 00000018 0000000000002000 0000000300000001 0000000000000000 00000003 0000000000001000"
)
REPORT = bytes.fromhex("00000002 0000000000001000")


@contextmanager
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listener.getsockname())
    two, _ = listener.accept()
    listener.close()
    for each in (one, two):
        each.setblocking(False)
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with one, two:
        yield one, two


def test_the_bytes_are_those_of_rocketmq() -> None:
    assert encode_slave(SlaveHandshake(2, is_learner=True)) == SLAVE
    # RocketMQ's master reads 1 as yes, and anything else as no.
    assert encode_slave(SlaveHandshake(2, is_rmq=True)).hex() == "00000001000000020000000000000002"
    for one in (SlaveHandshake(2), SlaveHandshake(2, is_rmq=True)):
        assert decode_slave(encode_slave(one)) == one
    assert encode_master(8192, EPOCHS) == MASTER
    assert encode_master(0, Epochs())[:8] == bytes.fromhex("00000001 00000000")


@in_loop
async def test_both_sides_greet() -> None:
    with sockets() as (slave, master):
        answered, found = await asyncio.gather(
            handshake_as_master(HASocket(master), 8192, EPOCHS),
            handshake_as_slave(HASocket(slave), 2, is_learner=True),
        )
        assert answered == SlaveHandshake(2, is_learner=True)
        assert found == MasterHandshake(8192, 3, EPOCHS)


async def in_pieces(sock: socket.socket, peer: socket.socket, pieces: list[bytes]) -> None:
    """Sends each piece when the peer has taken the piece before."""
    loop = asyncio.get_running_loop()
    for piece in pieces:
        await loop.sock_sendall(sock, piece)
        await until(lambda: not _waiting(peer), still=True)


def _waiting(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


@in_loop
async def test_a_master_takes_exactly_the_handshake_wherever_it_is_cut() -> None:
    loop = asyncio.get_running_loop()
    for cut in range(1, len(SLAVE)):
        with sockets() as (slave, master):
            as_master = asyncio.ensure_future(handshake_as_master(HASocket(master), 8192, EPOCHS))
            await in_pieces(slave, master, [SLAVE[:cut]])
            await loop.sock_sendall(slave, SLAVE[cut:] + SLAVE + REPORT)
            assert await as_master == SlaveHandshake(2, is_learner=True)
            assert await loop.sock_recv(slave, 100) == MASTER
            # These bytes are left for the reactor.
            assert await loop.sock_recv(master, 100) == SLAVE + REPORT


@in_loop
async def test_a_slave_takes_exactly_the_handshake_wherever_it_is_cut() -> None:
    loop = asyncio.get_running_loop()
    for cut in range(1, len(MASTER)):
        with sockets() as (slave, master):
            as_slave = asyncio.ensure_future(
                handshake_as_slave(HASocket(slave), 2, is_learner=True)
            )
            assert await loop.sock_recv(master, 100) == SLAVE
            await in_pieces(master, slave, [MASTER[:cut]])
            await loop.sock_sendall(master, MASTER[cut:] + b"log")
            assert await as_slave == MasterHandshake(8192, 3, EPOCHS)
            assert await loop.sock_recv(slave, 100) == b"log"


@in_loop
async def test_byte_by_byte_and_with_as_many_epochs_as_there_may_be() -> None:
    epochs = Epochs.of((each, each * 10) for each in range(ENTRIES_MAX))
    hello = encode_master(1 << 40, epochs)
    assert len(hello) == 20 + 12 * ENTRIES_MAX
    with sockets() as (slave, master):
        as_slave = asyncio.ensure_future(handshake_as_slave(HASocket(slave), 2))
        loop = asyncio.get_running_loop()
        for at in range(len(hello)):
            await loop.sock_sendall(master, hello[at : at + 1])
        assert await as_slave == MasterHandshake(1 << 40, ENTRIES_MAX - 1, epochs)


MASTER_GARBAGE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "the log": bytes.fromhex("00000002") + MASTER[4:],
    "a count that is no multiple": MASTER[:4] + bytes.fromhex("00000017") + MASTER[8:],
    "a negative count": MASTER[:4] + bytes.fromhex("fffffff4") + MASTER[8:],
    "too many": MASTER[:4] + (12 * (ENTRIES_MAX + 1)).to_bytes(4, "big") + MASTER[8:],
    "a negative end": MASTER[:8] + b"\xff" * 8 + MASTER[16:],
    "an epoch below -1": MASTER[:16] + bytes.fromhex("fffffffe") + MASTER[20:],
    "an older epoch than in the list": MASTER[:16] + bytes.fromhex("00000002") + MASTER[20:],
    "epochs that fall": MASTER[:20] + MASTER[32:44] + MASTER[20:32],
    "a negative start": MASTER[:24] + b"\xff" * 8 + MASTER[32:],
}
SLAVE_GARBAGE = {
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "a report without a handshake": REPORT + REPORT,
    "a slave of the other mode": (4096).to_bytes(8, "big") * 2,
    "a flag": SLAVE[:4] + bytes.fromhex("0002") + SLAVE[6:],
    "a learner of 256": SLAVE[:6] + bytes.fromhex("0100") + SLAVE[8:],
    "id 0": SLAVE[:8] + bytes(8),
    "a negative id": SLAVE[:8] + b"\xff" * 8,
}


@pytest.mark.parametrize("garbage", MASTER_GARBAGE.values(), ids=MASTER_GARBAGE)
def test_a_slave_refuses_what_is_no_handshake(garbage: bytes) -> None:
    @in_loop
    async def run() -> None:
        with sockets() as (slave, master):
            await asyncio.get_running_loop().sock_sendall(master, garbage)
            with pytest.raises(ProtocolError, match="the master: "):
                await handshake_as_slave(HASocket(slave), 2)

    run()


@pytest.mark.parametrize("garbage", SLAVE_GARBAGE.values(), ids=SLAVE_GARBAGE)
def test_a_master_refuses_what_is_no_handshake_and_answers_nothing(garbage: bytes) -> None:
    @in_loop
    async def run() -> None:
        with sockets() as (slave, master):
            await asyncio.get_running_loop().sock_sendall(slave, garbage)
            with pytest.raises(ProtocolError, match="the slave: "):
                await handshake_as_master(HASocket(master), 8192, EPOCHS)
            assert _waiting(slave) == b""

    run()


@in_loop
async def test_who_hangs_up_is_unreachable() -> None:
    for sent in (b"", SLAVE[:15]):
        with sockets() as (slave, master):
            slave.send(sent)
            slave.close()
            with pytest.raises(UnreachableError, match="the slave is gone"):
                await handshake_as_master(HASocket(master), 8192, EPOCHS)
    for sent in (b"", MASTER[:19], MASTER[:20], MASTER[:43]):
        with sockets() as (slave, master):
            master.send(sent)
            master.shutdown(socket.SHUT_WR)
            with pytest.raises(UnreachableError, match="the master is gone"):
                await handshake_as_slave(HASocket(slave), 2)


def test_silence_ends_it(clock: DrivenClock) -> None:
    @in_loop
    async def run() -> None:
        with sockets() as (silent_slave, master), sockets() as (slave, silent_master):
            silent_slave.send(SLAVE[:3])
            silent_master.send(MASTER[:20])
            tasks = [
                asyncio.ensure_future(handshake_as_master(HASocket(master), 8192, EPOCHS)),
                asyncio.ensure_future(handshake_as_slave(HASocket(slave), 2)),
            ]
            await until(lambda: not _waiting(master) and not _waiting(slave), still=True)
            clock.advance(ha_handshake.TIMEOUT_S - 5)
            await until(lambda: _waiting(silent_master), still=True)
            assert not any(each.done() for each in tasks)
            clock.advance(5.1)
            for each in tasks:
                with pytest.raises(UnreachableError, match="did not shake hands within 10 s"):
                    await each

    run()


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=20, max_size=20), st.binary())
def test_no_bytes_break_it(slave: bytes, head: bytes, entries: bytes) -> None:
    for hello in (slave, SLAVE[:4] + slave[4:]):
        try:
            assert encode_slave(decode_slave(hello)) == hello
        except ProtocolError:
            continue
    for beginning in (head, MASTER[:8] + head[8:]):
        try:
            epoch_bytes(beginning)
            decode_master(beginning, entries[: len(entries) // 12 * 12])
        except ProtocolError:
            continue
