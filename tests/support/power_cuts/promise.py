"""Promise: one kind of promise, with a load that asks for it and a check that it was kept.

    promise = Pops(number=3, seed="..")
    await promise.prepare(client)            makes the topics that it needs
    load(promise, port)                      until the broker is gone
    ... power cut, restart ...
    losses = await promise.check(client)     one line for each broken promise

What was answered must be true afterwards; a request without an answer may have had its effect or
not. Every round uses names of its own, so that a check reads the results of one round.
"""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Hashable
from typing import Any

from support.broker_client import BrokerClient
from support.waiting import HANG_S, until_is

from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import Command

CREATE_TOPIC, MAX_OFFSET, MIN_OFFSET = 17, 30, 31
WITH_SUBSCRIPTION = 4
SUCCESS = 0
PAUSE_S = 0.01  # after a refusal, so that a broker is not asked a thousand times a second


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Promise:
    """The base class of all promises."""

    workers = 2  # connections
    is_of_name_server = False  # connect to the name server, not to the broker

    def __init__(self, number: int, seed: str) -> None:
        self.number = number  # of the round
        self.random = random.Random(f"{seed} {type(self).__name__}")
        self.counter = 0
        self.kept = 0  # answers that promised something

    @property
    def kind(self) -> str:
        return type(self).__name__

    def name(self, what: str) -> str:
        return f"{what}-{self.number}"

    def next(self) -> int:
        self.counter += 1
        return self.counter

    async def prepare(self, client: BrokerClient) -> None:
        """Makes the topics and groups that the load needs."""

    async def step(self, client: BrokerClient, worker: int) -> bool:
        """Asks for something and notes the answer. False: it was refused."""
        raise NotImplementedError

    async def check(self, client: BrokerClient) -> list[str]:
        """Returns a line for each promise that was not kept."""
        raise NotImplementedError


async def load(promise: Promise, port: int) -> None:
    """Makes steps on all connections until these end."""

    async def work(worker: int) -> None:
        try:
            async with BrokerClient(port, f"{promise.kind}@{worker}") as client:
                while True:
                    if not await promise.step(client, worker):
                        await asyncio.sleep(PAUSE_S)
        except ConnectionError:
            pass

    await asyncio.gather(*(work(worker) for worker in range(promise.workers)))


class Register:
    """The values that things may have, each of which one worker at a time sets.

    before the answer               the old value or the new one
    after the answer                the new one
    """

    def __init__(self) -> None:
        self.possible: dict[Hashable, set[Any]] = {}

    def asked(self, thing: Hashable, value: Any) -> None:
        self.possible.setdefault(thing, {None}).add(value)

    def answered(self, thing: Hashable, value: Any) -> None:
        self.possible[thing] = {value}


async def make_topic(client: BrokerClient, topic: str, queues: int = 1) -> None:
    reply = await change_topic(client, topic, queues)
    assert reply.code == SUCCESS, (reply.code, reply.remark)


async def change_topic(client: BrokerClient, topic: str, queues: int) -> Command:
    return await client.call(
        CREATE_TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=queues,
        writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False,
    )  # fmt: skip


def log_offset(sent: Command) -> int:
    """The log offset of a sent message, which is part of its id."""
    return int(sent.fields["msgId"][-16:], 16)


async def all_messages(
    client: BrokerClient, topic: str, queue: int = 0
) -> AsyncIterator[StoredMessage]:
    """The messages of a queue up to its present end; none if there is no such topic."""
    end = await client.call(MAX_OFFSET, topic=topic, queueId=queue)
    at, behind = 0, int(end.fields["offset"]) if end.code == SUCCESS else 0
    while at < behind:
        reply = await client.pull(
            "reader", topic, queue, at, sysFlag=WITH_SUBSCRIPTION, subscription="*",
            expressionType="TAG",
        )  # fmt: skip
        assert reply.code == SUCCESS, f"{topic}/{queue} at {at}: {reply.code} {reply.remark}"
        for message in decode_messages(reply.body):
            assert message.queue_offset == at, f"{topic}/{queue} at {at}: {message.queue_offset}"
            yield message
            at += 1


async def bodies(client: BrokerClient, topic: str, queue: int = 0) -> list[bytes]:
    return [message.body async for message in all_messages(client, topic, queue)]


async def bodies_with(
    client: BrokerClient, topic: str, wanted: set[bytes], timeout_s: float = HANG_S
) -> list[bytes]:
    """Waits until the queue has all of `wanted`, or for timeout_s; returns what it has then."""
    end = time.monotonic() + timeout_s
    return await until_is(
        lambda: bodies(client, topic),
        lambda found: wanted <= set(found) or time.monotonic() > end,
        math.inf,
    )


def some(what: str, items: set[Any] | list[Any]) -> list[str]:
    """One line about these losses, or none if there are no losses."""
    if not items:
        return []
    return [f"{len(items)} {what}: {', '.join(str(each) for each in sorted(items)[:5])}"]
