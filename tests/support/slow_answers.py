"""Slow answers: a proxy that delivers a server's answers late, by the clock of the test's loop.

async with slow_answers(etcd.endpoint) as way:
    way.endpoint; way.late_s = 1.5
    way.asked[b'{"ID":"7587"}']     when requests with that body came, by that clock
    way.is_asking                   whether the server is at work; no clock drives its time
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from rmq.base import clock

CHUNK_BYTES = 64 << 10


class SlowAnswers:
    """A proxy for HTTP, with one request after the other on each connection."""

    def __init__(self, host: str, port: int) -> None:
        self.late_s = 0.0
        self.asked: defaultdict[bytes, list[float]] = defaultdict(list)
        self.endpoint = ""
        self._server = host, port
        self._ways: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.StreamWriter] = set()  # connections that wait for an answer

    @property
    def is_asking(self) -> bool:
        return bool(self._asking)

    async def open(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = "http://{}:{}".format(*server.sockets[0].getsockname())
        return server

    async def _serve(self, asking: asyncio.StreamReader, asker: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ways.add(task)
        try:
            answering, answerer = await asyncio.open_connection(*self._server)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await asyncio.gather(
                    self._pass_questions(asking, answerer),
                    self._pass_answers(answering, answerer, asker),
                )
            answerer.close()
            self._asking.discard(answerer)
        finally:
            self._ways.discard(task)

    async def _pass_questions(
        self, asking: asyncio.StreamReader, answerer: asyncio.StreamWriter
    ) -> None:
        while data := await asking.read(CHUNK_BYTES):
            if body := data.rpartition(b"\r\n\r\n")[2]:  # it comes with the head, or after it
                self.asked[body].append(clock.monotonic())
                self._asking.add(answerer)
            answerer.write(data)
        answerer.write_eof()

    async def _pass_answers(
        self,
        answering: asyncio.StreamReader,
        answerer: asyncio.StreamWriter,
        asker: asyncio.StreamWriter,
    ) -> None:
        waiting = deque[bytes]()  # keeps the order, which timers of the same moment do not have

        def give() -> None:
            if data := waiting.popleft():
                asker.write(data)
            else:
                asker.close()

        while not waiting or waiting[-1]:
            waiting.append(await answering.read(CHUNK_BYTES))  # b"": the end
            self._asking.discard(answerer)
            asyncio.get_running_loop().call_later(self.late_s, give)

    async def close(self) -> None:
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)


@asynccontextmanager
async def slow_answers(endpoint: str) -> AsyncIterator[SlowAnswers]:
    server = urlsplit(endpoint)
    assert server.hostname is not None and server.port is not None
    way = SlowAnswers(server.hostname, server.port)
    listening = await way.open()
    try:
        yield way
    finally:
        listening.close()
        await way.close()
