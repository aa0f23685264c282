"""Random steps over a real broker, each compared with what queue_model.py says.

Topics of one run: `a` (2 queues) and `b` (1), to which everything is sent, also what comes later;
`c`, which is deleted and comes again, by a request or by the sends to it. Two groups, their retry
and dead letter topics. All names are new in each run, so that the broker can serve many runs.

Kills and stops come once in RESTART_STEPS steps; whatever was acknowledged before is read again.
"""

from __future__ import annotations

import itertools
import struct
import time
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.model_broker import READER, ModelBroker
from support.queue_model import Message, Offsets, Place, QueueModel, now_ms

from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_message, decode_messages
from rmq.format.remoting import Command

RESTART_STEPS = 250
LEVELS_MS = {1: 2000, 2: 1000}  # messageDelayLevel of model_broker.py
RETRIES_MAX = 2
QUEUES = {"a": 2, "b": 1, "c": 4}
TAGS = ("", "red", "green", "blue")
KEYS = ("", "k1", "k2", "k1 k2")
TOPIC_UNKNOWN, PULL_NOT_FOUND, RETRY_AT_ONCE, MOVED, ILLEGAL_MESSAGE, NOT_FOUND = (
    17, 19, 20, 21, 13, 22)  # fmt: skip

pick = st.integers(0, 255)  # of whatever there is, by the remainder
sizes = st.sampled_from((0, 0, 30, 400, 3000))
_numbers = itertools.count(1)
_bodies = itertools.count(1)


class BrokerMachine(RuleBasedStateMachine):
    """`broker` is set by the test; `steps` counts what was really done, all runs together."""

    broker: ClassVar[ModelBroker]
    steps: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.name = f"m{next(_numbers)}"
        self.groups = [f"{self.name}-g", f"{self.name}-h"]
        self.topics = {name: f"{self.name}-{name}" for name in QUEUES}
        self.queues: dict[tuple[str, int], QueueModel] = {}
        self.offsets = Offsets()
        self.halves: list[tuple[Message, QueueModel, str, str]] = []  # open ones
        self.ended: list[tuple[str, str]] = []
        self.of_deleted: list[Message] = []
        self.locks: dict[Place, str] = {}
        self.loose: set[Place] = set()  # unlocked, then killed: the file may not know of it
        self.quiet_steps = 0

    @classmethod
    def step(cls, what: str) -> None:
        cls.steps[what] = cls.steps.get(what, 0) + 1

    @invariant()
    def count(self) -> None:
        """Which rules may be chosen must not hang on times: a run has to be repeatable."""
        self.quiet_steps += 1

    # ---- helpers

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
        """One of those that sends go to; not plain: messages may come to it later."""
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
        """Reads what is new in a queue; its end."""
        most = self.broker.number(30, topic=queue.topic, queueId=queue.queue_id)
        self.read_to(queue, most)
        return len(queue.entries)

    def read_to(self, queue: QueueModel, most: int) -> None:
        known = len(queue.entries)
        assert most >= known, f"{queue.topic} {queue.queue_id}: {most} of {known} are left"
        for record in self.broker.read(queue.topic, queue.queue_id, known, most):
            queue.came(record)

    def stored(self, queue: QueueModel, messages: list[Message], reply: Command) -> None:
        """The messages stand in the queue where the reply to their send says."""
        assert reply.code == 0, (reply.code, reply.remark)
        assert int(reply.fields["queueId"]) == queue.queue_id
        self.read_to(queue, int(reply.fields["queueOffset"]))
        queue.entries += messages

    def read_all(self, queue: QueueModel) -> None:
        """Reads the whole queue and compares it."""
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

    # ---- sends

    @rule(which=pick, count=st.integers(1, 4), size=sizes, tag=pick, keys=pick, one_way=pick)
    def send(self, which: int, count: int, size: int, tag: int, keys: int, one_way: int) -> None:
        queue = self.queue(which, plain=True)
        for _ in range(count):
            message = self.message(size, tag, keys)
            reply = self.broker.send(
                queue.topic, message.body, queue.queue_id, i=message.properties()
            )
            self.stored(queue, [message], reply)
        self.step("sends")

    @rule(which=pick, count=st.integers(1, 20), tag=pick, keys=pick)
    def send_batch(self, which: int, count: int, tag: int, keys: int) -> None:
        queue = self.queue(which, plain=True)
        messages = [self.message(n % 50, tag + n, keys) for n in range(count)]
        parts = []
        for message in messages:
            properties = message.properties().encode()
            head = 22 + len(message.body) + len(properties)
            parts.append(struct.pack(">iiiii", head, 0, 0, 0, len(message.body)) + message.body
                         + struct.pack(">h", len(properties)) + properties)  # fmt: skip
        reply = self.broker.send(queue.topic, b"".join(parts), queue.queue_id, code=320, m="true")
        self.stored(queue, messages, reply)
        assert len(reply.fields["msgId"].split(",")) == count
        self.step("batches")

    @rule(count=st.integers(2, 30), which=pick)
    def send_many_at_once(self, count: int, which: int) -> None:
        """All under way at once, over all queues: each queue has them in order."""
        sends = [(self.queue(which + n, plain=True), self.message(n)) for n in range(count)]
        opaques = self.broker.post_sends(
            [(q.topic, m.body, q.queue_id, m.properties()) for q, m in sends]
        )
        replies = self.broker.client.replies(count)
        for (queue, message), opaque in zip(sends, opaques, strict=True):
            self.stored(queue, [message], replies[opaque])
        self.step("pipelined sends")

    @rule(which=pick, kind=pick, wait=st.integers(1, 400))
    def send_for_later(self, which: int, kind: int, wait: int) -> None:
        queue, message = self.queue(which), self.message(10, kind)
        before = now_ms()
        if kind % 3 == 0:
            level = 1 + wait % 2
            wait, how = LEVELS_MS[level], {"DELAY": level}
        elif kind % 3 == 1:
            how = {"TIMER_DELAY_MS": wait}
        else:
            how = {"TIMER_DELIVER_MS": before + wait}
        reply = self.broker.send(
            queue.topic, message.body, queue.queue_id, i=message.properties(**how)
        )
        assert reply.code == 0, (reply.code, reply.remark)
        queue.promise(message, before + wait, now_ms() + wait)
        self.step("delayed and timed sends")

    @rule(which=pick, kind=st.integers(0, 4))
    def send_what_is_refused(self, which: int, kind: int) -> None:
        queue = self.queue(which)
        end = self.end(queue)
        body, place, more = b"never", queue.queue_id, {}
        if kind == 0:
            place = 99
        elif kind == 1:
            body = b""
        elif kind == 2:
            body = bytes((4 << 20) + 1)
        elif kind == 3:
            more = {"i": f"TIMER_DELAY_SEC\x01{10**6}\x02"}
        else:
            more = {"code": 320, "m": "true", "i": ""}
        reply = self.broker.send(queue.topic, body, place, **more)
        assert reply.code != 0, (kind, reply)
        if not queue.waiting() and not queue.again:
            assert self.end(queue) == end
        self.step("refused sends")

    # ---- transactions

    @rule(which=pick, size=sizes)
    def begin(self, which: int, size: int) -> None:
        queue, message = self.queue(which), self.message(size)
        properties = message.properties(TRAN_MSG="true", PGROUP="P")
        reply = self.broker.send(queue.topic, message.body, queue.queue_id, i=properties, f=4)
        assert reply.code == 0, (reply.code, reply.remark)
        place = str(int(reply.fields["msgId"][-16:], 16))
        self.halves.append((message, queue, reply.fields["queueOffset"], place))
        self.step("half messages")

    @precondition(lambda self: self.halves)
    @rule(which=pick, commit=st.booleans())
    def finish(self, which: int, commit: bool) -> None:
        message, queue, offset, place = self.halves.pop(which % len(self.halves))
        reply = self.finish_one(offset, place, commit)
        assert reply.code == 0, (reply.code, reply.remark)
        self.ended.append((offset, place))
        if commit:
            queue.promise(message, 0, 0)
            self.end(queue)
            assert message.key not in queue.late, "committed, and not in its queue"
        self.step("ended transactions")

    @precondition(lambda self: self.ended)
    @rule(which=pick, commit=st.booleans())
    def finish_again(self, which: int, commit: bool) -> None:
        """Nothing comes of it: `came` would find a message that nobody sent."""
        self.finish_one(*self.ended[which % len(self.ended)], commit)
        for queue in self.queues.values():
            self.end(queue)
        self.step("transactions ended twice")

    def finish_one(self, offset: str, place: str, commit: bool) -> Command:
        return self.broker.ask(
            37, producerGroup="P", tranStateTableOffset=offset, commitLogOffset=place,
            commitOrRollback=8 if commit else 12, fromTransactionCheck=False, msgId="x",
        )  # fmt: skip

    # ---- pulls and offsets

    @rule(who=pick, which=pick, tag=pick, above=st.integers(-1, 9), kind=pick)
    def consume(self, who: int, which: int, tag: int, above: int, kind: int) -> None:
        """From the group's offset on; what came is committed, by the next pull or by itself."""
        queue = self.any_queue(which)
        place = (self.groups[who % 2], queue.topic, queue.queue_id)
        tags = ("red", "green") if tag % 3 == 0 else ("blue",) if tag % 3 == 1 else ()
        how: dict[str, Any] = {"subscription": "||".join(tags) or "*"}
        if kind % 4 == 0:
            tags, how = (), {"subscription": f"a > {above}", "expressionType": "SQL92"}
        else:
            above = -1
        known = self.end(queue)
        offset = min(self.offsets.table.get(place, 0), known)
        if place in self.offsets.table and kind % 2:
            how |= {"sysFlag": 5, "commitOffset": offset}
        told = self.offsets.take_mark(place)
        if told is None and how.get("sysFlag") == 5:
            self.offsets.commit(place, offset)
        reply = self.broker.pull(place[0], queue.topic, queue.queue_id, offset, **how)
        if told is not None:
            assert (reply.code, int(reply.fields["nextBeginOffset"])) == (MOVED, told)
        else:
            following = self.check_pull(queue, offset, known, reply, tags, above)
            if kind % 2 == 0:
                self.broker.done(
                    15, consumerGroup=place[0], topic=queue.topic, queueId=queue.queue_id,
                    commitOffset=following,
                )  # fmt: skip
                self.offsets.commit(place, following)
        self.check_offset(place)
        self.step("pulls of groups")

    def check_pull(
        self, queue: QueueModel, offset: int, known: int, reply: Command,
        tags: tuple[str, ...] = (), above: int = -1,
    ) -> int:  # fmt: skip
        """The answer to a pull of a queue that had `known` messages; where to go on."""
        following = int(reply.fields["nextBeginOffset"])
        if offset > known and reply.code == MOVED:
            assert known <= following < offset
            return following
        if reply.code == PULL_NOT_FOUND:
            assert offset >= known
            assert following == offset
            return following
        assert reply.code in (0, RETRY_AT_ONCE), (reply.code, reply.remark)
        assert following > offset
        if following > len(queue.entries):
            self.read_to(queue, following)
        records = list(decode_messages(reply.body)) if reply.code == 0 else []
        wanted = queue.matching(offset, following, tags, above)
        assert [each.body for each in records] == [each.body for each in wanted]
        for record, message in zip(records, wanted, strict=True):
            message.check(record, queue.topic)
        assert bool(records) == (reply.code == 0)
        return following

    def check_offset(self, place: Place) -> None:
        group, topic, queue_id = place
        reply = self.broker.ask(
            14, consumerGroup=group, topic=topic, queueId=queue_id, setZeroIfNotFound=False
        )
        if place in self.offsets.table:
            assert (reply.code, reply.fields.get("offset")) == (0, str(self.offsets.table[place]))
        else:
            assert reply.code == NOT_FOUND, (place, reply)

    @rule(which=pick, offset=pick, count=st.integers(1, 40))
    def pull_anywhere(self, which: int, offset: int, count: int) -> None:
        queue = self.any_queue(which)
        known = self.end(queue)
        offset = offset % (known + 10)
        reply = self.broker.pull(READER, queue.topic, queue.queue_id, offset, maxMsgNums=count)
        following = self.check_pull(queue, offset, known, reply)
        if offset < known:
            assert following - offset <= count
        self.step("pulls anywhere")

    @rule(which=pick, tag=pick)
    def wait_for_a_send(self, which: int, tag: int) -> None:
        """A pull is held until the message comes that it asks for."""
        queue, message = self.queue(which), self.message(20, 1 + tag % 3)
        known = self.end(queue)
        frames = self.broker.held_pull(queue.topic, queue.queue_id, known, message.tag)
        reply = frames.send(queue.topic, message.body, queue.queue_id, message.properties())
        self.stored(queue, [message], reply)
        at = frames.found()
        begin, following = known, int(at.fields["nextBeginOffset"])
        assert at.code in (0, RETRY_AT_ONCE), (at.code, at.remark)
        self.check_pull(queue, begin, known, at, (message.tag,))
        assert following > known
        self.step("held pulls")

    @rule(who=pick, which=pick, offset=pick)
    def commit(self, who: int, which: int, offset: int) -> None:
        queue = self.any_queue(which)
        place = (self.groups[who % 2], queue.topic, queue.queue_id)
        offset = offset % (len(queue.entries) + 1)
        self.broker.done(15, consumerGroup=place[0], topic=place[1], queueId=place[2],
                         commitOffset=offset)  # fmt: skip
        self.offsets.commit(place, offset)
        self.check_offset(place)
        self.step("commits")

    @rule(who=pick, which=pick, offset=pick)
    def reset_to_an_offset(self, who: int, which: int, offset: int) -> None:
        queue = self.any_queue(which)
        place = (self.groups[who % 2], queue.topic, queue.queue_id)
        offset = offset % (self.end(queue) + 1)
        found = self.broker.json(222, group=place[0], topic=place[1], queueId=place[2],
                                 offset=offset, timestamp=0, isForce=True)  # fmt: skip
        assert list(found["offsetTable"].values()) == [offset]
        self.offsets.reset(place, offset)
        self.check_offset(place)
        self.step("resets to an offset")

    @rule(who=pick, which=pick, offset=pick, skip=st.booleans())
    def reset_to_a_time(self, who: int, which: int, offset: int, skip: bool) -> None:
        """The time of one message, for all queues of its topic; or to the ends."""
        group, asked = self.groups[who % 2], self.any_queue(which)
        queues = [queue for queue in self.queues.values() if queue.topic == asked.topic]
        before = {queue.queue_id: self.end(queue) for queue in queues}
        time_ms = -1
        if not skip and asked.entries:
            time_ms = self.time_of(asked, offset % len(asked.entries))
        found = self.broker.json(
            222, group=group, topic=asked.topic, timestamp=time_ms, isForce=True
        )["offsetTable"]
        assert {queue.queue_id for queue in found} == before.keys()
        for queue in queues:
            (at,) = (x for each, x in found.items() if each.queue_id == queue.queue_id)
            self.end(queue)
            if time_ms < 0:
                assert before[queue.queue_id] <= at <= len(queue.entries)
            else:
                self.check_search(queue, time_ms, at, before[queue.queue_id])
            self.offsets.reset((group, asked.topic, queue.queue_id), at)
            self.check_offset((group, asked.topic, queue.queue_id))
        self.step("resets to a time")

    def check_search(self, queue: QueueModel, time_ms: int, at: int, known: int) -> None:
        """`at` is the first message stored at that time or later; the end when there is none."""
        if at > 0:
            assert self.time_of(queue, at - 1) < time_ms
        if at < known:
            assert self.time_of(queue, at) >= time_ms

    @rule(which=pick, offset=pick, more=st.integers(-1, 1))
    def search_a_time(self, which: int, offset: int, more: int) -> None:
        queue = self.any_queue(which)
        known = self.end(queue)
        if known:
            time_ms = self.time_of(queue, offset % known) + more
            at = self.broker.number(
                29, topic=queue.topic, queueId=queue.queue_id, timestamp=time_ms
            )
            self.end(queue)
            self.check_search(queue, time_ms, at, known)
        assert self.broker.number(31, topic=queue.topic, queueId=queue.queue_id) == 0
        self.step("searches by time")

    @rule(who=pick, which=pick)
    def clone(self, who: int, which: int) -> None:
        source, target = self.groups[who % 2], self.groups[1 - who % 2]
        topic = self.any_queue(which).topic
        self.broker.done(314, srcGroup=source, destGroup=target, topic=topic, offline=True)
        for queue_id in range(4):
            offset = self.offsets.table.get((source, topic, queue_id))
            if offset is not None:
                self.offsets.commit((target, topic, queue_id), offset)
                self.check_offset((target, topic, queue_id))
        self.step("clones of offsets")

    @rule(who=pick, which=pick)
    def look_at_lags(self, who: int, which: int) -> None:
        queue, group = self.any_queue(which), self.groups[who % 2]
        if any(place[:2] == (group, queue.topic) for place in self.offsets.table):
            self.end(queue)
            before = len(queue.entries)
            table = self.broker.json(208, consumerGroup=group, topic=queue.topic)["offsetTable"]
            self.end(queue)
            (row,) = (x for each, x in table.items() if each.queue_id == queue.queue_id)
            assert before <= row["brokerOffset"] <= len(queue.entries)
            place = (group, queue.topic, queue.queue_id)
            if place in self.offsets.table:
                assert row["consumerOffset"] == self.offsets.table[place]
        self.step("looks at lags")

    # ---- retries, keys, locks

    @rule(who=pick, which=pick, offset=pick, dead=pick)
    def send_back(self, who: int, which: int, offset: int, dead: int) -> None:
        """To the group's retry topic a second later, or to its dead letters at once."""
        group = self.groups[who % 2]
        retries = self.queues.get((f"%RETRY%{group}", 0))
        queue = retries if retries and retries.entries and which % 2 else self.any_queue(which)
        if not self.end(queue):
            return
        offset = offset % len(queue.entries)
        self.time_of(queue, offset)
        message = queue.entries[offset]
        assert message.record is not None
        level = -1 if dead % 16 == 0 else 2
        before = now_ms()
        self.broker.done(
            36, offset=message.record.physical_offset, group=group, delayLevel=level,
            originTopic=queue.topic, unitMode=False, maxReconsumeTimes=RETRIES_MAX,
        )  # fmt: skip
        copy = Message(message.body, message.tag, message.keys, message.number, message.retries + 1)
        if level < 0 or message.retries >= RETRIES_MAX:
            topic, wait = f"%DLQ%{group}", 0
        else:
            topic, wait = f"%RETRY%{group}", LEVELS_MS[level]
            self.know(topic, 1)
        self.know(topic, 1)
        target = self.queues[topic, 0]
        target.promise(copy, before + wait, now_ms() + wait)
        if wait == 0:
            self.end(target)
            assert copy.key not in target.late, "sent back, and not in the dead letters"
        self.step("messages sent back")

    @rule(which=pick, key=st.integers(0, 1))
    def find_by_key(self, which: int, key: int) -> None:
        topic, word = self.queue(which, plain=True).topic, f"k{key + 1}"
        queues = [queue for queue in self.queues.values() if queue.topic == topic]
        for queue in queues:
            self.end(queue)
        present = {m.body for q in queues for m in q.entries if word in m.keys.split()}
        gone = {m.body for m in self.of_deleted if word in m.keys.split()}
        asked = 64
        reply = self.broker.ask(
            12, topic=topic, key=word, maxNum=asked, beginTimestamp=0, endTimestamp=2**62
        )
        records = list(decode_messages(reply.body)) if reply.code == 0 else []
        found = {record.body for record in records}
        assert found <= present | gone, found - present - gone
        if not records:
            assert reply.code == NOT_FOUND
        assert len(records) <= asked
        if len(records) < asked:
            assert present <= found, present - found
        places = [record.physical_offset for record in records]
        assert places == sorted(set(places))
        self.step("queries by key")

    @rule(which=pick, offset=pick)
    def view(self, which: int, offset: int) -> None:
        queue = self.any_queue(which)
        if queue.entries:
            offset = offset % len(queue.entries)
            self.time_of(queue, offset)
            message = queue.entries[offset]
            assert message.record is not None
            reply = self.broker.done(33, topic=queue.topic, offset=message.record.physical_offset)
            message.check(decode_message(reply.body)[0], queue.topic)
        self.step("views by id")

    @rule(who=pick, which=pick, client=pick, give_back=st.booleans())
    def lock(self, who: int, which: int, client: int, give_back: bool) -> None:
        queue, group = self.queue(which), self.groups[who % 2]
        place, owner = (group, queue.topic, queue.queue_id), f"client@{client % 3}"
        mine = MessageQueue(queue.topic, "b", queue.queue_id).members()
        body = {"consumerGroup": group, "clientId": owner, "mqSet": [mine]}
        if give_back:
            self.broker.done(42, fastjson.dumps(body))
            if self.locks.get(place) == owner:
                del self.locks[place]
        else:
            reply = self.broker.done(41, fastjson.dumps(body))
            got = bool(fastjson.loads(reply.body)["lockOKMQSet"])
            if place not in self.loose:
                assert got == (self.locks.get(place, owner) == owner), (place, self.locks)
            if got:
                self.locks[place] = owner
                self.loose.discard(place)
        self.step("locks")

    # ---- topics

    @precondition(lambda self: (self.topics["c"], 0) in self.queues)
    @rule(chance=st.integers(0, 3))
    def delete_topic(self, chance: int) -> None:
        if chance != 3:
            return
        topic = self.topics["c"]
        for queue_id in range(QUEUES["c"]):
            self.end(self.queues[topic, queue_id])
            self.of_deleted += self.queues.pop((topic, queue_id)).entries
        self.broker.done(215, topic=topic)
        self.offsets.remove_topic(topic)
        reply = self.broker.pull(READER, topic, 0, 0)
        assert reply.code == TOPIC_UNKNOWN, reply
        self.step("topics deleted")

    @precondition(lambda self: (self.topics["c"], 0) not in self.queues)
    @rule(by_sends=st.integers(0, 40))
    def create_topic(self, by_sends: int) -> None:
        """By a request, or by as many sends at once."""
        topic = self.topics["c"]
        if by_sends == 0:
            self.make_topic(topic, QUEUES["c"])
            for queue_id in range(QUEUES["c"]):
                assert self.end(self.queues[topic, queue_id]) == 0
        else:
            messages = [self.message(n, n, n) for n in range(by_sends)]
            opaques = self.broker.post_sends(
                [(topic, m.body, n % 4, m.properties()) for n, m in enumerate(messages)]
            )
            replies = self.broker.client.replies(by_sends)
            self.know(topic, QUEUES["c"])
            for n, (message, opaque) in enumerate(zip(messages, opaques, strict=True)):
                self.stored(self.queues[topic, n % 4], [message], replies[opaque])
                assert replies[opaque].fields["queueOffset"] == str(n // 4)
        self.step("topics made")

    # ---- ends of the broker

    @precondition(lambda self: self.quiet_steps >= RESTART_STEPS)
    @rule(count=st.integers(0, 200), which=pick)
    def kill(self, count: int, which: int) -> None:
        """While so many sends are under way: of each queue's a first part is there afterwards."""
        sends = [(self.queue(which + n, plain=True), self.message(n)) for n in range(count)]
        self.broker.post_sends([(q.topic, m.body, q.queue_id, m.properties()) for q, m in sends])
        killed_at_ms = now_ms()
        self.broker.kill()
        for queue, message in sends:
            queue.unsure.append(message)
        for queue in self.queues.values():
            queue.killed()
        self.loose.update(self.all_places() - self.locks.keys())
        self.broker.start()
        self.offsets.after_kill(self.found_offsets(), killed_at_ms)
        for place in sorted(self.offsets.taken):
            self.settle_mark(place)
        self.look_at_everything()
        self.step("kills")

    def settle_mark(self, place: Place) -> None:
        """A mark that had been taken may be there again: a pull tells, and takes it."""
        offset = self.offsets.table.get(place, 0)
        reply = self.broker.pull(place[0], place[1], place[2], 10**9)
        if int(reply.fields["nextBeginOffset"]) != offset:
            assert reply.code == MOVED

    @precondition(lambda self: self.quiet_steps >= RESTART_STEPS)
    @rule()
    def restart(self) -> None:
        self.broker.stop()
        self.broker.start()
        found = self.found_offsets()
        assert {place: found.get(place) for place in self.offsets.table} == self.offsets.table
        self.look_at_everything()
        self.step("restarts")

    def all_places(self) -> set[Place]:
        return {(g, q.topic, q.queue_id) for g in self.groups for q in self.queues.values()}

    def found_offsets(self) -> dict[Place, int]:
        table = self.broker.json(43)["offsetTable"]
        return {
            (group, topic, int(queue)): offset
            for key, offsets in table.items()
            for topic, _, group in [key.partition("@")]
            for queue, offset in offsets.items()
        }

    def look_at_everything(self) -> None:
        self.quiet_steps = 0
        for queue in self.queues.values():
            self.read_all(queue)
            queue.unsure.clear()
        for place in self.offsets.history:
            self.check_offset(place)

    @precondition(lambda self: self.quiet_steps % 50 == 49)
    @rule(which=pick)
    def read_again(self, which: int) -> None:
        self.read_all(self.any_queue(which))
        self.step("queues read whole")

    def teardown(self) -> None:
        """All that was promised has come, and nothing else."""
        while any(queue.late for queue in self.queues.values()):
            time.sleep(0.02)
            for queue in self.queues.values():
                self.end(queue)
                queue.check_times(self.broker.up_since_ms)
        self.look_at_everything()
