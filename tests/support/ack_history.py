"""Ack history: what a broker has promised its clients, and the check that it kept its promises.

    journal = AckHistory()
    async with Load(port, journal, round=1): await until(lambda: len(journal.acked) > 100)
    ... kill -9 in there ...
    ... restart ...
    await journal.check(port)

Producers note every acknowledged message, and watchers every message that they were given. Both are
promises: an acknowledged message is never lost, and an offset that was seen never means another
message. Bodies carry (round, producer, sequence), so that a wrong order and duplicates show.
"""

import asyncio
import hashlib
import random
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from support.broker_client import BrokerClient
from support.waiting import until

from rmq.format.message import StoredMessage, decode_messages
from rmq.format.remoting import Command

SEND_BATCH, PULL, MAX_OFFSET, MIN_OFFSET = 320, 11, 30, 31
COMMIT, SUSPEND, WITH_SUBSCRIPTION = 1, 2, 4
IDENTITY = struct.Struct(">III")
GROUP = "journal"


class Place(NamedTuple):
    topic: str
    queue_id: int
    offset: int


class Promise(NamedTuple):
    digest: bytes
    physical_offset: int  # -1: not known


def digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).digest()


def batch_entry(body: bytes) -> bytes:
    return struct.pack(">iIIii", 22 + len(body), 0, 0, 0, len(body)) + body + bytes(2)


@dataclass
class AckHistory:
    acked: dict[Place, Promise] = field(default_factory=dict)
    seen: dict[Place, Promise] = field(default_factory=dict)
    where: dict[bytes, Place] = field(default_factory=dict)  # digest -> its only place
    refused: list[Command] = field(default_factory=list)
    checked: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def copy(self) -> "AckHistory":
        """A copy of its present state. It shares the promises, which never change."""
        return AckHistory(dict(self.acked), dict(self.seen), dict(self.where), list(self.refused),
                          defaultdict(int, self.checked))  # fmt: skip

    def ack(self, topic: str, bodies: list[bytes], reply: Command) -> None:
        if reply.code != 0:
            self.refused.append(reply)
            return
        first = int(reply.fields["queueOffset"])
        ids = reply.fields["msgId"].split(",")
        assert len(ids) == len(bodies), f"{len(bodies)} messages got the ids {ids}"
        for number, (body, message_id) in enumerate(zip(bodies, ids, strict=True)):
            place = Place(topic, int(reply.fields["queueId"]), first + number)
            assert place not in self.acked, f"{place} was given to two messages"
            self.acked[place] = Promise(digest(body), int(message_id[-16:], 16))
            self.see(place, self.acked[place])

    def see(self, place: Place, promise: Promise) -> None:
        known = self.seen.setdefault(place, promise)
        assert known == promise, f"{place} was {known}, is now {promise}"
        home = self.where.setdefault(promise.digest, place)
        assert home == place, f"one message stands at {home} and at {place}"

    def see_message(self, message: StoredMessage) -> None:
        place = Place(message.topic, message.queue_id, message.queue_offset)
        self.see(place, Promise(digest(message.body), message.physical_offset))

    def forget_before_this(self) -> None:
        """The next check() begins behind the messages seen so far, not where the queues begin."""
        for place in self.seen:
            queue = place.topic, place.queue_id
            self.checked[queue] = max(self.checked[queue], place.offset + 1)

    async def check(self, port: int, whole: bool = False) -> int:
        """Reads and checks what has not been checked yet, or everything if `whole`. Returns the
        number of messages that it has read."""
        if whole:
            self.checked.clear()
        promised: dict[tuple[str, int], set[int]] = defaultdict(set)
        for place in self.seen:
            promised[place.topic, place.queue_id].add(place.offset)
        total = 0
        async with BrokerClient(port, "checker@1") as client:
            for (topic, queue_id), offsets in promised.items():
                begin = self.checked[topic, queue_id]
                found = await read_queue(client, topic, queue_id, begin)
                for message in found:
                    self.see_message(message)
                read = {message.queue_offset for message in found}
                lost = sorted(
                    offset for offset in offsets if offset >= begin and offset not in read
                )
                assert not lost, f"{topic}/{queue_id}: lost {len(lost)} from {lost[0]} on"
                check_order(found)
                total += len(found)
        return total


async def read_queue(
    client: BrokerClient, topic: str, queue_id: int, begin: int
) -> list[StoredMessage]:
    """Reads all messages from `begin` on. Their offsets must have no gaps."""
    end = int((await client.call(MAX_OFFSET, topic=topic, queueId=queue_id)).fields["offset"])
    first = int((await client.call(MIN_OFFSET, topic=topic, queueId=queue_id)).fields["offset"])
    assert first == 0, f"{topic}/{queue_id} begins at {first}: nothing was to be deleted"
    messages: list[StoredMessage] = []
    at = begin
    while at < end:
        reply = await client.pull(GROUP, topic, queue_id, at, sysFlag=WITH_SUBSCRIPTION,
                                  subscription="*", expressionType="TAG")  # fmt: skip
        assert reply.code == 0, f"{topic}/{queue_id} at {at} of {end}: {reply.code} {reply.remark}"
        for message in decode_messages(reply.body):
            assert (message.topic, message.queue_id, message.queue_offset) == (topic, queue_id, at)
            messages.append(message)
            at += 1
    assert at == end
    return messages


def check_order(messages: list[StoredMessage]) -> None:
    """Each producer's messages must be in the order in which it sent them, and the order in the log
    must be that of the queue."""
    for before, after in pairwise(messages):
        assert before.physical_offset < after.physical_offset
        assert before.store_timestamp_ms <= after.store_timestamp_ms
    latest: dict[tuple[int, int], int] = {}
    for message in messages:
        sent_in, producer, sequence = IDENTITY.unpack_from(message.body)
        assert latest.get((sent_in, producer), -1) < sequence, f"{message.queue_offset} overtook"
        latest[sent_in, producer] = sequence


class Load:
    """Producers and watchers that use a broker until the block ends or the broker is gone."""

    TOPICS = (("load-a", 4), ("load-b", 2), ("load-c", 1))
    WINDOW = 24

    def __init__(
        self, port: int, journal: AckHistory, round: int, producers: int = 5, pace_s: float = 0
    ) -> None:
        """pace_s: pause of a producer between two sends, for tests that need only some load."""
        self.port, self.journal, self.round, self.pace_s = port, journal, round, pace_s
        self.random = random.Random(round)
        self.clients = [
            BrokerClient(port, f"load@{number}", serialize_type=number % 2)
            for number in range(producers + 1)
        ]
        self.tasks: list[asyncio.Task[None]] = []
        self.failures: list[BaseException] = []
        self.over = False
        self.waiting = 0  # sends without an answer yet

    async def __aenter__(self) -> "Load":
        for client in self.clients:
            await client.__aenter__()
        *producers, watcher = self.clients
        for number, (topic, _) in enumerate(self.TOPICS):
            # Sends that are under way while their topic is made may be stored in another order.
            first = self.body(len(producers), number)
            self.journal.ack(topic, [first], await watcher.send(topic, first))
        self.tasks = [
            asyncio.create_task(self.produce(client, number))
            for number, client in enumerate(producers)
        ]
        self.tasks += [
            asyncio.create_task(self.watch(watcher, topic, queue_id))
            for topic, queues in self.TOPICS for queue_id in range(queues)
        ]  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the load, also after the broker was killed. All answers that have come are noted."""
        self.over = True  # a cancellation may get lost in wait_for (before Python 3.12)
        for task in self.tasks:
            task.cancel()
        results = await asyncio.gather(*self.tasks, return_exceptions=True)
        await until(
            lambda: self.waiting == 0 or all(client.is_ended for client in self.clients),
            still=True, log=lambda: f"{self.waiting} sends got no answer",
        )  # fmt: skip
        await asyncio.sleep(0)  # the last callbacks
        for client in self.clients:
            await client.__aexit__()
        self.failures += [error for error in results if isinstance(error, AssertionError)]
        assert not self.failures, self.failures[0]

    def body(self, producer: int, sequence: int) -> bytes:
        size = self.random.choice((0, 30, 200, 200, 700, 3000))
        return IDENTITY.pack(self.round, producer, sequence) + self.random.randbytes(size)

    async def produce(self, client: BrokerClient, producer: int) -> None:
        room = asyncio.Semaphore(self.WINDOW)
        sequence = 0
        while not self.over:
            if self.pace_s:
                await asyncio.sleep(self.pace_s)
            await room.acquire()
            topic, queues = self.random.choice(self.TOPICS)
            queue_id = self.random.randrange(queues)
            count = self.random.choice((1, 1, 1, 1, 5))
            bodies = [self.body(producer, sequence + number) for number in range(count)]
            sequence += count
            self.waiting += 1
            if count == 1:
                opaque = client.post_send(topic, bodies[0], queue_id)
            else:
                opaque = client.post_send(
                    topic, b"".join(map(batch_entry, bodies)), queue_id, m=True
                )
            client.on_reply(
                opaque, lambda reply, t=topic, b=bodies: self.replied(room, t, b, reply)
            )

    def replied(
        self, room: asyncio.Semaphore, topic: str, bodies: list[bytes], reply: Command
    ) -> None:
        room.release()
        self.waiting -= 1
        try:
            self.journal.ack(topic, bodies, reply)
        except AssertionError as error:
            self.failures.append(error)

    async def watch(self, client: BrokerClient, topic: str, queue_id: int) -> None:
        """A consumer at the end of a queue. A message that it was given must never change."""
        at = self.journal.checked[topic, queue_id]
        while not self.over:
            reply = await client.pull(
                GROUP, topic, queue_id, at, hold_ms=2000, commitOffset=at,
                sysFlag=COMMIT | SUSPEND | WITH_SUBSCRIPTION, subscription="*",
                expressionType="TAG",
            )  # fmt: skip
            if reply.code == 0:
                for message in decode_messages(reply.body):
                    self.journal.see_message(message)
                    at = message.queue_offset + 1
            else:
                await asyncio.sleep(0.02)  # the queue does not exist yet, or has nothing new
