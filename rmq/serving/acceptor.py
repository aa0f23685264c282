"""Acceptor: a listening socket on an asyncio loop that does not spin when descriptors run out.

    acceptor = Acceptor(on_socket, "rmq.serving.listener")
    port = await acceptor.open(host, port, backlog)     OSError when the address is taken
    acceptor.close()

When asyncio's own servers have no descriptors left, they log a traceback for each connection that
could wait, and try again at once. This acceptor keeps a spare descriptor: with it, a connection
that cannot be kept is accepted and closed, so that its client need not wait; then it pauses for
PAUSE_S. At most one line per LINE_S is logged about it.

Example: `ulimit -n 64` and 80 idle clients: the last ones are closed, two lines of warning in 20 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable

ACCEPTS_AT_ONCE = 64
PAUSE_S = 0.5
LINE_S = 10.0
_OUT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# The connection ended before it was accepted, or its network path is broken; the next one is fine.
_GONE = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETDOWN, errno.EHOSTUNREACH,
         errno.ENETUNREACH, errno.ENONET, errno.EHOSTDOWN, errno.ENOPROTOOPT)  # fmt: skip


class Acceptor:
    """Owned by one event loop. `on_socket` is given each accepted socket and owns it."""

    def __init__(self, on_socket: Callable[[socket.socket], None], logger: str) -> None:
        self._on_socket = on_socket
        self._log = logging.getLogger(logger)
        self._sockets: list[socket.socket] = []
        self._spare = -1
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._logged_at = float("-inf")
        self.closed_at_once = 0  # connections for which there was no descriptor

    async def open(self, host: str, port: int, backlog: int) -> int:
        """Listens on all addresses of the host; returns the port (0: any free one) of the first."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                listening = socket.socket(family, kind, protocol)
                self._sockets.append(listening)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.setblocking(False)
                if port == 0 and len(self._sockets) > 1:
                    address = (address[0], self._sockets[0].getsockname()[1], *address[2:])
                listening.bind(address)
                listening.listen(backlog)
        except BaseException:
            self.close()
            raise
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for each in self._sockets:
            loop.add_reader(each, self._accept, each)
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    @property
    def port(self) -> int:
        number: int = self._sockets[0].getsockname()[1]
        return number

    def close(self) -> None:
        """Accepts no more connections; a second call does nothing."""
        loop = asyncio.get_running_loop()
        for timer in self._paused.values():
            timer.cancel()
        self._paused.clear()
        for each in self._sockets:
            loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT:
                    self._out(listening, error)
                    return
                if error.errno in _GONE:
                    continue
                raise
            accepted.setblocking(False)
            self._on_socket(accepted)

    def _out(self, listening: socket.socket, error: OSError) -> None:
        """Called when no descriptor is left: closes waiting connections by means of the spare one,
        then pauses."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
            with contextlib.suppress(OSError):
                for _ in range(ACCEPTS_AT_ONCE):
                    listening.accept()[0].close()
                    self.closed_at_once += 1
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._logged_at >= LINE_S:
            self._logged_at = now
            self._log.warning(
                "no connection can be taken: %s; clients are closed (%d so far). Raise the limit "
                "of open files (ulimit -n)", error.strerror, self.closed_at_once,
            )  # fmt: skip
        loop.remove_reader(listening)
        self._paused[listening] = loop.call_later(PAUSE_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if self._paused.pop(listening, None) is not None:
            if self._spare < 0:
                with contextlib.suppress(OSError):
                    self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)
