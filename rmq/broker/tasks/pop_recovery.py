"""Pop recovery: finds offsets and groups of pops that no file has after a kill, or that a slave has
not copied before it leads.

The offset file names the log's end at the time of its writing (rmqLogOffset, the mark). Pops after
the mark are in the log as check points (cext/flow/pop/pop_journal.pxd), which are timed messages:
if none was stored behind the mark, there is nothing to read. A check point only ever moves an
offset forward.

A group that was made by its consumers, and has popped, may be missing although its check points are
in the log. It is made again here; otherwise the messages that it holds would be dropped, as if the
group had been deleted, and nobody would get them. A group that an operator deleted is not made
again: the mark is then behind its pops.

Without a mark (Apache RocketMQ wrote the file last) nothing is known, and messages that were popped
in the last seconds before a kill come again, as with Apache's broker.

Example: mark 5,000, the timed messages' queue has an entry at 7,200: the log is read from 7,200 on.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from rmq.broker.core_seam import LogCalls, OffsetCalls, QueueCalls
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.topics import TopicTable
from rmq.config import Settings
from rmq.errors import StoreError
from rmq.names import TIMER_TOPIC, revive_topic

log = logging.getLogger("rmq.broker.pop_recovery")


Popped = dict[tuple[bytes, bytes, int], int]  # (topic, group, queue id) -> the next offset


class CoreCalls(LogCalls, OffsetCalls, QueueCalls, Protocol):
    """What is used here of the core."""


class Context(Protocol):
    """What is used here of the broker."""

    groups: GroupTable
    offsets: OffsetTable
    queues: QueueReader
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...


def recover(context: Context) -> int:
    """At a start: moves the reactor's offsets over what was popped since the mark; returns how many
    offsets were moved."""
    mark = context.offsets.mark
    start = first_timed(context, mark) if mark is not None else None
    if start is None:
        return 0
    found = _popped(context, start)
    _bring_back(context, found)
    return _move(context, found)


def take_over(context: Context) -> Callable[[], int]:
    """For a slave that will lead: makes groups that were not copied. Returns a function that moves
    the offsets; it must be called when the queues cover all of the log, because until then
    unconfirmed messages are in no queue."""
    copied = context.offsets.copied
    found = _popped(context, copied) if copied is not None else {}
    _bring_back(context, found)
    return lambda: _move(context, found)


def _popped(context: Context, start: int) -> Popped:
    """The pops behind `start`, of topics that exist."""
    try:
        found = context.core.popped_since(max(start, context.core.log_range()[0]))
    except StoreError as error:
        log.error("what was popped before the last end comes again: %s", error)
        return {}
    return {
        pop: offset
        for pop, offset in found.items()
        if pop[0].decode(errors="replace") in context.topics
    }


def _bring_back(context: Context, found: Popped) -> None:
    for _, group, _ in found:
        context.groups.bring_back(group.decode(errors="replace"))


def _move(context: Context, found: Popped) -> int:
    moved = 0
    for (topic, group, queue_id), offset in found.items():
        end = (context.core.queue_range(topic, queue_id) or (0, 0))[1]
        if context.core.query_offset(group, topic, queue_id) < offset <= end:
            context.core.commit_offset(group, topic, queue_id, offset)
            moved += 1
    if moved:
        log.info("pops before the last end: %d offsets are read from the log", moved)
    return moved


def first_timed(context: Context, mark: int) -> int | None:
    """The log offset of the first message behind the mark that may be a check point."""
    revive = revive_topic(context.settings.brokerClusterName)
    places = [(TIMER_TOPIC, 0)]
    config = context.topics.get(revive)
    places += [(revive, i) for i in range(config.read_queues if config is not None else 0)]
    found = [first_behind(context, topic, queue_id, mark) for topic, queue_id in places]
    return min((offset for offset in found if offset is not None), default=None)


def first_behind(context: Context, topic: str, queue_id: int, mark: int) -> int | None:
    """The log offset of the queue's first message behind the mark."""
    view = context.queues.view(topic, queue_id)
    if view is None:
        return None
    low, high = view.min_offset, view.max_offset
    while low < high:
        middle = (low + high) // 2
        entry = context.queues.entry(view, middle)
        if entry is None:
            return mark  # a gap: what is behind it is not known
        if entry.physical_offset < mark:
            low = middle + 1
        else:
            high = middle
    entry = context.queues.entry(view, low) if low < view.max_offset else None
    return entry.physical_offset if entry is not None else None
