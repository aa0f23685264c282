"""Raw socket: reads the first bytes of a connection, before a transport is made of it.

Example: await received(accepted, 1, socket.MSG_PEEK) is the first byte, which stays in the socket.
"""

from __future__ import annotations

import asyncio
import socket


async def received(accepted: socket.socket, room: int, flags: int = 0) -> bytes:
    """Waits for some bytes from a non-blocking socket; ConnectionAbortedError at their end."""
    while True:
        try:
            found = accepted.recv(room, flags)
        except BlockingIOError:
            await ready(accepted)
            continue
        if not found:
            raise ConnectionAbortedError
        return found


async def ready(connected: socket.socket, writable: bool = False) -> None:
    """Waits until the socket is readable, or writable."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    if writable:
        loop.add_writer(connected, _wake, waiter)
    else:
        loop.add_reader(connected, _wake, waiter)
    try:
        await waiter
    finally:
        if writable:
            loop.remove_writer(connected)
        else:
            loop.remove_reader(connected)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
