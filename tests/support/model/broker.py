"""Model broker: a broker process that a test asks over one connection, kills, stops and restarts.

    broker = ModelBroker(tmp_path, clock)
    broker.ask(30, topic="t", queueId=0).fields["offset"]
    broker.kill(); broker.start()

The test drives its clock, so that delayed messages come when the test lets time pass. It uses bare
frames without a client: thousands of requests a second, each answered before the next.
"""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

from support.broker_process import start_broker
from support.driven_clock import DrivenClock
from support.model.queues import go_by, now_ms
from support.shard import Client, pull, request, send

from rmq.format import fastjson
from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import Command

READER = "model-reader"
OPTIONS = {
    "mappedFileSizeCommitLog": 4 << 20,
    "mappedFileSizeConsumeQueue": 20 * 300,
    "messageDelayLevel": "2s 1s",  # the default begins with 1s 5s
    "flushConsumerOffsetInterval": 200,
    "transactionTimeOut": 3_600_000,  # no check backs: the model ends its transactions itself
    "transactionCheckInterval": 3_600_000,
}


class ModelBroker:
    def __init__(self, directory: Path, clock: DrivenClock) -> None:
        self.clock = clock
        go_by(clock)
        self._directory = directory
        self._opaques = itertools.count(1)
        self.starts = 0
        self.start()

    def start(self) -> None:
        options = [f"{name}={value}" for name, value in OPTIONS.items()]
        set_all = [part for option in options for part in ("--set", option)]
        self._process = start_broker(self._directory, set_all, self.clock.environment)
        self.client = Client(self._process.port)
        self.up_since_ms = now_ms()
        self.starts += 1

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        assert self._end(signal.SIGTERM) == 0, self._process.log()

    def _end(self, number: int) -> int:
        code = self._process.stop(number)
        self.client.close()
        assert self._process.process.stdout is not None
        self._process.process.stdout.close()
        return code

    @property
    def store(self) -> Path:
        return self._process.store

    def log(self) -> str:
        return self._process.log()

    # ---- requests

    def ask(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        opaque = next(self._opaques)
        reply = self.client.ask(request(code, opaque, body, **fields))
        assert reply.opaque == opaque
        return reply

    def done(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        """Sends a request that must be answered with success."""
        reply = self.ask(code, body, **fields)
        assert reply.code == 0, (code, fields, reply.code, reply.remark)
        return reply

    def number(self, code: int, name: str = "offset", **fields: Any) -> int:
        return int(self.done(code, **fields).fields[name])

    def send(self, topic: str, body: bytes, queue: int = 0, **fields: Any) -> Command:
        return self.client.ask(send(topic, body, next(self._opaques), queue, **fields))

    def post_sends(self, sends: list[tuple[str, bytes, int, str]]) -> list[int]:
        """Sends (topic, body, queue, properties) of each message, all in one piece; returns their
        opaques."""
        opaques = [next(self._opaques) for _ in sends]
        self.client.put(
            *(
                send(topic, body, opaque, queue, i=properties)
                for opaque, (topic, body, queue, properties) in zip(opaques, sends, strict=True)
            )
        )
        return opaques

    def pull(self, group: str, topic: str, queue: int, offset: int, **fields: Any) -> Command:
        """Pulls, with the subscription in the request, so that no heartbeat is needed."""
        how = {"sysFlag": 4, "subscription": "*", "expressionType": "TAG", **fields}
        return self.client.ask(pull(group, topic, offset, next(self._opaques), queue=queue, **how))

    def read(self, topic: str, queue: int, begin: int, end: int) -> list[StoredMessage]:
        """Reads all messages of a range of a queue."""
        found: list[StoredMessage] = []
        while begin + len(found) < end:
            reply = self.pull(READER, topic, queue, begin + len(found))
            assert reply.code == 0, (topic, queue, begin, end, len(found), reply)
            found += decode_messages(reply.body)
        return found[: end - begin]

    def json(self, code: int, **fields: Any) -> Any:
        return fastjson.loads(self.done(code, **fields).body)

    def held_pull(self, topic: str, queue: int, offset: int, tag: str) -> HeldPull:
        return HeldPull(self, topic, queue, offset, tag)


class HeldPull:
    """A pull that is held at the end of a queue, and a send after it on the same connection."""

    def __init__(self, broker: ModelBroker, topic: str, queue: int, offset: int, tag: str) -> None:
        self._broker = broker
        self._opaque = next(broker._opaques)
        self._early: Command | None = None
        frame = pull(
            READER, topic, offset, self._opaque, hold_ms=20_000, queue=queue, sysFlag=6,
            subscription=tag, expressionType="TAG",
        )  # fmt: skip
        broker.client.put(frame)

    def send(self, topic: str, body: bytes, queue: int, properties: str) -> Command:
        (opaque,) = self._broker.post_sends([(topic, body, queue, properties)])
        replies = self._broker.client.replies(2)
        self._early = replies[self._opaque]
        return replies[opaque]

    def found(self) -> Command:
        assert self._early is not None
        return self._early
