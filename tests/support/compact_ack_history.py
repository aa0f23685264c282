"""Compact ack history: what one shard has promised over a long time, in eight bytes per message.

    ledger = CompactAckHistory()
    ledger.ack("t", 0, 17, body, after=12)     # offset 17, sent when 12 was acknowledged already
    ledger.see("t", 0, 17, body)               # a consumer was given it
    await ledger.check(port)                   # all of it is there, in order, and nothing else

The promises: a message that was acknowledged, or given to a consumer, keeps its offset for good. A
message that was sent after another one was acknowledged has a higher offset. Bodies begin with
(session, producer, sequence); a session is one connection, and within it the sequence rises in each
queue.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from support.ack_history import GROUP, IDENTITY, MAX_OFFSET, MIN_OFFSET, WITH_SUBSCRIPTION
from support.broker_client import BrokerClient

from rmq.format.message import StoredMessage, decode_messages

Queue = tuple[str, int]


def digest(body: bytes) -> int:
    """A hash of the body, never 0: 0 stands for an offset that no client knows of."""
    return int.from_bytes(hashlib.blake2b(body, digest_size=8).digest(), "big") | 1


@dataclass
class CompactAckHistory:
    """The promises of one shard."""

    promised: dict[Queue, array[int]] = field(default_factory=lambda: defaultdict(_empty))
    checked: dict[Queue, int] = field(default_factory=lambda: defaultdict(int))
    latest: dict[tuple[Queue, int, int], int] = field(default_factory=dict)
    acked: int = 0

    def ack(self, topic: str, queue_id: int, offset: int, body: bytes, after: int) -> None:
        assert offset > after, f"{topic}/{queue_id}: {offset} was sent after {after} was acked"
        self.acked += 1
        self.see(topic, queue_id, offset, body)

    def see(self, topic: str, queue_id: int, offset: int, body: bytes) -> None:
        column = self.promised[topic, queue_id]
        if offset >= len(column):
            column.extend([0] * (offset + 1 - len(column)))
        found = digest(body)
        assert column[offset] in (0, found), f"{topic}/{queue_id} at {offset} is another message"
        column[offset] = found

    async def check(self, port: int, whole: bool = False) -> int:
        """Reads and checks what has not been checked yet, or everything if `whole`. Returns the
        number of messages."""
        if whole:
            self.checked.clear()
            self.latest.clear()
        total = 0
        async with BrokerClient(port, "ledger@1") as client:
            for queue in list(self.promised):
                total += await self._check_queue(client, queue)
        return total

    async def _check_queue(self, client: BrokerClient, queue: Queue) -> int:
        promised_end = len(self.promised[queue])  # taken before the queue's end is read
        begin = at = self.checked[queue]
        physical = -1
        async for message in read(client, queue, begin):
            assert (message.topic, message.queue_id, message.queue_offset) == (*queue, at)
            assert message.physical_offset > physical, f"{queue} at {at}: not in the log's order"
            self.see(*queue, at, message.body)
            session, producer, sequence = IDENTITY.unpack_from(message.body)
            before = self.latest.get((queue, session, producer), -1)
            assert before < sequence, f"{queue} at {at}: {sequence} came after {before}"
            self.latest[queue, session, producer] = sequence
            physical = message.physical_offset
            at += 1
        assert at >= promised_end, f"{queue} ends at {at}, {promised_end} were promised"
        self.checked[queue] = at
        return at - begin


def _empty() -> array[int]:
    return array("Q")


async def read(client: BrokerClient, queue: Queue, begin: int) -> AsyncIterator[StoredMessage]:
    """The messages from `begin` to the present end of the queue."""
    topic, queue_id = queue
    end = int((await client.call(MAX_OFFSET, topic=topic, queueId=queue_id)).fields["offset"])
    first = int((await client.call(MIN_OFFSET, topic=topic, queueId=queue_id)).fields["offset"])
    assert first == 0, f"{queue} begins at {first}: nothing was to be deleted"
    at = begin
    while at < end:
        reply = await client.pull(
            GROUP, topic, queue_id, at, sysFlag=WITH_SUBSCRIPTION, subscription="*",
            expressionType="TAG",
        )  # fmt: skip
        assert reply.code == 0, f"{queue} at {at} of {end}: {reply.code} {reply.remark}"
        for message in decode_messages(reply.body):
            yield message
            at += 1
