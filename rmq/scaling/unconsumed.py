"""Unconsumed: what a broker holds that groups have still to consume. Plain values; no I/O.

    left = Unconsumed(by_group={("orders", "billing"): 17}, internal={"delayed": 4})
    left.waited_for            21
    left.text()                "billing 17 of orders, delayed 4"

A group must consume a topic if it is online and subscribes the topic, or if it is offline and has
offsets there; its retry topics it must consume in any case. (A group that is online and does not
subscribe the topic has left it; of one that is offline nobody can tell.) Not waited for are topics
without a group, as nobody will read them, and topics of groups that broadcast, as these keep their
offsets themselves.

`internal` is what is on its way inside the broker, None where the broker does not say. Pops that
are not acknowledged are there, too: until they are due, their check points are timed messages. Then
brokers read the check points from the revive topic (RocketMQ's within some seconds), and messages
that were not acknowledged are in a retry topic. How far the revive topic is read says nothing,
because RocketMQ leaves its last records there until others come. So its end is part of `ends`,
which must stay the same for a while before a broker counts as empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import msgspec

from rmq import names

Span = tuple[int, int]  # first offset that is there, next one that will be
Spans = Mapping[int, Span]  # by queue
Offsets = Mapping[str, Mapping[str, Mapping[int, int]]]  # topic -> group -> queue -> offset

SHOWN_MAX = 4  # rows named in a text
DELAYED, TIMED, HALVES = "delayed", "timed", "open transactions"


class Member(msgspec.Struct, frozen=True):
    """A group that is online, as its members describe it."""

    topics: frozenset[str]  # those that it subscribes
    broadcasts: bool = False


class Unconsumed(msgspec.Struct, frozen=True):
    """What is left at one broker."""

    by_group: Mapping[tuple[str, str], int] = {}  # (topic, group)
    internal: Mapping[str, int | None] = {}
    unread: Mapping[str, int] = {}  # topics that no group consumes
    broadcast: frozenset[str] = frozenset()  # topics of groups that broadcast
    ends: int = 0  # sum of the queues' ends: it grows when something comes or is revived

    @property
    def waited_for(self) -> int:
        return sum(self.by_group.values()) + sum(each or 0 for each in self.internal.values())

    @property
    def unknown(self) -> list[str]:
        return [what for what, count in self.internal.items() if count is None]

    def without(self, groups: Iterable[str]) -> Unconsumed:
        """The same without what these groups must consume."""
        left = {pair: count for pair, count in self.by_group.items() if pair[1] not in set(groups)}
        return Unconsumed(left, self.internal, self.unread, self.broadcast, self.ends)

    def text(self) -> str:
        """The largest first; "nothing" when nothing is waited for."""
        rows = [(count, f"{group} {count} of {topic}")
                for (topic, group), count in self.by_group.items()]  # fmt: skip
        rows += [(count, f"{what} {count}") for what, count in self.internal.items() if count]
        return _joined(rows) or "nothing"

    def unread_text(self) -> str:
        return _joined([(count, f"{count} of {topic}") for topic, count in self.unread.items()])


def _joined(rows: list[tuple[int, str]]) -> str:
    rows.sort(key=lambda row: (-row[0], row[1]))
    texts = [text for _, text in rows[:SHOWN_MAX]]
    if len(rows) > SHOWN_MAX:
        texts.append(f"{len(rows) - SHOWN_MAX} more")
    return ", ".join(texts)


def count(
    spans: Mapping[str, Spans],
    offsets: Offsets,
    members: Mapping[str, Member],
    groups: Set[str],
    internal: Mapping[str, int | None],
) -> Unconsumed:
    """spans: of topics that are not the system's. groups: those that the broker knows; offsets of
    a deleted group do not count any more."""
    groups = {each for each in groups if not names.is_system_group(each)}
    by_group: dict[tuple[str, str], int] = {}
    unread: dict[str, int] = {}
    broadcast = set()
    for topic, queues in spans.items():
        held = sum(end - first for first, end in queues.values())
        if not held:
            continue
        readers, has_broadcast = _readers(topic, offsets.get(topic, {}), members, groups)
        if has_broadcast:
            broadcast.add(topic)
        elif not readers:
            unread[topic] = held
        for group, committed in readers.items():
            lag = sum(max(0, end - max(first, committed.get(queue_id, 0)))
                      for queue_id, (first, end) in queues.items())  # fmt: skip
            if lag:
                by_group[topic, group] = lag
    ends = sum(end for queues in spans.values() for _, end in queues.values())
    return Unconsumed(by_group, dict(internal), unread, frozenset(broadcast), ends)


def _readers(
    topic: str, committed: Mapping[str, Mapping[int, int]], members: Mapping[str, Member],
    groups: Set[str],
) -> tuple[dict[str, Mapping[int, int]], bool]:  # fmt: skip
    """(group -> its offsets, for groups that must consume the topic; whether a group
    broadcasts)."""
    owner = retry_owner(topic, groups)
    if owner is not None:
        return {owner: committed.get(owner, {})}, False
    readers: dict[str, Mapping[int, int]] = {}
    has_broadcast = False
    for group in groups:
        member = members.get(group)
        if member is None:
            if group in committed:
                readers[group] = committed[group]
        elif topic in member.topics:
            if member.broadcasts:
                has_broadcast = True
            else:
                readers[group] = committed.get(group, {})
    return readers, has_broadcast


def retry_owner(topic: str, groups: Set[str]) -> str | None:
    """The group whose retry topic this is: %RETRY%g, and of pops %RETRY%g_t and %RETRY%g+t."""
    if not names.is_retry(topic):
        return None
    rest = topic[len(names.RETRY_PREFIX) :]
    if rest in groups:
        return rest
    cuts = [at for at, letter in enumerate(rest) if letter in "_+" and rest[:at] in groups]
    return rest[: cuts[-1]] if cuts else None
