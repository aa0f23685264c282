"""Filter rows: how many messages one core of the broker skips a second.

One in a hundred messages of a queue is wanted. The messages are in the page cache, not in the write
buffer, as for a consumer that is behind. The client sends one pull after the other and takes what
it gets; its own CPU is not counted, so it may be slow.

    outcome = FILTER_ROWS["tag_skip"](bench)
"""

import struct
import time
from contextlib import ExitStack

from rounds import Outcome, middle
from rows import Bench, Row, topic_queues
from servers import Ours

from rmq.client.blocking.connection import Connection
from rmq.codes import FLAG_SUBSCRIPTION, RequestCode
from rmq.format.message import decode_messages
from rmq.load import control
from rmq.load.cpu import CpuMeter
from rmq.load.frames import Queue
from rmq.names import AUTO_CREATE_TOPIC

BATCH = 200  # messages of one send; two of them are wanted
GROUP = "bench-filter"
EXPRESSION = "region = 'eu' AND price > 900"
WANTED = "TAGS\x01wanted\x02region\x01eu\x02price\x01951\x02"
UNWANTED = ("region\x01eu\x02price\x01500\x02", "region\x01us\x02price\x01951\x02")
COMMON = "UNIQ_KEY\x017F00000100015D30946E000000000001\x02WAIT\x01true\x02KEYS\x01order-17\x02"


def batch_body(body_bytes: int) -> bytes:
    """A batch of two hundred messages. Numbers 40 and 140 are wanted; of the others one half fails
    the one term of the filter, the other half the other."""
    parts = []
    for number in range(BATCH):
        own = WANTED if number % 100 == 40 else "TAGS\x01other\x02" + UNWANTED[number % 2]
        properties = (COMMON + own).encode()
        size = 22 + body_bytes + len(properties)
        parts.append(struct.pack(">iiiii", size, 0, 0, 0, body_bytes) + bytes(body_bytes))
        parts.append(struct.pack(">h", len(properties)) + properties)
    return b"".join(parts)


def fill(connection: Connection, queue: Queue, messages: int, body_bytes: int) -> None:
    body = batch_body(body_bytes)
    fields = {
        "a": "bench-producer", "b": queue.topic, "c": AUTO_CREATE_TOPIC, "d": 4,
        "e": queue.queue_id,
        "f": 0, "g": 1, "h": 0, "i": "", "j": 0, "k": "false", "m": "true",
    }  # fmt: skip
    for _ in range(0, messages, BATCH):
        connection.call(RequestCode.SEND_BATCH_MESSAGE, fields, body, timeout=60)


class Skipping:
    """Pulls through one queue again and again, and counts messages that were skipped or taken."""

    def __init__(self, ours: Ours, queue: Queue, kind: str, expression: str) -> None:
        self.connection = Connection(ours.address)
        control.subscribe(self.connection, GROUP, [queue.topic])
        self.end = control.queue_range(self.connection, queue)[1]
        self.offset = 0
        self.meter = CpuMeter(ours.pids())
        self.fields = {
            "consumerGroup": GROUP, "topic": queue.topic, "queueId": queue.queue_id,
            "maxMsgNums": 32, "sysFlag": FLAG_SUBSCRIPTION, "commitOffset": 0,
            "suspendTimeoutMillis": 0, "subVersion": 0, "subscription": expression,
            "expressionType": kind,
        }  # fmt: skip
        self.pull()

    def pull(self) -> int:
        """Does one pull. Returns by how many messages it moved on."""
        fields = {**self.fields, "queueOffset": self.offset}
        reply = self.connection.call(RequestCode.PULL_MESSAGE, fields, timeout=60)
        following = reply.int_field("nextBeginOffset")
        found = sum(1 for _ in decode_messages(reply.body))
        # One in a hundred is found, give or take one for where the pull began.
        least, most = (following - self.offset) // 100, (following - self.offset) // 100 + 1
        if not least <= found <= most or following <= self.offset:
            raise RuntimeError(f"{found} of {following - self.offset} messages were given")
        moved = following - self.offset
        self.offset = 0 if following >= self.end else following
        return moved

    def rate(self, seconds: float) -> float:
        """Messages per second of the broker's CPU."""
        self.meter.start()
        moved, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            moved += self.pull()
        return moved / self.meter.seconds()


def skipping(bench: Bench, outcome: Outcome, kind: str, expression: str, body: int) -> Outcome:
    with ExitStack() as stack:
        ours = stack.enter_context(bench.ours())
        queue = topic_queues(ours)[0]
        with Connection(ours.address) as connection:
            fill(connection, queue, bench.filter_messages, body)
        loop = Skipping(ours, queue, kind, expression)
        stack.callback(loop.connection.close)
        for _ in range(bench.rounds):
            outcome.values.append(loop.rate(bench.seconds) / 1e6)
            ours.check_alive()
    outcome.notes.append(f"{loop.end:,} messages, {1e3 / middle(outcome.values):.0f} ns each")
    return outcome


def tag_skip(bench: Bench) -> Outcome:
    outcome = Outcome("tag_skip", "tag filter, 1 % match: entries per CPU-s", 20.0, ">=")
    outcome.unit = " M"
    return skipping(bench, outcome, "TAG", "wanted", 16)


def sql_skip(bench: Bench) -> Outcome:
    title = "SQL92 filter of 2 terms, 1 % match: messages per CPU-s"
    outcome = Outcome("sql_skip", title, 3.0, ">=")
    outcome.unit = " M"
    return skipping(bench, outcome, "SQL92", EXPRESSION, bench.body_bytes)


FILTER_ROWS: dict[str, Row] = {row.__name__: row for row in (tag_skip, sql_skip)}
