"""One way: a frame to an address, on a connection of its own; nobody answers it.

Example: await send("127.0.0.1:10911", frame, "of its new leader") gives up after a second, with a
line in the log: "127.0.0.1:10911 could not be told of its new leader: connection refused".
"""

import asyncio
import logging

SECONDS_MAX = 1.0  # Apache waits 0.3 s for the write; connecting is included here

_log = logging.getLogger("rmq.serving.one_way")


async def send(address: str, frame: bytes, what: str) -> None:
    """Never raises but when it is cancelled; `what` it was about is for the log."""
    try:
        await asyncio.wait_for(_write(address, frame), SECONDS_MAX)
    except (OSError, ValueError, OverflowError, asyncio.TimeoutError) as error:
        _log.warning("%s could not be told %s: %s", address, what, error or "timeout")


async def _write(address: str, frame: bytes) -> None:
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        writer.write(frame)
        await writer.drain()
    finally:
        writer.close()
