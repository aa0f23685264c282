"""Messages: the events of a history by message, by queue and by group, for the rules.

messages = Messages(events, findings)
messages.stored["p/17"].offset, messages.promised()
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.ha.findings import Findings
from tests.ha.history import (
    ELSEWHERE,
    AnyEvent,
    Assigned,
    Committed,
    Decided,
    Delivered,
    Drained,
    Fault,
    Held,
    InSync,
    LogEnd,
    OffsetRead,
    Refused,
    Reset,
    Sending,
    Settled,
    Started,
    Stored,
    Subscribed,
    TopicChanged,
    TopicsSeen,
    Unknown,
    Worked,
)

Progress = Committed | OffsetRead | Held | Reset
FINAL, IN_ORDER, ANY_ORDER, PULL = "final", "push", "any", "pull"


class Queue(NamedTuple):
    broker: str
    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id} of {self.broker}"


class GroupQueue(NamedTuple):
    group: str
    queue: Queue

    def __str__(self) -> str:
        return f"{self.group} in {self.queue}"


class Messages:
    """All that the rules need, gathered in one pass through the events."""

    def __init__(self, events: Iterable[AnyEvent], findings: Findings) -> None:
        self._findings = findings
        self.sent: dict[str, Sending] = {}
        self.stored: dict[str, Stored] = {}
        self.decided: dict[str, Decided] = {}
        self.subscribed: list[Subscribed] = []
        self.deliveries: list[Delivered] = []
        self.final: dict[Queue, list[Delivered]] = defaultdict(list)
        self.drained: dict[Queue, Drained] = {}
        self.faults: list[Fault] = []
        self.started: list[Started] = []
        self.settled: list[int] = []  # when all was
        self.in_sync: list[InSync] = []
        self.log_ends: list[LogEnd] = []
        self.topic_changes: dict[str, list[TopicChanged]] = defaultdict(list)
        self.topics_seen: list[TopicsSeen] = []
        self.refused: dict[str, Refused] = {}
        self.unknown: dict[str, Unknown] = {}
        # For each group and queue, in the order of the files: for rules that look at one reader.
        self.steps: dict[GroupQueue, list[Delivered | Assigned | Reset]] = defaultdict(list)
        self.offsets: dict[GroupQueue, list[Progress]] = defaultdict(list)
        self.worked: dict[GroupQueue, list[Worked]] = defaultdict(list)
        self._queues: dict[tuple[str, str, int], Queue] = {}
        for event in events:
            self._take(event)
            findings.counts["events"] += 1

    def queue(self, event: Delivered | Stored | Drained | Assigned | Worked | Progress) -> Queue:
        """The same object for the same queue."""
        key = event.broker, event.topic, event.queue_id
        found = self._queues.get(key)
        if found is None:
            found = self._queues[key] = Queue(*key)
        return found

    def _take(self, event: AnyEvent) -> None:
        if isinstance(event, Delivered):
            self._deliver(event)
        elif isinstance(event, Sending):
            if event.message in self.sent:
                before = self.sent[event.message]
                self._bad(f"{event.message} is sent twice", before, event)
            self.sent[event.message] = event
        elif isinstance(event, Stored):
            if event.message not in self.sent:
                self._bad(f"{event.message} is acknowledged, and was not sent", event)
            self.stored[event.message] = event
        elif isinstance(event, Committed | OffsetRead | Held | Reset | Assigned):
            self._progress(event)
        elif isinstance(event, Worked):
            self.worked[GroupQueue(event.group, self.queue(event))].append(event)
        elif isinstance(event, Drained):
            self.drained[self.queue(event)] = event
        elif isinstance(event, Subscribed):
            self.subscribed.append(event)
        elif isinstance(event, Decided):
            self.decided[event.message] = event
        elif isinstance(event, TopicChanged):
            self.topic_changes[event.topic].append(event)
        elif isinstance(event, Refused):
            self.refused[event.message] = event
        elif isinstance(event, Unknown):
            self.unknown[event.message] = event
        else:
            self._observe(event)

    def _deliver(self, event: Delivered) -> None:
        if event.how == FINAL:
            self.final[self.queue(event)].append(event)
            return
        self.deliveries.append(event)
        if event.how in (PULL, IN_ORDER) and event.offset != ELSEWHERE:
            self.steps[GroupQueue(event.group, self.queue(event))].append(event)

    def _observe(self, event: Fault | Started | Settled | InSync | LogEnd | TopicsSeen) -> None:
        if isinstance(event, Fault):
            self.faults.append(event)
        elif isinstance(event, TopicsSeen):
            self.topics_seen.append(event)
        elif isinstance(event, InSync):
            self.in_sync.append(event)
        elif isinstance(event, LogEnd):
            self.log_ends.append(event)
        elif isinstance(event, Started):
            self.started.append(event)
        else:
            self.settled.append(event.at)

    def _progress(self, event: Progress | Assigned) -> None:
        place = GroupQueue(event.group, self.queue(event))
        if isinstance(event, Assigned | Reset):
            self.steps[place].append(event)
        if not isinstance(event, Assigned):
            self.offsets[place].append(event)

    def _bad(self, text: str, *events: AnyEvent) -> None:
        self._findings.violation("bad-history", text, *events)

    def promised(self) -> Iterator[Stored]:
        """The messages that must be there at the end. Nothing is promised for a transaction that is
        open at the end of the history."""
        for stored in self.stored.values():
            sent = self.sent.get(stored.message)
            if sent is not None and sent.kind == "transaction":
                decided = self.decided.get(stored.message)
                if decided is None or not decided.commit:
                    continue
            yield stored


def ends_at(faults: Iterable[Fault], fault: Fault) -> int:
    """A fault without an end lasts for ever."""
    ends = [each.at for each in faults if each.ends and each.at >= fault.at
            and (each.name, each.target) == (fault.name, fault.target)]  # fmt: skip
    return min(ends, default=1 << 62)
