"""Ackers: which brokers acknowledged sends, under which masterEpoch.

    check_ackers(messages, findings)      # two-ackers, stale-acker, epoch-overlap, unleased-acker

Where the epoch of acknowledgements is not known (plain masters and slaves), only leases are
checked.
"""

from __future__ import annotations

from collections import defaultdict

from tests.ha.findings import Findings
from tests.ha.history import ELSEWHERE, Stored
from tests.ha.messages import Messages, Queue, ends_at

MS = 1_000_000


def check_ackers(messages: Messages, findings: Findings) -> None:
    by_broker: dict[str, list[Stored]] = defaultdict(list)
    for stored in messages.stored.values():
        if stored.epoch >= 0:
            by_broker[stored.broker].append(stored)
    for broker, acks in by_broker.items():
        acks.sort(key=lambda each: each.at)
        _check_two_ackers(broker, acks, findings)
        _check_stale(messages, broker, acks, findings)
        _check_overlap(messages, acks, findings)
        findings.counts["epochs"] += len({each.epoch for each in acks})
    _check_unleased(messages, findings)


def _check_unleased(messages: Messages, findings: Findings) -> None:
    for fault in messages.faults:
        if fault.ends or not fault.fences_ms:
            continue
        begin, end = fault.at + fault.fences_ms * MS, ends_at(messages.faults, fault)
        for stored in messages.stored.values():
            sent = messages.sent.get(stored.message)
            if fault.fenced not in ("", stored.acker):
                continue
            if sent is not None and begin <= sent.at and stored.at < end:
                text = f"{stored.acker} acknowledges {stored.message}, and had no lease any more"
                findings.violation("unleased-acker", text, fault, sent, stored)


def _check_two_ackers(broker: str, acks: list[Stored], findings: Findings) -> None:
    first: dict[int, Stored] = {}
    told = set()
    for ack in acks:
        before = first.setdefault(ack.epoch, ack)
        if before.acker != ack.acker and (ack.epoch, ack.acker) not in told:
            told.add((ack.epoch, ack.acker))
            text = f"{broker}, epoch {ack.epoch}: {before.acker} and {ack.acker} acknowledge"
            findings.violation("two-ackers", text, before, ack)


def _check_stale(messages: Messages, broker: str, acks: list[Stored], findings: Findings) -> None:
    """Finds sends that an older epoch acknowledged although they began after an acknowledgement of
    a newer epoch."""
    begun = [(messages.sent[e.message].at, e) for e in acks if e.message in messages.sent]
    begun.sort(key=lambda each: each[0])
    newest: Stored | None = None
    next_ack = 0
    for at, ack in begun:
        while next_ack < len(acks) and acks[next_ack].at < at:
            if newest is None or acks[next_ack].epoch > newest.epoch:
                newest = acks[next_ack]
            next_ack += 1
        if newest is not None and ack.epoch < newest.epoch:
            text = (f"{broker}: {ack.acker} acknowledges {ack.message} in epoch {ack.epoch}, when "
                    f"epoch {newest.epoch} had begun")  # fmt: skip
            findings.violation("stale-acker", text, newest, messages.sent[ack.message], ack)


def _check_overlap(messages: Messages, acks: list[Stored], findings: Findings) -> None:
    """Checks that in each queue the offsets of a newer epoch are above those of all older ones."""
    ends: dict[Queue, dict[int, tuple[Stored, Stored]]] = defaultdict(dict)  # least, greatest
    for ack in acks:
        if ack.offset != ELSEWHERE:
            of_queue = ends[messages.queue(ack)]
            low, high = of_queue.get(ack.epoch, (ack, ack))
            of_queue[ack.epoch] = (
                ack if ack.offset < low.offset else low,
                ack if ack.offset > high.offset else high,
            )
    for queue, of_queue in ends.items():
        older: Stored | None = None
        for epoch in sorted(of_queue):
            low, high = of_queue[epoch]
            if older is not None and low.offset <= older.offset:
                text = (f"{queue}: epoch {older.epoch} acknowledged offset {older.offset}, epoch "
                        f"{epoch} then {low.offset}")  # fmt: skip
                findings.violation("epoch-overlap", text, older, low)
            older = high if older is None or high.offset > older.offset else older
