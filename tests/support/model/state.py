"""ModelState: what a run of random steps knows, and how it looks at the broker.

A run has the topics `a` (2 queues) and `b` (1), to which all kinds of messages are sent, delayed
ones too, and the topic `c`, which is deleted and made again, by a request or by sends to it. It has
two groups, with their retry topics and dead letters. All names are new in each run, so that one
broker can serve many runs.
"""

from __future__ import annotations

import itertools
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from support.model.broker import ModelBroker
from support.model.queues import Message, Offsets, Place, QueueModel

from rmq.format import fastjson
from rmq.format.remoting import Command

LEVELS_MS = {1: 2000, 2: 1000}  # messageDelayLevel of broker.py
RETRIES_MAX = 2
QUEUES = {"a": 2, "b": 1, "c": 4}
TAGS = ("", "red", "green", "blue")
KEYS = ("", "k1", "k2", "k1 k2")
TOPIC_UNKNOWN, PULL_NOT_FOUND, RETRY_AT_ONCE, MOVED, NOT_FOUND = 17, 19, 20, 21, 22

pick = st.integers(0, 255)  # chooses one of several things, by the remainder
sizes = st.sampled_from((0, 0, 30, 400, 3000))
_numbers = itertools.count(1)
_bodies = itertools.count(1)


class ModelState(RuleBasedStateMachine):
    """The test sets `broker`. `steps` counts the steps that were really done, over all runs."""

    broker: ClassVar[ModelBroker]
    steps: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.name = f"m{next(_numbers)}"
        self.groups = [f"{self.name}-g", f"{self.name}-h"]
        self.topics = {name: f"{self.name}-{name}" for name in QUEUES}
        self.queues: dict[tuple[str, int], QueueModel] = {}
        self.offsets = Offsets()
        self.halves: list[tuple[Message, QueueModel, str, str]] = []  # those that are not ended
        self.ended: list[tuple[str, str]] = []
        self.of_deleted: list[Message] = []
        self.locks: dict[Place, str] = {}
        self.loose: set[Place] = set()  # unlocked before a kill: the file may not say so
        self.quiet_steps = 0

    @classmethod
    def step(cls, what: str) -> None:
        cls.steps[what] = cls.steps.get(what, 0) + 1

    @invariant()
    def count(self) -> None:
        """Counts steps. The choice of rules must depend on these and not on times, so that a run
        can be repeated."""
        self.quiet_steps += 1

    @initialize()
    def make(self) -> None:
        for group in self.groups:
            self.make_group(group)
        for name in ("a", "b"):
            self.make_topic(self.topics[name], QUEUES[name])

    def make_group(self, group: str) -> None:
        config = {"groupName": group, "retryMaxTimes": RETRIES_MAX, "retryQueueNums": 1}
        self.broker.done(200, fastjson.dumps(config))

    def make_topic(self, topic: str, queues: int) -> None:
        self.broker.done(
            17, topic=topic, defaultTopic="TBW102", readQueueNums=queues, writeQueueNums=queues,
            perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False,
        )  # fmt: skip
        self.know(topic, queues)

    def know(self, topic: str, queues: int) -> None:
        for queue_id in range(queues):
            self.queues.setdefault((topic, queue_id), QueueModel(topic, queue_id))

    def queue(self, number: int, plain: bool = False) -> QueueModel:
        """A queue for a send. Not plain: the send may be of a message that comes later."""
        names = ("a", "b", "c") if plain else ("a", "b")
        places = [(self.topics[n], q) for n in names for q in range(QUEUES[n])]
        known = [place for place in places if place in self.queues]
        return self.queues[known[number % len(known)]]

    def any_queue(self, number: int) -> QueueModel:
        known = list(self.queues.values())
        return known[number % len(known)]

    def message(self, size: int, tag: int = 0, keys: int = 0) -> Message:
        number = next(_bodies)
        body = b"%d:" % number + b"." * size
        return Message(body, TAGS[tag % len(TAGS)], KEYS[keys % len(KEYS)], number % 10)

    def end(self, queue: QueueModel) -> int:
        """Reads what is new in a queue; returns its end."""
        most = self.broker.number(30, topic=queue.topic, queueId=queue.queue_id)
        self.read_to(queue, most)
        return len(queue.entries)

    def read_to(self, queue: QueueModel, most: int) -> None:
        known = len(queue.entries)
        assert most >= known, f"{queue.topic} {queue.queue_id}: {most} of {known} are left"
        for record in self.broker.read(queue.topic, queue.queue_id, known, most):
            queue.came(record)

    def stored(self, queue: QueueModel, messages: list[Message], reply: Command) -> None:
        """Checks that the messages are in the queue where the reply to their send says."""
        assert reply.code == 0, (reply.code, reply.remark)
        assert int(reply.fields["queueId"]) == queue.queue_id
        self.read_to(queue, int(reply.fields["queueOffset"]))
        queue.entries += messages

    def read_all(self, queue: QueueModel) -> None:
        """Reads the whole queue and compares it with the model."""
        end = self.end(queue)
        records = self.broker.read(queue.topic, queue.queue_id, 0, end)
        for offset, (message, record) in enumerate(zip(queue.entries, records, strict=False)):
            assert (record.queue_offset, record.queue_id) == (offset, queue.queue_id)
            message.check(record, queue.topic)
        queue.check_times(self.broker.up_since_ms)

    def time_of(self, queue: QueueModel, offset: int) -> int:
        message = queue.entries[offset]
        if message.record is None:
            (record,) = self.broker.read(queue.topic, queue.queue_id, offset, offset + 1)
            message.check(record, queue.topic)
        assert message.record is not None
        return message.record.store_timestamp_ms

    def check_offset(self, place: Place) -> None:
        group, topic, queue_id = place
        reply = self.broker.ask(
            14, consumerGroup=group, topic=topic, queueId=queue_id, setZeroIfNotFound=False
        )
        if place in self.offsets.table:
            assert (reply.code, reply.fields.get("offset")) == (0, str(self.offsets.table[place]))
        else:
            assert reply.code == NOT_FOUND, (place, reply)
