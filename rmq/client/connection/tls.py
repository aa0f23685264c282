"""TLS of the client: encrypted connections, with a thread between the engine's socket and the peer.

    fd = dial("10.0.0.7", 10911, parameters)      # the engine reads and writes plain frames there

The engine knows no TLS. `dial` connects, makes the handshake with the standard library's ssl, and
returns one end of a socket pair for the engine. A thread moves bytes between the other end and the
peer until one of them closes. This costs one thread for each connection, and copies all bytes twice
more.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading

from rmq.client.parameters import ClientParameters
from rmq.errors import UnreachableError
from rmq.format.client_tls import PARAMETERS, ClientTls

log = logging.getLogger("rmq.client")
PIECE_BYTES = 64 << 10
WAIT_MS = 60_000
_LATER = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


def client_tls(parameters: ClientParameters) -> ClientTls:
    return ClientTls(
        parameters.tls_ca_file, parameters.tls_verify, parameters.tls_cert_file,
        parameters.tls_key_file, parameters.tls_key_password,
    )  # fmt: skip


def dial(host: str, port: int, parameters: ClientParameters) -> int:
    """Connects, and returns a descriptor for Engine.give. UnreachableError: there is no connection.
    A server may refuse the client's certificate only later; the log has the reason then."""
    address = f"{host}:{port}"
    timeout = parameters.mq_client_api_timeout / 1000
    try:
        plain = socket.create_connection((host, port), timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise UnreachableError(f"{address}: cannot connect ({error.strerror or error})") from None
    secured = client_tls(parameters).secured(plain, host, address, PARAMETERS)
    try:
        return carried(secured, address).detach()
    except OSError as error:  # no descriptors are left
        secured.close()
        raise UnreachableError(f"{address}: cannot connect ({error.strerror or error})") from None


def carried(peer: socket.socket, address: str = "") -> socket.socket:
    """Returns the end of a socket pair, without TLS and not blocking, and starts the thread that
    moves bytes between the other end and `peer` until one of them closes. `peer` may also be a
    plain socket, for comparisons."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    peer.setblocking(False)
    thread = threading.Thread(
        target=_move, args=(theirs, peer, address), name="rmq-tls", daemon=True
    )
    thread.start()
    return ours


def _wanted(reads: bool, writes: bool) -> int:
    return (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0)


def _ready(wanted: dict[socket.socket, int], wait_ms: int) -> dict[int, int]:
    """Waits, and returns the events by descriptor. Descriptors may have any number, while select()
    knows only the first 1,024."""
    poll = select.poll()
    for each, events in wanted.items():
        if events:
            poll.register(each, events)
    return dict(poll.poll(wait_ms))


def _move(plain: socket.socket, peer: socket.socket, address: str) -> None:
    """Moves bytes both ways until one side ends. The reason is logged before the engine sees the
    end."""
    with plain, peer:
        try:
            _move_bytes(plain, peer)
        except OSError as error:
            reason = PARAMETERS.refusal(error)
            if reason is not None:
                log.warning("%s: TLS failed (%s)", address, reason)


def _move_bytes(plain: socket.socket, peer: socket.socket) -> None:
    """Moves bytes: `outward` to the peer, `inward` to the engine."""
    outward, inward = bytearray(), bytearray()
    while True:
        has_room = len(inward) < PIECE_BYTES
        held = isinstance(peer, ssl.SSLSocket) and peer.pending() > 0
        plain_wants = _wanted(len(outward) < PIECE_BYTES, bool(inward))
        ready = _ready(
            {plain: plain_wants, peer: _wanted(has_room, bool(outward))},
            0 if has_room and held else WAIT_MS,
        )
        if plain_wants & select.POLLIN and ready.get(plain.fileno(), 0) & ~select.POLLOUT:
            data = plain.recv(PIECE_BYTES)
            if not data:
                _give_rest(peer, outward)
                return
            outward += data
        if has_room:
            try:
                data = peer.recv(PIECE_BYTES)
                if not data:
                    _give_rest(plain, inward)
                    return
                inward += data
            except _LATER:
                pass
        if outward:
            with contextlib.suppress(*_LATER):
                del outward[: peer.send(outward)]
        if inward:
            with contextlib.suppress(BlockingIOError):
                del inward[: plain.send(inward)]


def _give_rest(to: socket.socket, rest: bytearray) -> None:
    """Sends the bytes that came before the end, so that the last answers of a broker that stops
    are not lost."""
    while rest and _ready({to: _wanted(False, True)}, WAIT_MS):
        with contextlib.suppress(*_LATER):
            del rest[: to.send(rest)]
