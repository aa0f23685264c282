"""Sync sets: what controllers say about who is in sync, against what brokers have.

check_sync_sets(messages, findings)      # set-history, behind-member

The master may be any member of the set, so each member has what was acknowledged. It can be seen
where a broker was asked for its log's end between two answers of controllers with the same epoch of
the set: then it was a member all the time. That also shows a replica that joined too early. A
broker that was started again may have lost the end of its log, and stays in the set until its
master notices; until all is settled it is not judged.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, pairwise

from tests.ha.findings import Findings
from tests.ha.group_offsets import restarts_of
from tests.ha.history import ELSEWHERE, InSync, LogEnd, Stored
from tests.ha.messages import Messages


def check_sync_sets(messages: Messages, findings: Findings) -> None:
    by_broker: dict[str, list[InSync]] = defaultdict(list)
    for look in messages.in_sync:
        by_broker[look.broker].append(look)
    for broker, looks in by_broker.items():
        looks.sort(key=lambda each: each.asked)
        _check_epochs(broker, looks, findings)
        _check_order(broker, looks, findings)
        _check_members(messages, broker, looks, findings)
        findings.counts["sets in sync"] += len({each.set_epoch for each in looks})


def _check_epochs(broker: str, looks: list[InSync], findings: Findings) -> None:
    """Checks that an epoch of the set has one set, and a masterEpoch one master, who is in it."""
    sets: dict[int, InSync] = {}
    masters: dict[int, InSync] = {}
    for look in looks:
        before = sets.setdefault(look.set_epoch, look)
        if {*before.members} != {*look.members}:
            text = (f"{broker}: {before.members} are in sync in epoch {look.set_epoch} of the set, "
                    f"and {look.members}")  # fmt: skip
            findings.violation("set-history", text, before, look)
        if not look.master:
            continue
        before = masters.setdefault(look.master_epoch, look)
        if before.master != look.master:
            text = f"{broker}, epoch {look.master_epoch}: {before.master} and {look.master} lead"
            findings.violation("set-history", text, before, look)
        if look.master not in look.members:
            text = f"{broker}: the master {look.master} is not in sync: {look.members}"
            findings.violation("set-history", text, look)


def _check_order(broker: str, looks: list[InSync], findings: Findings) -> None:
    """Checks that what is asked after an answer is not answered with older epochs."""
    answered = sorted(looks, key=lambda each: each.at)
    next_answer = 0
    set_look: InSync | None = None
    master_look: InSync | None = None
    for look in looks:
        while answered[next_answer].at < look.asked:
            told = answered[next_answer]
            next_answer += 1
            if set_look is None or told.set_epoch > set_look.set_epoch:
                set_look = told
            if master_look is None or told.master_epoch > master_look.master_epoch:
                master_look = told
        if set_look is not None and look.set_epoch < set_look.set_epoch:
            text = f"{broker}: epoch {look.set_epoch} of the set after {set_look.set_epoch}"
            findings.violation("set-history", text, set_look, look)
        if master_look is not None and look.master_epoch < master_look.master_epoch:
            text = f"{broker}: epoch {look.master_epoch} after {master_look.master_epoch}"
            findings.violation("set-history", text, master_look, look)


def _check_members(
    messages: Messages, broker: str, looks: list[InSync], findings: Findings
) -> None:
    acks = sorted((each for each in messages.stored.values()
                   if each.broker == broker and each.log_offset != ELSEWHERE),
                  key=lambda each: each.at)  # fmt: skip
    furthest = list(accumulate(acks, lambda a, b: b if b.log_offset > a.log_offset else a))
    ends = sorted((each for each in messages.log_ends if each.broker == broker),
                  key=lambda each: each.asked)  # fmt: skip
    next_ack = next_end = 0
    told: set[tuple[str, int]] = set()
    for before, after in pairwise(looks):
        while next_end < len(ends) and ends[next_end].asked < after.asked:
            end = ends[next_end]
            next_end += 1
            while next_ack < len(acks) and acks[next_ack].at < end.asked:
                next_ack += 1
            if not next_ack or not _was_member(end, before, after) or _is_new(messages, end):
                continue
            findings.counts["members judged"] += 1
            ack = furthest[next_ack - 1]
            if end.end <= ack.log_offset and (end.address, before.set_epoch) not in told:
                told.add((end.address, before.set_epoch))
                findings.violation("behind-member", _said(end, ack), before, ack, end)


def _was_member(end: LogEnd, before: InSync, after: InSync) -> bool:
    """Whether the broker was in the set while it was asked: no change is between the answers."""
    return (
        before.set_epoch == after.set_epoch and end.address in before.members
        and before.at <= end.asked and end.at <= after.asked
    )  # fmt: skip


def _is_new(messages: Messages, end: LogEnd) -> bool:
    return any(
        each.begin <= end.at and end.asked < each.end for each in restarts_of(messages, end.address)
    )


def _said(end: LogEnd, ack: Stored) -> str:
    return (f"{end.address} is in sync, and its log ends at {end.end}, when {ack.message} at "
            f"{ack.log_offset} was acknowledged already")  # fmt: skip
