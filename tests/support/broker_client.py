"""Broker client: requests, replies and the broker's own requests over a real socket, on asyncio.

    async with BrokerClient(port) as client:
        reply = await client.call(30, topic="t", queueId=0)
        notice = await client.asked(40)          # a request of the broker to this client

It knows only RocketMQ's frames and adds nothing, so that tests see what is on the wire.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from support import driven_clock
from support.waiting import HANG_S, POLL_S, first_of, machine_sleep, until

from rmq.codes import FLAG_ONE_WAY
from rmq.format import fastjson
from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import Command, decode, encode, field_texts
from rmq.observe.sample import decode as decode_sample


class BrokerClient:
    """One connection. A request's fields are keyword arguments."""

    def __init__(self, port: int, client_id: str = "test@1", serialize_type: int = 0) -> None:
        self.port = port
        self.client_id = client_id
        self.serialize_type = serialize_type
        self.requests: list[Command] = []  # sent by the broker, not taken by asked() yet
        self._opaques = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Command]] = {}
        self._news = asyncio.Event()
        self._gathered: list[bytes] | None = None

    async def __aenter__(self) -> "BrokerClient":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()

    @property
    def is_ended(self) -> bool:
        """Whether the broker has closed the connection and all that it sent has been read."""
        return self._task.done()

    def post(self, code: int, body: bytes = b"", one_way: bool = False, **fields: Any) -> int:
        """Sends a request; returns its opaque. ConnectionError if the broker has closed."""
        if self._task.done():
            raise ConnectionResetError("the broker has closed the connection")
        opaque = next(self._opaques)
        command = Command(
            code=code, flag=FLAG_ONE_WAY if one_way else 0, opaque=opaque, language="JAVA",
            fields=field_texts(fields), body=body, serialize_type=self.serialize_type,
        )  # fmt: skip
        self._replies[opaque] = asyncio.get_running_loop().create_future()
        self._write(encode(command))
        return opaque

    @contextlib.contextmanager
    def in_one_write(self) -> Iterator[None]:
        """Sends all requests that are posted in the block in one piece, at its end."""
        self._gathered = []
        try:
            yield
        finally:
            frames, self._gathered = self._gathered, None
            self._writer.write(b"".join(frames))

    def _write(self, frame: bytes) -> None:
        if self._gathered is not None:
            self._gathered.append(frame)
        else:
            self._writer.write(frame)

    def on_reply(self, opaque: int, take: Callable[[Command], None]) -> None:
        """Calls `take` with the reply when it comes; never if the connection ends before."""
        self._replies[opaque].add_done_callback(
            lambda future: None if future.cancelled() else take(future.result())
        )

    def has_reply(self, opaque: int) -> bool:
        return self._replies[opaque].done()

    async def reply(self, opaque: int) -> Command:
        """Waits for the reply. ConnectionError if the connection ends before, TimeoutError if the
        reply does not come in time."""
        reply = self._replies[opaque]
        if not reply.done():
            await first_of({reply, self._task})
        if not reply.done():
            if self.is_ended:
                raise ConnectionResetError("the connection has ended")
            raise asyncio.TimeoutError(f"no reply within {HANG_S:.0f} s")
        return reply.result()

    async def reply_or_end(self, opaque: int, timeout_s: float) -> Command:
        """Waits for the reply. ConnectionError if the connection ends before, or if the reply does
        not come in time."""
        reply = self._replies[opaque]
        await asyncio.wait(
            {reply, self._task}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if not reply.done():
            raise ConnectionResetError("the connection has ended" if self.is_ended else "no answer")
        return self._replies.pop(opaque).result()

    async def call(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        return await self.reply(self.post(code, body, **fields))

    async def asked(self, code: int) -> Command:
        """Waits for the broker's next request with this code, and takes it."""
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            for request in self.requests:
                if request.code == code:
                    self.requests.remove(request)
                    return request
            self._news.clear()
            if driven_clock.is_driven():  # lets the time come at which the broker asks
                driven_clock.pass_some_time()
                await machine_sleep(POLL_S)
                continue
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), 1.0)
        raise asyncio.TimeoutError(f"no request {code} within {HANG_S:.0f} s")

    def answer(self, request: Command, code: int = 0, body: bytes = b"") -> None:
        self._writer.write(encode(request.reply(code, body=body)))

    # ---- requests that many tests need

    def post_send(self, topic: str, body: bytes = b"x", queue: int = 0, **fields: Any) -> int:
        short = {
            "a": "P", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1, "h": 0,
            "i": "", "j": 0, "k": False, **fields,
        }  # fmt: skip
        return self.post(310, body, **short)

    async def send(self, topic: str, body: bytes = b"x", queue: int = 0, **fields: Any) -> Command:
        return await self.reply(self.post_send(topic, body, queue, **fields))

    async def heartbeat(self, group: str, *topics: str, model: str = "CLUSTERING") -> Command:
        data = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [
                {"topic": topic, "subString": "*", "subVersion": 1} for topic in topics
            ],
        }
        body = {"clientID": self.client_id, "consumerDataSet": [data], "producerDataSet": []}
        return await self.call(34, fastjson.dumps(body))

    async def pull(
        self, group: str, topic: str, queue: int = 0, offset: int = 0, hold_ms: int = 0,
        **fields: Any,
    ) -> Command:  # fmt: skip
        request = {
            "consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset,
            "maxMsgNums": 32, "sysFlag": 2 if hold_ms else 0, "commitOffset": 0,
            "suspendTimeoutMillis": hold_ms, "subVersion": 1, **fields,
        }  # fmt: skip
        return await self.call(11, **request)

    async def pulled(self, group: str, topic: str, **place: Any) -> list[StoredMessage]:
        reply = await self.pull(group, topic, **place)
        return list(decode_messages(reply.body)) if reply.code == 0 else []

    async def until_held(self, count: int = 1) -> None:
        """Waits until `count` pulls and pops are held at the broker, of all clients together."""

        async def are_held() -> bool:
            reply = await self.call(28, rmqDetail="true", brief="true")
            sample = decode_sample(fastjson.loads_object(reply.body)["table"]["rmqSample"])
            return sample.counters["pulls_waiting"] >= count

        await until(are_held, still=True)

    async def _read(self) -> None:
        """Takes all frames that have come at once. A wake-up for each would take most of a test's
        time."""
        data = bytearray()
        while some := await self._reader.read(1 << 16):
            data += some
            at = 0
            while (body := at + 4) <= len(data):
                end = body + int.from_bytes(data[at:body], "big")
                if end > len(data):
                    break
                self._take(decode(bytes(data[body:end])))
                at = end
            del data[:at]

    def _take(self, command: Command) -> None:
        if command.is_response:
            waiting = self._replies.get(command.opaque)
            if waiting is not None and not waiting.done():
                waiting.set_result(command)
        else:
            self.requests.append(command)
        self._news.set()
