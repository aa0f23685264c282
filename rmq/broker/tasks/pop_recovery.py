"""Pop recovery: offsets and groups of pops that no file has after a kill, or that a slave has not
copied when it is to lead.

The file names the log's end as of its writing (rmqLogOffset). What was popped since stands in the
log as check points (cext/flow/pop/pop_journal.pxd), which are timed messages: unless one was stored
behind the mark there is nothing to be read. An offset is only ever moved on by them.

A group that was made by its consumers, and popped, may be missing when its check points are not: it
is made again here, or what it had in its hands would be dropped as that of a deleted group and come
to nobody. One that an operator deleted is not: the mark is behind its pops then.

Without a mark (Apache RocketMQ wrote the file last) nothing is known, and what was popped in the
last seconds before a kill comes again, as it does there.

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
    """What the recovery reads and moves."""

    groups: GroupTable
    offsets: OffsetTable
    queues: QueueReader
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...


def recover(context: Context) -> int:
    """At a start: gives the reactor what was popped since the mark; how many offsets moved."""
    mark = context.offsets.mark
    start = first_timed(context, mark) if mark is not None else None
    if start is None:
        return 0
    found = _popped(context, start)
    _bring_back(context, found)
    return _move(context, found)


def take_over(context: Context) -> Callable[[], int]:
    """Of a slave that is to lead: makes groups that were not copied. What is returned moves
    offsets, once its queues name all of its log: until then what is not confirmed is in none."""
    copied = context.offsets.copied
    found = _popped(context, copied) if copied is not None else {}
    _bring_back(context, found)
    return lambda: _move(context, found)


def _popped(context: Context, start: int) -> Popped:
    """What is behind there, of topics that there are."""
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
    """Where the first message behind the mark is that may be a check point."""
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
            return mark  # a gap: nothing is known of what is behind it
        if entry.physical_offset < mark:
            low = middle + 1
        else:
            high = middle
    entry = context.queues.entry(view, low) if low < view.max_offset else None
    return entry.physical_offset if entry is not None else None
