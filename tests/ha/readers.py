"""Readers: rules about what groups and their readers were given, and in which order.

check_readers(messages, findings)     # undelivered, reader-order, group-order, key-order,
                                      # two-owners

Duplicates are only counted: they are no violation, as delivery is at least once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.ha.findings import Findings
from tests.ha.group_offsets import Loss, losses_of
from tests.ha.history import Assigned, Delivered, Reset, Stored, Subscribed, Worked
from tests.ha.messages import IN_ORDER, PULL, GroupQueue, Messages

BACK_NS = 35_000_000_000  # until readers have gone back to the master, which they try after 30 s
AHEAD_NS = 1_000_000_000  # how long after a reset's answer messages pulled before it may come


def check_readers(messages: Messages, findings: Findings) -> None:
    _check_undelivered(messages, findings)
    losses = losses_of(messages)
    for place, steps in messages.steps.items():
        _check_reader_order(place, steps, losses, findings)
        in_order = [e for e in steps if isinstance(e, Delivered) and e.how == IN_ORDER]
        if in_order:
            _check_group_order(place, in_order, steps, findings)
        _check_key_order(messages, place, steps, findings)
    members = set()
    for place, work in messages.worked.items():
        _check_owners(messages, place, work, findings)
        members |= {each.process for each in work}
    findings.counts["members of groups in order"] += len(members)


def _check_undelivered(messages: Messages, findings: Findings) -> None:
    given = _given(messages)
    delivered = len(messages.deliveries)
    findings.counts["delivered"] += delivered
    findings.counts["duplicates"] += delivered - sum(map(len, given.values()))
    for stored, wanted in undelivered(messages):
        text = f"{wanted.group} never got {stored.message} of {stored.topic}"
        findings.violation("undelivered", text, stored, wanted)


def _given(messages: Messages) -> dict[str, set[str]]:
    """group -> the messages that it was given."""
    given: dict[str, set[str]] = defaultdict(set)
    for event in messages.deliveries:
        given[event.group].add(event.message)
    return given


def undelivered(messages: Messages) -> Iterator[tuple[Stored, Subscribed]]:
    """Finds messages that a group must get and has not got."""
    given = _given(messages)
    for wanted in {(each.group, each.topic): each for each in messages.subscribed}.values():
        for stored in messages.promised():
            if (
                stored.topic == wanted.topic
                and stored.message not in given[wanted.group]
                and not _skipped(messages, wanted.group, stored)
            ):
                yield stored, wanted


def _skipped(messages: Messages, group: str, stored: Stored) -> bool:
    """Whether a reset moved the group beyond the message before it was given a later one. (A master
    that was cut off may have held the message back until then.)"""
    steps = messages.steps.get(GroupQueue(group, messages.queue(stored)), [])
    resets = [e.asked for e in steps if isinstance(e, Reset) and e.offset > stored.offset]
    behind = [e.at for e in steps if isinstance(e, Delivered) and e.offset > stored.offset]
    return any(min(behind, default=asked + 1) > asked for asked in resets)


def _check_reader_order(
    place: GroupQueue, steps: list[Delivered | Assigned | Reset], losses: list[Loss],
    findings: Findings,
) -> None:  # fmt: skip
    """Checks, for each process that pulls, that offsets rise, and do so from the assigned offset on
    when it was assigned the queue. A reset may send it back once, also if it was given messages
    after the reset that it had pulled ahead."""
    last: dict[str, Delivered | Assigned] = {}
    followed: dict[str, int] = {}  # when a reader went back by a reset
    resets = sorted((e for e in steps if isinstance(e, Reset)), key=lambda each: each.at)
    for event in steps:
        if isinstance(event, Assigned):
            last[event.process] = event
        elif isinstance(event, Delivered) and event.how == PULL:
            before = last.get(event.process)
            last[event.process] = event
            if before is None:
                continue
            low = before.offset if isinstance(before, Assigned) else before.offset + 1
            if event.offset >= low:
                continue
            since = max(before.at - AHEAD_NS, followed.get(event.process, 0))
            if _reset_between(resets, before.at, event.at) or _reset_to(resets, since, event):
                followed[event.process] = event.at
            elif not _repeated(resets, losses, event):
                text = f"{place}: {event.process} was at {before.offset}, was given {event.offset}"
                findings.violation("reader-order", text, before, event)


def _reset_between(resets: list[Reset], begin: int, end: int) -> bool:
    return any(each.asked <= end and (each.at >= begin or not each.acked) for each in resets)


def _reset_to(resets: list[Reset], since: int, event: Delivered) -> bool:
    return any(each.offset == event.offset and since <= each.at <= event.at for each in resets)


def _repeated(resets: list[Reset], losses: list[Loss], event: Delivered) -> bool:
    """Whether the event is at a reset's place, and a fault may have lost that the group had gone
    there already, as it may lose a commit: then the group goes there again. A slave may have been
    told that it went also when all is well, by a reader that does not know it yet."""
    return any(
        each.offset == event.offset and loss.fault <= event.at
        and loss.begin <= each.at <= loss.end + (BACK_NS if loss.changes_master else 0)
        for each in resets for loss in losses
    )  # fmt: skip


def _check_group_order(
    place: GroupQueue, deliveries: list[Delivered], steps: list[Delivered | Assigned | Reset],
    findings: Findings,
) -> None:  # fmt: skip
    """Checks that a message new to the group has the offset behind the greatest it has seen."""
    skipping = [e.offset for e in steps if isinstance(e, Reset)]
    deliveries.sort(key=lambda each: each.at)
    greatest = deliveries[0]
    for event in deliveries[1:]:
        if event.offset <= greatest.offset:
            continue
        if event.offset != greatest.offset + 1 and event.offset not in skipping:
            text = f"{place}: {event.offset} came after {greatest.offset}"
            findings.violation("group-order", text, greatest, event)
        greatest = event


def _check_owners(
    messages: Messages, place: GroupQueue, work: list[Worked], findings: Findings
) -> None:
    """Checks that two members do not work on the queue at once. After a change of masters they may:
    the next master does not know the locks, and they are only counted."""
    work.sort(key=lambda each: each.began)
    changes = [each.at for each in messages.faults if each.loses_locks and not each.ends]
    longest = work[0]
    for event in work[1:]:
        if event.began < longest.at and event.process != longest.process:
            if any(at <= event.at for at in changes):
                findings.counts["two owners after a change of masters"] += 1
            else:
                text = f"{place}: {event.process} works at {event.offset} while {longest.process} "
                text += f"works at {longest.offset}"
                findings.violation("two-owners", text, longest, event)
        longest = max(longest, event, key=lambda each: each.at)


def _check_key_order(
    messages: Messages, place: GroupQueue, steps: list[Delivered | Assigned | Reset],
    findings: Findings,
) -> None:  # fmt: skip
    """Checks the first deliveries of a key's messages, by time: a message must not come after one
    that was sent when it had been acknowledged already. If keys move to another queue while theirs
    is away, each queue is checked by itself. An order that comes of resets, one that skipped
    messages and one that went back to them, is the operator's."""
    newest: dict[str, Delivered] = {}  # key -> the delivered message that was sent last
    seen: set[str] = set()
    events = [each for each in steps if isinstance(each, Delivered)]
    for event in sorted(events, key=lambda each: each.at):
        sent = messages.sent.get(event.message)
        if sent is None or not sent.key or event.message in seen:
            continue
        seen.add(event.message)
        stored = messages.stored.get(event.message)
        before = newest.get(sent.key)
        if before is None or messages.sent[before.message].at < sent.at:
            newest[sent.key] = event
        elif stored is not None and stored.at < messages.sent[before.message].at:
            if _sent_back(steps, before.at, event.at):
                continue
            text = f"{place}, key {sent.key}: {before.message} came before {event.message}"
            findings.violation("key-order", text, stored, messages.sent[before.message], before,
                               event)  # fmt: skip


def _sent_back(steps: list[Delivered | Assigned | Reset], begin: int, end: int) -> bool:
    """Whether an operator may have moved the readers between these times: by a reset at that time,
    or by an earlier one that a reader followed then."""
    resets = [each for each in steps if isinstance(each, Reset) and each.asked <= end]
    if any(each.at >= begin or not each.acked for each in resets):
        return True
    return bool(resets) and any(
        isinstance(each, Assigned) and begin <= each.at <= end for each in steps
    )
