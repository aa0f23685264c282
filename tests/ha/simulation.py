"""Simulation: histories such as clients of a cluster without a fault would write.

    events = Simulation(random.Random(7)).run(200)

There are one broker name whose master changes, two queues, producers of each kind of message, two
pull readers, an ordered one, one that pops, crashes that lose recent commits, and resets. Random
choices are made by the given maker, so that hypothesis can drive them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.ha.history import (
    AnyEvent,
    Assigned,
    Committed,
    Decided,
    Delivered,
    Drained,
    Fault,
    OffsetRead,
    Refused,
    Reset,
    Sending,
    Stored,
    Subscribed,
    Unknown,
)

BROKER, TOPIC, LATER = "a", "t", "later"
PULLED, ORDERED, POPPED = "pullers", "ordered", "poppers"
TICK = 1_000_000  # ns
LOSES_MS = 40
KEYS = ("red", "blue")
QUEUES = (0, 1)


class Simulation:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = TICK
        self.events: list[AnyEvent] = []
        self.log: dict[tuple[str, int], list[str]] = {
            (topic, queue_id): [] for topic in (TOPIC, LATER) for queue_id in QUEUES
        }
        self.log_offsets: dict[tuple[str, int, int], int] = {}
        self.epoch = 1
        self.sent = 0
        self.waiting: list[Sending] = []  # sent, and neither stored nor refused yet
        self.answers: list[tuple[Sending, Stored]] = []  # in the log, and not answered yet
        self.offsets: dict[tuple[str, int], list[tuple[int, int]]] = {}  # (when, offset), in order
        self.position: dict[tuple[str, int], int] = {}  # of the group's reader of the queue
        self.life = 0

    def add(self, event: AnyEvent, process: str) -> AnyEvent:
        self.now += TICK
        event.at, event.process = self.now, process
        event.place = len(self.events) + 1
        self.events.append(event)
        return event

    # ---- senders

    def send(self) -> None:
        kind = self.random.choice(("plain", "plain", "ordered", "delayed", "transaction"))
        key = self.random.choice(KEYS) if kind == "ordered" else ""
        topic = LATER if kind in ("delayed", "transaction") else TOPIC
        self.sent += 1
        event = Sending(message=f"p/{self.sent}", topic=topic, kind=kind, key=key)
        self.add(event, "producer")
        self.waiting.append(event)

    def store(self) -> None:
        if not self.waiting:
            return
        sending = self.waiting.pop(self.random.randrange(len(self.waiting)))
        queue_id = KEYS.index(sending.key) if sending.key else self.random.choice(QUEUES)
        stored = Stored(
            message=sending.message, topic=sending.topic, broker=BROKER, queue_id=queue_id,
            acker=f"host-{self.epoch}", epoch=self.epoch,
        )  # fmt: skip
        if sending.kind in ("plain", "ordered"):
            stored.offset, stored.log_offset = self._append(sending.topic, queue_id, sending)
        self.answers.append((sending, stored))

    def _append(self, topic: str, queue_id: int, sending: Sending) -> tuple[int, int]:
        queue = self.log[topic, queue_id]
        queue.append(sending.message)
        log_offset = 1000 * len(self.log_offsets)
        self.log_offsets[topic, queue_id, len(queue) - 1] = log_offset
        return len(queue) - 1, log_offset

    def answer(self) -> None:
        if not self.answers:
            return
        sending, stored = self.answers.pop(self.random.randrange(len(self.answers)))
        answered = self.random.random() < 0.9
        event = stored if answered else Unknown(message=sending.message, reason="timeout")
        self.add(event, "producer")
        commit = sending.kind == "delayed"
        if sending.kind == "transaction":
            commit = answered and self.random.random() < 0.6
            self.add(Decided(message=sending.message, commit=commit), "producer")
        if commit:
            self._append(sending.topic, stored.queue_id, sending)

    def refuse(self) -> None:
        if self.waiting:
            sending = self.waiting.pop(0)
            self.add(Refused(message=sending.message, reason="busy"), "producer")

    # ---- readers

    def _delivered(self, group: str, queue_id: int, offset: int, how: str, process: str,
                   topic: str = TOPIC) -> None:  # fmt: skip
        message = self.log[topic, queue_id][offset]
        self.add(
            Delivered(group=group, topic=topic, broker=BROKER, queue_id=queue_id, offset=offset,
                      message=message, how=how,
                      log_offset=self.log_offsets[topic, queue_id, offset]),
            process,
        )  # fmt: skip

    def _offset(self, group: str, queue_id: int) -> int:
        return self.offsets.get((group, queue_id), [(0, -1)])[-1][1]

    def begin_reading(self, group: str, queue_id: int) -> None:
        asked = self.now
        offset = self._offset(group, queue_id)
        process = f"{group}-{self.life}-{queue_id}"
        told = {"group": group, "topic": TOPIC, "broker": BROKER, "queue_id": queue_id}
        self.add(OffsetRead(offset=offset, asked=asked, **told), process)
        self.position[group, queue_id] = max(offset, 0)
        if group == PULLED:
            self.add(Assigned(offset=max(offset, 0), **told), process)

    def deliver(self, group: str | None = None, queue_id: int | None = None) -> None:
        group = group or self.random.choice((PULLED, ORDERED))
        queue_id = self.random.choice(QUEUES) if queue_id is None else queue_id
        if (group, queue_id) not in self.position:
            self.begin_reading(group, queue_id)
        at = self.position[group, queue_id]
        if at < len(self.log[TOPIC, queue_id]):
            how = "pull" if group == PULLED else "push"
            self._delivered(group, queue_id, at, how, f"{group}-{self.life}-{queue_id}")
            self.position[group, queue_id] = at + 1

    def commit(self) -> None:
        group, queue_id = self.random.choice((PULLED, ORDERED)), self.random.choice(QUEUES)
        if (group, queue_id) in self.position:
            asked = self.now
            self._put(group, queue_id, self.position[group, queue_id])
            acked = self.random.random() < 0.8
            self.add(
                Committed(group=group, topic=TOPIC, broker=BROKER, queue_id=queue_id,
                          offset=self.position[group, queue_id], asked=asked, acked=acked),
                f"{group}-{self.life}-{queue_id}",
            )  # fmt: skip

    def _put(self, group: str, queue_id: int, offset: int) -> None:
        self.offsets.setdefault((group, queue_id), [(0, -1)]).append((self.now + TICK, offset))

    def pop(self) -> None:
        queue_id = self.random.choice(QUEUES)
        if self.log[TOPIC, queue_id]:
            offset = self.random.randrange(len(self.log[TOPIC, queue_id]))
            self._delivered(POPPED, queue_id, offset, "any", "popper")

    # ---- trouble

    def fail_over(self) -> None:
        """A new master begins an epoch. Messages that are in the log and not answered yet keep the
        epoch of the old one."""
        self.epoch += 1

    def crash(self) -> None:
        """Recent commits are lost, and readers begin again."""
        since = self.now + TICK - LOSES_MS * TICK
        for place, rows in self.offsets.items():
            kept = [row for row in rows if row[0] < since or row[0] == 0]
            lost = rows[len(kept) :]
            self.offsets[place] = kept + lost[: self.random.randint(0, len(lost))]
        self.add(Fault(name="kill", loses_ms=LOSES_MS), "nemesis")
        self.add(Fault(name="kill", ends=True), "nemesis")
        self.position.clear()
        self.life += 1

    def rebalance(self) -> None:
        self.position.clear()
        self.life += 1

    def reset(self) -> None:
        queue_id = self.random.choice(QUEUES)
        offset = self.random.randint(0, len(self.log[TOPIC, queue_id]))
        asked = self.now
        self.offsets[PULLED, queue_id] = [(0, offset)]  # safe at once
        self.add(
            Reset(group=PULLED, topic=TOPIC, broker=BROKER, queue_id=queue_id, offset=offset,
                  asked=asked),
            "operator",
        )  # fmt: skip
        self.position.pop((PULLED, queue_id), None)

    # ---- all of it

    def run(self, steps: int) -> list[AnyEvent]:
        self.add(Subscribed(group=ORDERED, topic=TOPIC), "harness")
        often: list[Callable[[], object]] = [
            self.send, self.store, self.answer, self.deliver, self.deliver, self.commit,
        ]  # fmt: skip
        seldom: list[Callable[[], object]] = [
            self.fail_over, self.crash, self.rebalance, self.reset, self.refuse, self.pop,
        ]  # fmt: skip
        for _ in range(steps):
            chosen = often if self.random.random() < 0.85 else seldom
            self.random.choice(chosen)()
        self.finish()
        return self.events

    def finish(self) -> None:
        while self.waiting:
            self.store()
        while self.answers:
            self.answer()
        for queue_id in QUEUES:
            if (ORDERED, queue_id) not in self.position:
                self.begin_reading(ORDERED, queue_id)
            while self.position[ORDERED, queue_id] < len(self.log[TOPIC, queue_id]):
                self.deliver(ORDERED, queue_id)
        for (topic, queue_id), queue in self.log.items():
            for offset in range(len(queue)):
                self._delivered("final", queue_id, offset, "final", "final", topic)
            self.add(
                Drained(topic=topic, broker=BROKER, queue_id=queue_id, begin=0, end=len(queue)),
                "final",
            )
