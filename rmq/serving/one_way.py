"""One way: sends frames to addresses in the background, each on its own connection, unanswered.

    notices = OneWay("of its new leader")
    notices.send("127.0.0.1:10911", frame)
    notices.stop()

A frame that is not sent after a second is given up, with a log line: "127.0.0.1:10911 could not be
told of its new leader: connection refused". At most IN_FLIGHT_MAX are under way at once; further
ones are given up, with a line too.
"""

import asyncio
import logging

from rmq.serving.identity import tls

SECONDS_MAX = 1.0  # Apache waits 0.3 s for the write; connecting is included here
IN_FLIGHT_MAX = 256

_log = logging.getLogger("rmq.serving.one_way")


class OneWay:
    """Owned by one event loop. what: what the frames are about, for log lines."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, address: str, frame: bytes) -> None:
        if len(self._tasks) >= IN_FLIGHT_MAX:
            _log.warning("%s is not told %s: too many are under way", address, self._what)
            return
        task = asyncio.ensure_future(self._send(address, frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _send(self, address: str, frame: bytes) -> None:
        try:
            await asyncio.wait_for(_write(address, frame), SECONDS_MAX)
        except (OSError, ValueError, OverflowError, asyncio.TimeoutError) as error:
            _log.warning("%s could not be told %s: %s", address, self._what, error or "timeout")


async def _write(address: str, frame: bytes) -> None:
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls())
    try:
        writer.write(frame)
        await writer.drain()
    finally:
        writer.close()
