"""ReadSteps: random steps that pull messages, wait for them and look them up."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support.model.broker import READER
from support.model.queues import QueueModel
from support.model.state import (
    MOVED,
    NOT_FOUND,
    PULL_NOT_FOUND,
    RETRY_AT_ONCE,
    ModelState,
    pick,
)

from rmq.format.message import decode_message, decode_messages
from rmq.format.remoting import Command


class ReadSteps(ModelState):
    """Pulls with and without a group, queries by key, views by id."""

    @rule(who=pick, which=pick, tag=pick, above=st.integers(-1, 9), kind=pick)
    def consume(self, who: int, which: int, tag: int, above: int, kind: int) -> None:
        """Consumes from the group's offset on, and commits, with the next pull or separately."""
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
        """Checks the answer to a pull of a queue with `known` messages; returns the next offset."""
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
        """A pull must be held until a message comes that it asks for."""
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

    @precondition(lambda self: self.quiet_steps % 50 == 49)
    @rule(which=pick)
    def read_again(self, which: int) -> None:
        self.read_all(self.any_queue(which))
        self.step("queues read whole")
