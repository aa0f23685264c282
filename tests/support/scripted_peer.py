"""Scripted peer: a stand-in for a broker or name server that answers from a table of functions.

    with ScriptedPeer({105: lambda request: request.reply(17, "no route")}) as peer:
        Connection(peer.address).ask(105)

A function gets the Command and returns a Command, bytes to send as they are, or None for no answer.
All requests are kept in `peer.requests`. With a `context` the peer speaks TLS.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping

from rmq.format import remoting
from rmq.format.remoting import Command

Answer = Callable[[Command], "Command | bytes | None"]


class ScriptedPeer:
    def __init__(
        self, answers: Mapping[int, Answer], context: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        """port: that of an earlier peer, or 0 for a free one."""
        self.answers = dict(answers)
        self.requests: list[Command] = []
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ScriptedPeer:
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown as well: after close alone, the thread inside accept() would still hold the port
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # with TLS, of the socket below it
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._sockets.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _secured(self, peer: socket.socket) -> socket.socket:
        if self._context is None:
            return peer
        found = self._context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
        self._sockets.append(found)
        found.do_handshake()
        return found

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._answer(self._secured(peer))

    def _answer(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:  # fewer: the client has gone, as below
                length = int.from_bytes(head, "big")
                if len(frame := stream.read(length)) < length:
                    return  # the client has gone in the middle of a request
                request = remoting.decode(frame)
                self.requests.append(request)
                answer = self.answers[request.code](request)
                if isinstance(answer, Command):
                    answer = remoting.encode(answer)
                if answer is not None and not request.is_oneway:
                    peer.sendall(answer)
