"""Places: rules about the offsets of messages in acknowledgements, at readers, and at the end.

check_places(messages, findings)      # lost, moved, two-messages, vanished, gap, unread, made-up,
                                      # rolled-back, overtaken
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tests.ha.findings import Findings
from tests.ha.history import ELSEWHERE, Delivered, Stored
from tests.ha.messages import Messages, Queue

Shown = Delivered | Stored


def check_places(messages: Messages, findings: Findings) -> None:
    shown = _shown(messages, findings)
    _check_final_read(messages, findings)
    at_the_end = {each.message: each for row in messages.final.values() for each in row}
    read = {queue.topic for queue in messages.drained}
    _check_lost(messages, at_the_end, read, findings)
    _check_vanished(messages, at_the_end, findings)
    _check_senders(messages, findings)
    _count_batches(messages, at_the_end, findings)
    _check_overtaken(messages, shown, findings)


def _shown(messages: Messages, findings: Findings) -> dict[Queue, dict[int, Shown]]:
    """The first message at each offset. Reports two-messages if another message is shown there
    later, and moved if the same message is at another place of the log."""
    shown: dict[Queue, dict[int, Shown]] = defaultdict(dict)
    events: list[Shown] = [*messages.stored.values(), *messages.deliveries]
    events += [each for row in messages.final.values() for each in row]
    for event in events:
        if event.offset == ELSEWHERE:
            continue
        queue = messages.queue(event)
        before = shown[queue].setdefault(event.offset, event)
        if before is event:
            continue
        if before.message != event.message:
            text = f"{queue} at {event.offset}: {before.message}, and then {event.message}"
            findings.violation("two-messages", text, before, event)
        elif _differ(before.log_offset, event.log_offset):
            text = (f"{queue} at {event.offset}: {event.message} was at {before.log_offset} of the "
                    f"log, is at {event.log_offset}")  # fmt: skip
            findings.violation("moved", text, before, event)
    return shown


def _check_final_read(messages: Messages, findings: Findings) -> None:
    """Checks that the final read saw each offset of each queue."""
    for queue, drained in messages.drained.items():
        found = {each.offset for each in messages.final.get(queue, ())}
        missing = [at for at in range(drained.begin, drained.end) if at not in found]
        if missing:
            text = f"{queue}: nothing at {missing[0]}, and at {len(missing) - 1} offsets more"
            findings.violation("gap", text, drained)
    for queue, row in messages.final.items():
        if queue not in messages.drained:
            findings.violation("unread", f"{queue} was not read to its end", row[-1])
    messages_twice = sum(
        len(row) - len({each.message for each in row}) for row in messages.final.values()
    )
    findings.counts["stored twice"] += messages_twice
    findings.counts["read at the end"] += sum(map(len, messages.final.values()))


def _check_lost(
    messages: Messages, at_the_end: dict[str, Delivered], read: set[str], findings: Findings
) -> None:
    unread: dict[str, Stored] = {}
    for stored in messages.promised():
        findings.counts["acknowledged"] += 1
        if stored.topic not in read:
            unread.setdefault(stored.topic, stored)
            continue
        final = at_the_end.get(stored.message)
        sent = messages.sent.get(stored.message)
        events = [stored] if sent is None else [sent, stored]
        if final is None:
            if not _is_expired(messages, stored):
                text = f"{stored.message} was acknowledged at {_where(stored)}, and is not there"
                findings.violation("lost", text, *events)
        elif stored.offset != ELSEWHERE and not _is_there(messages, stored, final):
            text = f"{stored.message}: at {_where(final)}, acknowledged at {_where(stored)}"
            findings.violation("moved", text, stored, final)
    for topic, stored in unread.items():
        findings.violation("unread", f"{topic} was not read at the end", stored)


def _check_vanished(
    messages: Messages, at_the_end: dict[str, Delivered], findings: Findings
) -> None:
    final = {(queue, each.offset) for queue, row in messages.final.items() for each in row}
    told: set[str] = set()
    for event in messages.deliveries:
        queue = messages.queue(event)
        if event.offset == ELSEWHERE:
            there = event.message in at_the_end
        else:
            there = (queue, event.offset) in final  # another message there: rule two-messages
        if there or event.message in told or _is_expired(messages, event):
            continue
        told.add(event.message)
        text = f"{event.message} was delivered to {event.group} at {_where(event)}, and is gone"
        findings.violation("vanished", text, event)


def _check_senders(messages: Messages, findings: Findings) -> None:
    told: set[str] = set()
    final = [each for row in messages.final.values() for each in row]
    for event in [*messages.deliveries, *final]:
        name = event.message
        if name not in messages.sent:
            if name not in told:
                findings.violation("made-up", f"{name} was sent by nobody", event)
            told.add(name)
        decided = messages.decided.get(name)
        if decided is not None and not decided.commit and name not in told:
            told.add(name)
            findings.violation("rolled-back", f"{name} was rolled back", decided, event)
    findings.counts["refused, and there"] += len({e.message for e in final} & set(messages.refused))
    findings.counts["unknown, and there"] += len({e.message for e in final} & set(messages.unknown))
    findings.counts["refused"] += len(messages.refused)
    findings.counts["unknown"] += len(messages.unknown)


def _count_batches(
    messages: Messages, at_the_end: dict[str, Delivered], findings: Findings
) -> None:
    """A batch that was answered is there as a whole: each of its messages is promised. One that was
    not may be there in part, if its broker was killed or cut off while it wrote."""
    batches: dict[str, list[bool]] = defaultdict(list)
    for sent in messages.sent.values():
        if sent.batch:
            batches[sent.batch].append(sent.message in at_the_end)
    findings.counts["batches"] += len(batches)
    findings.counts["batches in part"] += sum(any(row) and not all(row) for row in batches.values())


def _check_overtaken(
    messages: Messages, shown: dict[Queue, dict[int, Shown]], findings: Findings
) -> None:
    """Checks the order in each queue: an acknowledged message is not behind one whose send began
    only after that acknowledgement."""
    for queue, places in shown.items():
        offsets = sorted(places)
        rows = []
        for offset in offsets:
            sent = messages.sent.get(places[offset].message)
            stored = messages.stored.get(places[offset].message)
            if sent is None or sent.kind in ("delayed", "timed", "transaction"):
                continue  # these get their place later than they are sent
            own = stored is not None and (messages.queue(stored), stored.offset) == (queue, offset)
            rows.append((offset, sent.at, stored.at if stored is not None and own else 1 << 62))
        if not rows:
            continue
        at = np.array(rows, np.int64)
        latest = np.maximum.accumulate(at[:, 1])
        for late in np.flatnonzero(at[1:, 2] < latest[:-1]) + 1:
            early = int(np.argmax(at[:late, 1]))
            first, second = places[int(at[late, 0])], places[int(at[early, 0])]
            text = (f"{queue}: {second.message} at {second.offset} was sent when {first.message} "
                    f"at {first.offset} was acknowledged already")  # fmt: skip
            findings.violation("overtaken", text, messages.stored[first.message],
                               messages.sent[second.message])  # fmt: skip


def _is_expired(messages: Messages, event: Shown) -> bool:
    """Whether the queue began above the event's offset at the end: by retention, which is no
    loss."""
    drained = messages.drained.get(messages.queue(event))
    return drained is not None and 0 <= event.offset < drained.begin


def _is_there(messages: Messages, stored: Stored, final: Delivered) -> bool:
    """Whether the message is at the place of its acknowledgement; `final`: a place where it is."""
    if _place(final) == _place(stored):
        return True
    row = messages.final[messages.queue(stored)]
    return any(each.offset == stored.offset and each.message == stored.message for each in row)


def _differ(one: int, other: int) -> bool:
    return one != other and ELSEWHERE not in (one, other)


def _place(event: Shown) -> tuple[str, str, int, int]:
    return event.broker, event.topic, event.queue_id, event.offset


def _where(event: Shown) -> str:
    if event.offset == ELSEWHERE:
        return f"{event.topic} of {event.broker}"
    return f"{event.topic}/{event.queue_id} of {event.broker}, offset {event.offset}"
