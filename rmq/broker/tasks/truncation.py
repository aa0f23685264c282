"""Truncation: corrects control's files when the log is cut back (cext/store/truncation.pyx).

Offsets of groups, of delay levels and of timed messages are in no record: they may say that
something is done although the proof is in the part of the log that is cut. So that part is read
before the cut, and what it shows is kept with the truncation (its note), so that no crash loses it:

    in the part that is cut      what it means                    what happens to the files
    a check point of a pop       these messages are in flight     the group goes on where it begins
    an op message                these halves are ended           they are open: so are all behind
    anything                     messages revived, acks           the revive log is read anew
    n records                    at most n delayed messages of    each level goes back by n, at most
                                 a level were delivered in it    to where its queue begins
    the least due time           timed messages due before were   their position goes back to it
                                 delivered below
    and in any case                                               no offset is beyond its queue, nor
                                                                  is a batch popped in order: late
                                                                  acks of it would pass over what is
                                                                  stored there next

So nothing is lost, and some delayed messages come twice.

    summary = summary_of(core, offset, segment_bytes, commit_log)
    core.truncate(offset, summary.note(), summary.due_ms, summary.timers_end, deleted)
    finish(core, config_directory)      at every start, too: after open(), before start()

A slave gets the master's offsets afterwards; the offsets made here are safe without those.

Example: a pop of g gave out t/0, offsets 40 to 47, and its check point is cut: consumerOffset.json
says 48 for t@g, and 40 after finish().
"""

import contextlib
import logging
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rmq import names
from rmq.broker.core_seam import LogCalls, QueueCalls, ReplicaCalls
from rmq.broker.tables import delay_levels, offsets, pop_orders
from rmq.errors import ProtocolError
from rmq.format.message import StoredMessage, decode_message
from rmq.format.store_files import Segment, next_record
from rmq.limits import TOPIC_QUEUES_MAX

log = logging.getLogger("rmq.broker.truncation")

OFFSET_MAX = 2**63 - 1
DUE_SLACK_MS = 60_000  # due times are rounded, and the clocks of two brokers differ
OFFSET_DIGITS_MAX = 19


Ends = dict[tuple[bytes, int], int]


class CoreCalls(LogCalls, QueueCalls, ReplicaCalls, Protocol):
    """What is used here of the core."""


class Summary(msgspec.Struct):
    """What is found in the part of the log that is cut."""

    offset: int
    records: int = 0
    open_half: int = OFFSET_MAX  # half messages from here on may be open
    due_ms: int = OFFSET_MAX  # timed messages due before it were delivered below the offset ..
    timers_end: int = OFFSET_MAX  # .. when they are below this offset of their queue
    popped: dict[str, dict[int, int]] = {}  # topic@group -> queue id -> offset to go on from

    def note(self) -> bytes:
        return msgspec.json.encode(self)


# ---- before


def summary_of(core: CoreCalls, offset: int, segment_bytes: int, commit_log: Path) -> Summary:
    """Reads the log, whose files are in `commit_log`, from `offset` to its end."""
    found = Summary(offset)
    at, end = offset, core.log_range()[1]
    while at < end:
        record = core.read_record(at)
        if record is None:
            at = behind(at, segment_bytes, commit_log)
            continue
        at += len(record)
        with contextlib.suppress(ProtocolError):
            look_at(found, decode_message(record)[0])
    return found


def behind(at: int, segment_bytes: int, commit_log: Path) -> int:
    """Where to go on reading when no record begins at `at`, because a segment ends there or is
    damaged. Records behind damage were delivered and must be counted, as recovery found them."""
    start = at - at % segment_bytes
    try:
        segment = Segment(commit_log / f"{start:020}")
    except OSError:
        return start + segment_bytes
    try:
        found = next_record(segment, at - start)
    finally:
        segment.close()
    return start + (found if found >= 0 else segment_bytes)


def look_at(found: Summary, message: StoredMessage) -> None:
    found.records += 1
    properties = message.properties
    if message.topic == names.OP_HALF_TOPIC:
        for text in message.body.decode("ascii", "replace").split(","):
            if text.isdecimal() and len(text) < OFFSET_DIGITS_MAX:
                found.open_half = min(found.open_half, int(text))
    if message.topic == names.TIMER_TOPIC:
        found.timers_end = min(found.timers_end, message.queue_offset)
    # A message that was put back for later was due before: not earlier than it was stored.
    for name in ("TIMER_OUT_MS", "TIMER_ENQUEUE_MS"):
        if name == "TIMER_OUT_MS" or message.topic == names.TIMER_TOPIC:
            due = properties.get(name, "")
            if due.isdecimal() and len(due) < OFFSET_DIGITS_MAX:
                found.due_ms = min(found.due_ms, max(int(due) - DUE_SLACK_MS, 0))
    if "POP_NEXT" in properties:
        look_at_pop(found, message.body)


def look_at_pop(found: Summary, body: bytes) -> None:
    """Looks at a check point: {"t": topic, "c": group, "q": queue id, "so": first offset, ..}."""
    try:
        point: Any = msgspec.json.decode(body)
        queue, start = int(point["q"]), int(point["so"])
        places = found.popped.setdefault(f"{point['t']}@{point['c']}", {})
    except (ValueError, TypeError, KeyError):
        return
    places[queue] = min(places.get(queue, start), start)


# ---- after


def finish(core: CoreCalls, config: Path) -> None:
    """Finishes a truncation, if there is one; to be called between open() and start()."""
    note = core.truncation
    if note is None:
        return
    found = msgspec.json.decode(note, type=Summary) if note else Summary(0, OFFSET_MAX, 0)
    ends = core.queue_ends()
    lower_offsets(ends, config, found)
    lower_delays(core, ends, config, found)
    truncate_batches(ends, config)
    core.finish_truncation()
    log.warning("the log was cut at %d: %d records were taken from it", found.offset, found.records)


def lower_offsets(ends: Ends, config: Path, found: Summary) -> None:
    offsets.rewrite(config, lambda content: lower_groups(ends, content, found))


def lower_groups(ends: Ends, content: dict[Any, Any], found: Summary) -> None:
    """Changes the content of consumerOffset.json."""
    table: Any = content.get("offsetTable") or {}
    for key, queues in found.popped.items():
        for queue, start in queues.items():
            lower(table.get(key), queue, start)
    lower(table.get(f"{names.HALF_TOPIC}@{names.TRANSACTION_GROUP}"), 0, found.open_half)
    if found.open_half < OFFSET_MAX:
        lower(table.get(f"{names.OP_HALF_TOPIC}@{names.TRANSACTION_GROUP}"), 0, 0)
    for part in (table, content.get("resetOffsetTable") or {}):
        for key, queues in list(part.items()) if isinstance(part, dict) else ():
            topic, _, group = str(key).partition("@")
            if group == names.REVIVE_GROUP:
                del part[key]  # even an offset of 0 would say that something is done
                continue
            for queue in list(queues) if isinstance(queues, dict) else ():
                lower(queues, queue, end_of(ends, topic, queue))
    mark = content.get("rmqLogOffset")
    if isinstance(mark, int):
        content["rmqLogOffset"] = min(mark, found.offset)


def lower_delays(core: CoreCalls, ends: Ends, config: Path, found: Summary) -> None:
    """Moves the levels' offsets back, but not below what their queues still have: a start would
    take such an offset for an error."""
    file = delay_levels.offset_file(config)
    content = file.load()
    table: Any = (content or {}).get("offsetTable")
    if not content or not isinstance(table, dict):
        return
    for level, offset in list(table.items()):
        if isinstance(offset, int) and str(level).isdecimal():
            end = end_of(ends, names.SCHEDULE_TOPIC, int(level) - 1)
            minimum = queue_begin(core, names.SCHEDULE_TOPIC, int(level) - 1)
            table[level] = max(min(offset, end) - found.records, minimum)
    file.save(content)
    file.settle()


def truncate_batches(ends: Ends, config: Path) -> None:
    """Changes the content of consumerOrderInfo.json. Batches stay, because an ack that belongs to
    no batch would move the group's offset."""
    file = pop_orders.order_file(config)
    content = file.load()
    table: Any = (content or {}).get("table")
    if not content or not isinstance(table, dict):
        return
    for key, queues in table.items():
        topic, _, _ = str(key).partition("@")
        for queue, row in queues.items() if isinstance(queues, dict) else ():
            with contextlib.suppress(KeyError, IndexError, TypeError, ValueError, AttributeError):
                truncate_batch(row, end_of(ends, topic, queue))
    file.save(content)
    file.settle()


def truncate_batch(row: dict[str, Any], end: int) -> None:
    """Removes offsets from the end of the queue on from a batch. If none is left, the batch becomes
    one of another time, whose acks change nothing and which keeps nobody from popping."""
    first, *behind = (int(offset) for offset in row["o"])
    kept = [first, *(offset for offset in behind if first + offset < end)]
    row["o"] = kept
    row["cm"] = int(row.get("cm") or 0) & (1 << len(kept)) - 1
    if first >= end:
        row.update(popTime=0, cm=0, oc={}, ot={})


def end_of(ends: Ends, topic: str, queue: Any) -> int:
    """Where the queue ends; 0 if there is no such queue."""
    return ends.get((topic.encode(), int(queue)), 0) if str(queue).isdecimal() else 0


def queue_begin(core: CoreCalls, topic: str, queue: int) -> int:
    """The queue's first offset; 0 if there is no such queue."""
    is_one = 0 <= queue < TOPIC_QUEUES_MAX
    return (core.queue_range(topic.encode(), queue) or (0, 0))[0] if is_one else 0


def lower(queues: Any, queue: Any, offset: int) -> None:
    """Lowers the queue's entry to `offset` if it is above. Keys are texts or, in files of Java's
    broker, numbers."""
    for key in (queue, str(queue)):
        if isinstance(queues, dict) and isinstance(queues.get(key), int):
            queues[key] = min(queues[key], offset)
