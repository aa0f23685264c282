"""OffsetSteps: random steps that commit, reset and read the offsets of groups."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from support.model.queues import QueueModel
from support.model.state import ModelState, pick

from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue


class OffsetSteps(ModelState):
    """Commits, resets, searches by time, clones, lags, locks."""

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
        """Resets all queues of a topic to the time of one message, or to their ends."""
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
        """`at` must be the first message stored at that time or later, or the end if there is
        none."""
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
                place = (target, topic, queue_id)
                move = self.offsets.reset if place in self.offsets.marks else self.offsets.commit
                move(place, offset)
                self.check_offset(place)
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

    @rule(who=pick, which=pick, client=pick, give_back=st.booleans())
    def lock(self, who: int, which: int, client: int, give_back: bool) -> None:
        queue, group = self.queue(which), self.groups[who % 2]
        place, owner = (group, queue.topic, queue.queue_id), f"client@{client % 3}"
        mine = MessageQueue(queue.topic, "broker-a", queue.queue_id).members()
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
