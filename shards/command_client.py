"""Command client: a command's end of the bus; asks the supervisor of a store, synchronously.

    with CommandClient(Path("/var/rmq")) as bus:
        for shard in bus.ask(Status(), StatusReply).shards:
            print(shard.name, shard.state)

Errors are BusError: no supervisor was ever started on that store, no supervisor answers, or it
answers that the request failed, with the reason.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import zmq

from shards.bus_files import BusDirectory
from shards.messages import (
    BusError,
    HelloCommand,
    M,
    Message,
    Welcome,
    decode,
    encode,
    expect,
)

CONNECT_S = 2.0


class CommandClient:
    """Used by one thread; a context manager."""

    def __init__(self, store: Path, connect_s: float = CONNECT_S) -> None:
        """BusError: no supervisor answers within `connect_s`."""
        self.store = store
        self._directory = BusDirectory(store)
        self._numbers = itertools.count(1)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(self._directory.address("requests"))
        try:
            hello = HelloCommand(self._directory.token(), os.getpid())
            self.ask(hello, Welcome, connect_s)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> CommandClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
        self._context.term()
        self._directory.close()

    def ask(self, message: Message, kind: type[M], timeout_s: float = 5.0) -> M:
        """The answer, which must be of type `kind`."""
        number = next(self._numbers).to_bytes(8, "big")
        self._socket.send_multipart([b"Q" + number, encode(message)])
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            if not self._socket.poll(int(left * 1000) + 1):
                break
            frames = self._socket.recv_multipart()
            if len(frames) == 2 and frames[0] == b"A" + number:
                return expect(decode(frames[1]), kind)
        raise BusError(f"no supervisor answers on {self.store}: is `rmq broker` running there?")
