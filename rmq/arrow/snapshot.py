"""Snapshot: which messages a batch read gives: start and end of every queue, at one moment."""

from __future__ import annotations

import logging

from rmq.arrow.offsets import QueueKey, end_of, start_of
from rmq.arrow.options import OptionError, Options
from rmq.arrow.queues import Queues, describe

log = logging.getLogger("rmq.arrow")


def snapshot(view: Queues, options: Options) -> dict[QueueKey, tuple[int, int]]:
    """Queue -> [start, end); OptionError when a start is behind its end."""
    first, last = start_of(options), end_of(options)
    ends = view.find()
    starts = view.resolve(first, ends)
    stops = view.resolve(last, ends)
    found = {}
    for key in ends:
        start, stop = starts[key], stops[key]
        if start > stop:
            if {first.kind, last.kind} & {"offsets", "times"}:
                raise OptionError(f"{describe(key)}: the start {start} is behind the end {stop}")
            stop = start  # a start time or the group's offset is behind the end: nothing to read
        found[key] = (start, stop)
    return found
