"""Scripted controller: a controller that answers as a test says, for answers that a real one never
gives; on a real socket.

async with scripted(c1005=LEADS, c1012={"nextBrokerId": 3}, c1001="close") as server:
    ...                                 # server.address, server.asked, server.answers

An answer is a dictionary of fields, a pair of fields and a body, an error code, bytes to send as
they are, "close" or "silence"; or a function of the request that returns one of these. One-way
requests are only noted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rmq.format.remoting import Command, decode, encode

LEADS = {"isLeader": True}


class Scripted:
    """Answers as `answers` says, by request code."""

    def __init__(self) -> None:
        self.address = ""
        self.answers: dict[int, object] = {}
        self.asked: list[Command] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                request = decode(await reader.readexactly(length))
                self.asked.append(request)
                if request.is_oneway:
                    continue
                answer = self.answers.get(request.code)
                if callable(answer):
                    answer = answer(request)
                if answer == "close":
                    break
                if answer == "silence":
                    continue
                writer.write(self._reply(request, answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _reply(self, request: Command, answer: object) -> bytes:
        if isinstance(answer, bytes):
            return answer
        if isinstance(answer, int):
            return encode(request.reply(answer, "no"))
        fields, body = answer if isinstance(answer, tuple) else (answer or {}, b"")
        return encode(request.reply(0, None, fields, body))


@asynccontextmanager
async def scripted(**answers: object) -> AsyncIterator[Scripted]:
    made = Scripted()
    made.answers = {int(key[1:]): value for key, value in answers.items()}
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for writer in made.writers:
            writer.close()
