"""Findings: the result of a check of histories and stores: violations of named rules, and counts.

findings = Findings()
findings.violation("lost", "t/0 of a at 42: a/17 was acknowledged, and is not there", event, other)
findings.counts["duplicates"] += 1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.ha.history import Event

KEPT = 50  # violations of one rule that are kept in full; all are counted

RULES = {
    "lost": "what was answered SEND_OK is there at the end",
    "moved": "a message stays at the offset, and the place of the log, that was answered",
    "two-messages": "an offset of a queue never shows two messages",
    "vanished": "what was delivered is there at the end",
    "gap": "the final read finds a message at every offset of a queue",
    "unread": "each topic is read to its end",
    "made-up": "nothing is delivered that nobody sent",
    "rolled-back": "no message of a transaction that was rolled back is delivered",
    "overtaken": "what was acknowledged before another one was sent stands before it",
    "undelivered": "a group gets every message that was answered SEND_OK",
    "reader-order": "offsets rise for a reader, unless it was sent back to a committed one",
    "group-order": "a group in order gets the messages of a queue in its order, none left out",
    "two-owners": "one member of a group in order works on a queue at a time",
    "key-order": "messages of a key are delivered in the order they were sent in",
    "offset-fell": "what a group has committed falls only by a reset",
    "reset-lost": "a group is not back where it was before a reset that was answered",
    "offset-unknown": "a group is where it, or a reset, has put it",
    "topic-lost": "a topic whose making was answered is at each replica",
    "topic-back": "a topic whose deletion was answered is at none",
    "two-ackers": "one broker acknowledges sends of a masterEpoch",
    "stale-acker": "who was replaced acknowledges nothing any more",
    "unleased-acker": "a master whose lease has ended acknowledges nothing",
    "set-history": "epochs of the set in sync rise, each has one set; each masterEpoch one master",
    "behind-member": "a replica in sync has what was acknowledged",
    "epoch-overlap": "a newer epoch acknowledges only offsets above those of the older ones",
    "unequal-logs": "logs are equal up to the least confirmed offset",
    "not-copied": "what was acknowledged is in every copy",
    "log-damage": "a log is whole records",
    "queue-files": "queue files are what the log says",
    "store-files": "the other files of a store agree with its log",
    "bad-history": "the history itself makes sense",
}


@dataclass(frozen=True)
class Violation:
    rule: str
    text: str
    places: tuple[int, ...]  # places of the events that show it


@dataclass
class Findings:
    violations: list[Violation] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)  # rule -> how often
    counts: Counter[str] = field(default_factory=Counter)

    def violation(self, rule: str, text: str, *events: Event) -> None:
        assert rule in RULES, rule
        self.broken[rule] += 1
        if self.broken[rule] <= KEPT:
            self.violations.append(Violation(rule, text, tuple(each.place for each in events)))
