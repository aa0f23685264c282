"""Model machine: random steps on a real broker, each compared with the model in queues.py.

state.py has the topics and groups of a run; sends.py, reads.py and offsets.py have most steps. Here
are the steps that end something: topics, and the broker. A kill or a stop comes once in
restart_steps steps; everything that was acknowledged before is read again.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support.model.broker import READER
from support.model.offsets import OffsetSteps
from support.model.queues import Place, now_ms
from support.model.reads import ReadSteps
from support.model.sends import SendSteps
from support.model.state import MOVED, QUEUES, TOPIC_UNKNOWN, pick


class BrokerMachine(SendSteps, ReadSteps, OffsetSteps):
    """The test sets `broker`. `steps` counts the steps that were really done, over all runs."""

    restart_steps: ClassVar[int] = 400

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
        """Makes a topic by a request, or by that many sends at once."""
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

    @precondition(lambda self: self.quiet_steps >= self.restart_steps)
    @rule(count=st.integers(0, 200), which=pick)
    def kill(self, count: int, which: int) -> None:
        """Kills the broker while `count` sends are under way. Afterwards each queue has a first
        part of its sends."""
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
        """A reset mark that had been taken may be back: a pull tells, and takes it again."""
        offset = self.offsets.table.get(place, 0)
        reply = self.broker.pull(place[0], place[1], place[2], 10**9)
        if int(reply.fields["nextBeginOffset"]) != offset:
            assert reply.code == MOVED

    @precondition(lambda self: self.quiet_steps >= self.restart_steps)
    @rule()
    def restart(self) -> None:
        self.broker.stop()
        self.broker.start()
        found = self.found_offsets()
        assert {place: found.get(place) for place in self.offsets.table} == self.offsets.table
        self.look_at_everything()
        self.step("restarts")

    @rule(milliseconds=st.integers(0, 700))
    def let_time_pass(self, milliseconds: int) -> None:
        self.broker.clock.advance(milliseconds / 1000)
        self.step("times that passed")

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

    def pass_until_due(self) -> None:
        due = max(item.most_ms for queue in self.queues.values() for item in queue.waiting())
        self.broker.clock.advance(max(0, due - now_ms()) / 1000)

    def teardown(self) -> None:
        """Checks that everything promised comes, and nothing else."""
        while any(queue.late for queue in self.queues.values()):
            self.pass_until_due()
            for queue in self.queues.values():
                self.end(queue)
                queue.check_times(self.broker.up_since_ms)
        self.look_at_everything()
