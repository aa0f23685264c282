"""SendSteps: random steps that send messages of every kind, and send them back."""

from __future__ import annotations

import struct

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from support.model.queues import Message, now_ms
from support.model.state import LEVELS_MS, RETRIES_MAX, ModelState, pick, sizes

from rmq.format.remoting import Command


class SendSteps(ModelState):
    """Sends, batches, delays, refusals, transactions, retries."""

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
        """Sends many messages at once, over all queues. Each queue must have them in order."""
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
        """Ends a transaction twice, which must deliver nothing: `came` would find a message that
        nobody sent."""
        self.finish_one(*self.ended[which % len(self.ended)], commit)
        for queue in self.queues.values():
            self.end(queue)
        self.step("transactions ended twice")

    def finish_one(self, offset: str, place: str, commit: bool) -> Command:
        return self.broker.ask(
            37, producerGroup="P", tranStateTableOffset=offset, commitLogOffset=place,
            commitOrRollback=8 if commit else 12, fromTransactionCheck=False, msgId="x",
        )  # fmt: skip

    @rule(who=pick, which=pick, offset=pick, dead=pick)
    def send_back(self, who: int, which: int, offset: int, dead: int) -> None:
        """Sends a message back: to the group's retry topic a second later, or to its dead letters
        at once."""
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
