"""Bus socket: a ZeroMQ socket on an asyncio loop, by callback, without a task for each frame.

    socket = BusSocket(context, zmq.DEALER, on_frames)
    socket.raw.connect("ipc://..")
    socket.open()                       from now on on_frames(frames) is called for what arrives
    socket.send([b"..", b".."])         False when the peer's queue is full: it never waits

ZeroMQ's descriptor signals an edge ("something changed"), not a level, and a send may swallow the
edge of a frame that has arrived. So after each event of the descriptor and after each send the
socket is read until nothing is left, a bounded number of frames per turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec
import zmq

log = logging.getLogger("rmq.bus")

FRAMES_A_TURN = 64
QUEUE_FRAMES = 10_000  # of one peer that does not read; then frames to it are dropped


class Traffic(msgspec.Struct):
    """What went through a socket, in whole messages."""

    sent: int = 0
    received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


class BusSocket:
    """Owned by the loop that opens it."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        kind: int,
        take: Callable[[list[bytes]], None],
    ) -> None:
        self.raw: zmq.Socket[bytes] = context.socket(kind)
        self.raw.setsockopt(zmq.LINGER, 0)
        self.raw.setsockopt(zmq.SNDHWM, QUEUE_FRAMES)
        self.raw.setsockopt(zmq.RCVHWM, QUEUE_FRAMES)
        self._take = take
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive_scheduled = False
        self.traffic = Traffic()

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.raw.FD, self._receive)
        self._schedule_receive()

    def close(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self.raw.FD)
            self._loop = None
        self.raw.close()

    def send(self, frames: list[bytes]) -> bool:
        try:
            self.raw.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:  # Again: its queue is full; EHOSTUNREACH: it is gone
            log.debug("a frame is dropped: %s", error)
            return False
        finally:
            self._schedule_receive()
        self.traffic.sent += 1
        self.traffic.bytes_sent += sum(map(len, frames))
        return True

    def _schedule_receive(self) -> None:
        if self._loop is not None and not self._receive_scheduled:
            self._receive_scheduled = True
            self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        self._receive_scheduled = False
        for _ in range(FRAMES_A_TURN):
            if self._loop is None:  # the callback has closed this socket
                return
            try:
                frames = self.raw.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.traffic.received += 1
            self.traffic.bytes_received += sum(map(len, frames))
            try:
                self._take(frames)
            except Exception:
                log.exception("a frame of the bus could not be handled")
        self._schedule_receive()
