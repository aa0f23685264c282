"""Lasting load: producers and consumers of one shard, which reconnect whenever it is gone.

    async with LastingLoad(port, ledger) as load: ...      # lasts through kills, stops, restarts
    load.acks, load.refused, load.times

Every acknowledged or consumed message goes into the ledger at once. The ledger raises if a message
breaks an earlier promise; the first such failure ends the load and the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter

from support.ack_history import COMMIT, GROUP, IDENTITY, SUSPEND, WITH_SUBSCRIPTION
from support.broker_client import BrokerClient
from support.calm_clock import calm_seconds
from support.compact_ack_history import CompactAckHistory, Queue

from rmq.format.message import decode_messages
from rmq.format.remoting import Command

TOPICS = (("load-a", 4), ("load-b", 2), ("load-c", 1))
QUEUES: list[Queue] = [(topic, number) for topic, count in TOPICS for number in range(count)]
PRODUCERS = 2
BURST = 8  # sends of a producer that are under way at once
SPRINT = 24  # the same during a sprint
IN_FLIGHT_MAX = PRODUCERS * SPRINT
PAUSE_S = 0.05
ANSWER_S = 15.0  # a shard that stands still is replaced much sooner
SIZES = (0, 30, 200, 200, 700, 3000)

_sessions = itertools.count(1)


class LastingLoad:
    """The load on one shard, on the test's loop."""

    def __init__(self, port: int, ledger: CompactAckHistory) -> None:
        self.port, self.ledger = port, ledger
        self.random = random.Random(port)
        self.acks = 0
        self.refused: Counter[tuple[int, str]] = Counter()
        self.times: list[tuple[float, float]] = []  # (answered at, seconds it took)
        self.calm: list[float] = []  # answered at, by calm_clock.py
        self.sprint = False  # without pauses, so that sends are under way at any moment
        self.at = dict.fromkeys(QUEUES, 0)  # the offset that the consumers pull next
        self.failure: AssertionError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._over = False

    async def __aenter__(self) -> LastingLoad:
        self._tasks = [asyncio.create_task(self._produce(n)) for n in range(PRODUCERS)]
        self._tasks.append(asyncio.create_task(self._consume()))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        for task in self._tasks:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), ANSWER_S + 5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    # ---- producers

    async def _produce(self, number: int) -> None:
        after = dict.fromkeys(QUEUES, -1)  # the last offset this producer knows of
        while not self._over and self.failure is None:
            with contextlib.suppress(OSError, EOFError):
                client = BrokerClient(self.port, f"load@{number}", serialize_type=number % 2)
                async with client:
                    await self._send_bursts(client, next(_sessions), number, after)
            await asyncio.sleep(0.02)

    async def _send_bursts(
        self, client: BrokerClient, session: int, number: int, after: dict[Queue, int]
    ) -> None:
        sequence = itertools.count()
        while not self._over and not client.is_ended:
            waiting = []
            for _ in range(SPRINT if self.sprint else self.random.randint(1, BURST)):
                queue = self.random.choice(QUEUES)
                extra = self.random.randbytes(self.random.choice(SIZES))
                body = IDENTITY.pack(session, number, next(sequence)) + extra
                opaque = client.post_send(queue[0], body, queue[1])
                waiting.append((opaque, queue, body, after[queue], time.monotonic()))
            lost: ConnectionError | None = None
            for opaque, queue, body, earlier, began in waiting:
                try:
                    reply = await client.reply_or_end(opaque, ANSWER_S)
                except ConnectionError as error:
                    lost = error  # later sends may have been answered
                    continue
                self._answered(queue, body, earlier, began, reply)
                if reply.code == 0:
                    after[queue] = max(after[queue], int(reply.fields["queueOffset"]))
            if lost is not None:
                raise lost
            if not self.sprint:
                await asyncio.sleep(PAUSE_S * self.random.uniform(0.5, 1.5))

    def _answered(
        self, queue: Queue, body: bytes, earlier: int, began: float, reply: Command
    ) -> None:
        if reply.code != 0:
            self.refused[reply.code, reply.remark or ""] += 1
            return
        now = time.monotonic()
        self.times.append((now, now - began))
        self.calm.append(calm_seconds())
        self.acks += 1
        try:
            self.ledger.ack(*queue, int(reply.fields["queueOffset"]), body, earlier)
        except AssertionError as error:
            self.failure = self.failure or error

    # ---- consumers

    async def _consume(self) -> None:
        while not self._over and self.failure is None:
            with contextlib.suppress(OSError, EOFError):
                async with BrokerClient(self.port, "watch@1") as client:
                    await asyncio.gather(*(self._watch(client, queue) for queue in QUEUES))
            await asyncio.sleep(0.02)

    async def _watch(self, client: BrokerClient, queue: Queue) -> None:
        at = self.at
        while not self._over and not client.is_ended:
            fields = {
                "consumerGroup": GROUP, "topic": queue[0], "queueId": queue[1],
                "queueOffset": at[queue], "commitOffset": at[queue], "maxMsgNums": 32,
                "sysFlag": COMMIT | SUSPEND | WITH_SUBSCRIPTION, "suspendTimeoutMillis": 1000,
                "subVersion": 1, "subscription": "*", "expressionType": "TAG",
            }  # fmt: skip
            reply = await client.reply_or_end(client.post(11, **fields), ANSWER_S)
            if reply.code != 0:
                await asyncio.sleep(0.02)
                continue
            for message in decode_messages(reply.body):
                try:
                    self.ledger.see(*queue, message.queue_offset, message.body)
                except AssertionError as error:
                    self.failure = self.failure or error
                at[queue] = message.queue_offset + 1
