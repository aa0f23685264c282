"""TLS client: a client that sends single requests over TLS, or plainly.

    with Client(broker.address, trusting(authority)) as client:
        assert client.ask(310, b"x", **SEND).code == 0

REFUSED are the errors of a handshake that fails, or of a client that is refused: in TLS 1.3 a
client learns only with its first read that its certificate is not accepted.
"""

from __future__ import annotations

import socket
import ssl

from support.certificates import Authority
from support.waiting import HANG_S

from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command, encode

SEND = {"a": "P", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
        "i": "", "j": "0", "k": "false"}  # fmt: skip
REFUSED = (ssl.SSLError, EOFError, ConnectionError)


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


class Client:
    """A connection: over TLS with a context, otherwise plain."""

    def __init__(
        self, address: str, context: ssl.SSLContext | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:  # fmt: skip
        self.socket = socket.create_connection(address_of(address), HANG_S)
        self.frames = FrameReader()
        if context is not None:
            self.socket = context.wrap_socket(
                self.socket, server_hostname="localhost", session=session
            )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def put(self, *requests: Command) -> None:
        self.socket.sendall(b"".join(map(encode, requests)))

    def reply(self) -> Command:
        while (found := self.frames.next()) is None:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError
            self.frames.feed(piece)
        return found

    def ask(self, code: int, body: bytes = b"", **fields: str) -> Command:
        self.put(Command(code=code, fields=fields, body=body))
        return self.reply()


def trusting(authority: Authority, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context
