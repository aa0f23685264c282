"""A stand-in for a broker or name server: answers requests from a table of Python functions.

    with ScriptedPeer({105: lambda request: request.reply(17, "no route")}) as peer:
        Connection(peer.address).ask(105)

A function gets the Command and returns a Command, bytes to send as they are, or None for silence.
Every request is kept in `peer.requests`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping

from rmq.format import remoting
from rmq.format.remoting import Command

Answer = Callable[[Command], "Command | bytes | None"]


class ScriptedPeer:
    def __init__(self, answers: Mapping[int, Answer]) -> None:
        self.answers = dict(answers)
        self.requests: list[Command] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ScriptedPeer:
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown, not close alone: that would leave the thread inside accept() holding the port
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._sockets.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:  # less: the client went away, as below
                length = int.from_bytes(head, "big")
                if len(frame := stream.read(length)) < length:
                    return  # the client went away in the middle of a request
                request = remoting.decode(frame)
                self.requests.append(request)
                answer = self.answers[request.code](request)
                if isinstance(answer, Command):
                    answer = remoting.encode(answer)
                if answer is not None and not request.is_oneway:
                    peer.sendall(answer)
