"""Queue reads: reads entries of a queue as a broker does, again when an absent page is in memory.

The kernel may report of any page, even of one that was just written, that it cannot be read without
waiting (ABSENT). So a single answer of that kind is not an error.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from support.waiting import HANG_S

from cext.base.status import Status
from cext.store.queues.queue_store import QueueStore
from cext.testing.store_probe import queues_entries


def queue_entries(
    store: QueueStore, topic: bytes, queue_id: int, offset: int, count: int
) -> list[tuple[int, int, int]] | int:
    """queues_entries(), repeated until the answer is not ABSENT."""
    folder = Path(os.fsdecode(store.directory)) / topic.decode() / str(queue_id)
    end = time.monotonic() + HANG_S
    while (got := queues_entries(store, topic, queue_id, offset, count)) == Status.ABSENT:
        assert time.monotonic() < end, f"{folder} stays absent at {offset}"
        for file in folder.iterdir():
            file.read_bytes()
    return got
