"""Name server: a name server in the test's event loop, a client for it, and registrations to send.

@in_loop
async def test_x() -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.register(topics={"T": 4, "TBW102": 8})
        reply = await client.call(105, topic="T")
"""

import asyncio
import functools
import json
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from support.waiting import HANG_S

from rmq.base import clock
from rmq.config import load_properties
from rmq.format.remoting import Command, decode, encode
from rmq.namesrv.server import NameServer

DATA_VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs an async test in an event loop of its own, for at most HANG_S by the machine's clock. If
    the test drives a clock (support/driven_clock.py), the loop follows that clock."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            loop = asyncio.get_running_loop()
            if clock.is_driven():
                clock.follow(loop)
            here = asyncio.current_task()
            assert here is not None
            limit = threading.Timer(HANG_S, loop.call_soon_threadsafe, (here.cancel, "too long"))
            limit.start()
            try:
                await test(*args, **kwargs)
            finally:
                limit.cancel()

        asyncio.run(bounded())

    return run


@asynccontextmanager
async def name_server(**settings: object) -> AsyncIterator[NameServer]:
    """A name server on a free port, which keeps nothing on disk unless a setting says so."""
    texts = {"listenPort": "0", "kvConfigPath": "", "configStorePath": ""}
    texts.update({key: str(value).lower() if isinstance(value, bool) else str(value)
                  for key, value in settings.items()})  # fmt: skip
    server = NameServer(load_properties(None, texts, server="namesrv"))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Client:
    """One connection. call() sends a request, with fields as keyword arguments, and waits for its
    reply."""

    def __init__(self, port: int, version: int = 479, serialize_type: int = 0) -> None:
        self.port = port
        self.version = version
        self.serialize_type = serialize_type
        self.opaque = 0
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *ignored: object) -> None:
        self.writer.close()

    def request(self, code: int, body: bytes = b"", flag: int = 0, **fields: object) -> Command:
        self.opaque += 1
        texts = {
            name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in fields.items()
        }
        return Command(
            code=code,
            flag=flag,
            opaque=self.opaque,
            version=self.version,
            serialize_type=self.serialize_type,
            fields=texts,
            body=body,
        )

    async def send(self, request: Command) -> None:
        self.writer.write(encode(request))
        await self.writer.drain()

    async def reply(self) -> Command:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return decode(await self.reader.readexactly(length))

    async def call(self, code: int, body: bytes = b"", **fields: object) -> Command:
        request = self.request(code, body, **fields)
        await self.send(request)
        reply = await self.reply()
        assert reply.is_response
        assert reply.opaque == request.opaque
        return reply

    async def register(
        self,
        topics: Mapping[str, int | dict[str, Any]] | None = None,
        name: str = "broker-a",
        address: str = "10.0.0.1:10911",
        cluster: str = "C",
        broker_id: int = 0,
        body: bytes | None = None,
        data_version: Mapping[str, int] = DATA_VERSION,
        **fields: object,
    ) -> Command:
        if body is None:
            body = registration_body(topics if topics is not None else {"T": 4, "TBW102": 8},
                                     data_version)  # fmt: skip
        header = {
            "brokerName": name,
            "brokerAddr": address,
            "clusterName": cluster,
            "haServerAddr": "10.0.0.1:10912",
            "brokerId": broker_id,
        }
        return await self.call(103, body, **{**header, **fields})

    async def closed_by_peer(self, seconds: float = 60) -> bool:
        """Whether the server closes this connection. Replies that come before are skipped."""
        try:
            while await asyncio.wait_for(self.reader.read(65536), seconds):
                pass
        except asyncio.TimeoutError:
            return False
        except ConnectionError:
            pass
        return True


def topic_config(name: str, queues: int | dict[str, Any]) -> dict[str, Any]:
    """A topic as Java writes it. An int is the number of read queues and of write queues."""
    config: dict[str, Any] = {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    if isinstance(queues, int):
        return {**config, "readQueueNums": queues, "writeQueueNums": queues}
    return {**config, **queues}


def registration_body(
    topics: Mapping[str, int | dict[str, Any]],
    data_version: Mapping[str, int] = DATA_VERSION,
    filter_servers: list[str] | None = None,
    **more: Any,
) -> bytes:
    wrapper = {
        "dataVersion": dict(data_version),
        "topicConfigTable": {name: topic_config(name, queues) for name, queues in topics.items()},
        **more,
    }
    body = {"filterServerList": filter_servers or [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(body, separators=(",", ":")).encode()


def compressed_body(
    lines: list[str],
    data_version: Mapping[str, int] = DATA_VERSION,
    filter_servers: str = "[]",
    queue_maps: list[str] | None = None,
) -> bytes:
    """The stream that brokers send with compressed=true; queue_maps None leaves their part out."""

    def counted(text: str) -> bytes:
        data = text.encode()
        return len(data).to_bytes(4, "big") + data

    plain = counted(json.dumps(dict(data_version))) + len(lines).to_bytes(4, "big")
    plain += b"".join(map(counted, lines)) + counted(filter_servers)
    if queue_maps is not None:
        plain += len(queue_maps).to_bytes(4, "big") + b"".join(map(counted, queue_maps))
    return zlib.compress(plain, 9)
