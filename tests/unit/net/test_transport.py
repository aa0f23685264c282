"""A transport between socket and protocol: handshake, wants of the other direction, pending bytes.

The transport is a toy (cext/testing/toy_transport.pxd) that wants the same of the reactor as TLS.
"""

from __future__ import annotations

import socket
import time

from cext.testing.toy_transport import states
from support.driven import TIMEOUT_S, Driven
from support.shard import readable

MIB = 1 << 20
DATA, HELLO, WELCOME, ASK, ANSWER, PING, PONG, BYE = range(1, 9)


def record(kind: int, payload: bytes = b"") -> bytes:
    return bytes([kind]) + len(payload).to_bytes(2, "big") + bytes(byte ^ 0x5A for byte in payload)


class Peer:
    """The other side of a toy transport."""

    def __init__(self, driven: Driven, port: int, receive_buffer: int = 0) -> None:
        self.driven = driven
        self.socket = driven.connect(port, receive_buffer)
        self.raw = b""
        self.plain = b""
        self.kinds: list[int] = []
        self.answers = True

    def put(self, kind: int, payload: bytes = b"") -> None:
        self.socket.setblocking(True)
        self.socket.sendall(record(kind, payload))
        self.socket.setblocking(False)

    def hear(self) -> None:
        """Reads what is there now. A question is answered at once if `answers` is set."""
        while readable(self.socket.fileno(), 0):
            piece = self.socket.recv(65536)
            if not piece:
                self.kinds.append(0)
                return
            self.raw += piece
            while len(self.raw) >= 3:
                end = 3 + int.from_bytes(self.raw[1:3], "big")
                if len(self.raw) < end:
                    break
                kind, payload, self.raw = self.raw[0], self.raw[3:end], self.raw[end:]
                self.plain += bytes(byte ^ 0x5A for byte in payload)
                if kind != DATA:
                    self.kinds.append(kind)
                if kind == ASK and self.answers:
                    self.put(ANSWER)

    def until(self, *kinds: int) -> None:
        def there() -> bool:
            self.hear()
            return self.kinds == list(kinds)

        self.driven.until(there)

    def expect(self, plain: bytes) -> None:
        def there() -> bool:
            self.hear()
            return len(self.plain) >= len(plain)

        self.driven.until(there)
        assert self.plain == plain
        self.plain = b""

    def greet(self) -> None:
        self.put(HELLO)
        self.until(WELCOME)
        self.kinds.clear()


def test_nothing_is_said_before_the_handshake_is_over() -> None:
    before = states()
    with Driven() as driven:
        port, echo = driven.listen(toy=True)
        peer = Peer(driven, port)
        peer.put(HELLO)
        peer.put(DATA, b"one\n")  # this line comes with the handshake, and must not be lost
        peer.expect(b"1:one\n")
        assert peer.kinds == [WELCOME]
        assert states() == before + 1
        peer.put(DATA, b"quit\n")
        peer.until(WELCOME, BYE, 0)
        assert (states(), echo.closed) == (before, 1)


def test_a_handshake_comes_byte_by_byte_and_a_wrong_one_closes() -> None:
    with Driven() as driven:
        port, echo = driven.listen(toy=True)
        peer = Peer(driven, port)
        for byte in record(HELLO):
            peer.socket.sendall(bytes([byte]))
            driven.reactor.turn(10)
        peer.until(WELCOME)
        wrong = Peer(driven, port)
        wrong.put(DATA, b"one\n")
        wrong.until(BYE, 0)
        assert (echo.lines, driven.reactor.connections()) == (0, 1)


def test_a_handshake_goes_on_behind_all_that_a_turn_takes() -> None:
    """The next poll reports other sockets again, but a socket in a handshake only once."""
    with Driven(connections_max=256, reply_buffers=256) as driven:
        port, echo = driven.listen()
        crowd = [driven.connect(port) for _ in range(200)]
        toy_port, _ = driven.listen(toy=True)
        peer = Peer(driven, toy_port)
        for each in crowd:  # the first receive of a new connection is small
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB)
            each.send(b"\n")
        driven.until(lambda: echo.lines == len(crowd))
        lines = (b"x" * 32767 + b"\n") * 2  # 12 MiB in all; a turn takes 8
        assert [each.send(lines) for each in crowd] == [len(lines)] * len(crowd)
        peer.put(HELLO)
        driven.reactor.turn(10)
        assert echo.lines < 3 * len(crowd)
        driven.until(lambda: echo.lines == 3 * len(crowd))
        peer.until(WELCOME)


def test_pending_bytes_are_received_without_a_readable_socket() -> None:
    with Driven() as driven:
        port, echo = driven.listen(toy=True)
        peer = Peer(driven, port)
        peer.greet()
        text = b"".join(b"line %d\n" % at for at in range(50))
        peer.put(DATA, text)  # one record, of which each receive gives 7 bytes
        began = time.monotonic()
        while echo.lines < 50:
            assert time.monotonic() - began < TIMEOUT_S
            driven.reactor.turn(60_000)  # a poll that slept would return too late
        peer.expect(b"".join(b"%d:line %d\n" % (at + 1, at) for at in range(50)))


def test_a_receive_waits_until_it_may_write() -> None:
    with Driven() as driven:
        port, _ = driven.listen(toy=True)
        peer = Peer(driven, port)
        peer.greet()
        peer.socket.sendall(record(DATA, b"one\n") + record(PING) + record(DATA, b"two\n"))
        peer.expect(b"1:one\n2:two\n")
        assert peer.kinds == [PONG]


def test_a_send_waits_until_it_has_heard() -> None:
    with Driven() as driven:
        port, echo = driven.listen(toy=True)
        peer = Peer(driven, port)
        peer.greet()
        peer.answers = False
        line = b"x" * 900 + b"\n"
        for _ in range(5):
            peer.put(DATA, line)
        driven.until(lambda: (peer.hear(), ASK in peer.kinds)[1])
        for _ in range(20):
            driven.reactor.turn()
        peer.hear()
        assert len(peer.plain) < 5 * len(line)  # the transport asked before, and got no answer
        peer.answers = True
        peer.put(DATA, b"end\n")  # bytes that come before the answer are not lost
        peer.put(ANSWER)
        peer.expect(b"".join(b"%d:%b" % (at + 1, line) for at in range(5)) + b"6:end\n")
        assert echo.lines == 6


def test_output_of_several_pieces_goes_on_where_a_send_stopped() -> None:
    """The answer to a long line comes from the heap, those to the next two from a reply buffer: one
    send takes all of them."""
    with Driven() as driven:
        port, _ = driven.listen(toy=True)
        peer = Peer(driven, port)
        peer.greet()
        for number in range(1, 10, 3):
            line = b"x" * 46_993 + b"\n"
            text = line + b"b\nc\n"
            peer.socket.setblocking(True)
            for at in range(0, len(text), 5000):
                peer.socket.sendall(record(DATA, text[at : at + 5000]))
            peer.socket.setblocking(False)
            peer.expect(b"%d:%b%d:b\n%d:c\n" % (number, line, number + 1, number + 2))
        assert driven.reactor.in_use() == (0, 0, 0, 0)


def test_plain_and_toy_connections_live_side_by_side_and_idle_state_is_freed() -> None:
    before = states()
    with Driven() as driven:
        plain, _ = driven.listen()
        toy, _ = driven.listen(toy=True)
        peer, client = Peer(driven, toy), driven.connect(plain)
        peer.greet()
        client.sendall(b"plain\n")
        peer.put(DATA, b"toy\n")
        assert driven.receive(client, 8) == b"1:plain\n"
        peer.expect(b"1:toy\n")
        assert states() == before + 1
        peer.socket.shutdown(socket.SHUT_WR)
        driven.until(lambda: driven.reactor.connections() == 1)
        assert states() == before


def test_a_full_turn_keeps_its_place_between_pending_connections() -> None:
    with Driven() as driven:
        port, echo = driven.listen(toy=True)
        peers = [Peer(driven, port) for _ in range(4)]
        for peer in peers:
            peer.greet()
        echo.lines_per_turn = 1
        for peer in peers:
            peer.put(DATA, b"a\nb\nc\nd\ne\nf\ng\n")
        for peer in peers:
            peer.expect(b"".join(b"%d:%c\n" % (at + 1, 97 + at) for at in range(7)))
