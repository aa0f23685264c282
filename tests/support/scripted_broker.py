"""Scripted broker: a small broker whose answers a test chooses, for tests of the load generator.

A thread per connection reads frames with the pure-Python codec and calls `script(command)`, which
returns any number of replies to send now, in any order; None closes the connection. The commands
are kept.

    with ScriptedBroker(lambda command: [command.reply()]) as broker:
        connect(broker.address)
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from rmq.format import remoting

Script = Callable[[remoting.Command], "list[remoting.Command] | None"]


class ScriptedBroker:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.commands: list[remoting.Command] = []
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> "ScriptedBroker":
        return self

    def __exit__(self, *_: object) -> None:
        # shutdown as well: after close alone, the thread inside accept() would still hold the port
        _end(self._listener)
        self._accepting.join()
        for connection in self._connections:
            _end(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while head := stream.read(4):
                command = remoting.decode(stream.read(struct.unpack(">i", head)[0]))
                with self._lock:
                    self.commands.append(command)
                    replies = self.script(command)
                if replies is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                for reply in replies:
                    connection.sendall(remoting.encode(reply))
        except (OSError, ValueError, struct.error):
            return


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
