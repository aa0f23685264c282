"""Entries of a queue, read as a broker does: what is absent is brought in, and asked for again.

The kernel may say of any page at any time that it can't be read without waiting (ABSENT), right
after it was written too. So no test may take one such answer for wrong.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from support.waiting import HANG_S

from cext.base.status import Status
from cext.store.queues.queue_table import QueueTable


def queue_entries(
    store: QueueTable, topic: bytes, queue_id: int, offset: int, count: int
) -> list[tuple[int, int, int]] | int:
    """store.entries(), which is never ABSENT here."""
    folder = Path(os.fsdecode(store.directory)) / topic.decode() / str(queue_id)
    end = time.monotonic() + HANG_S
    while (got := store.entries(topic, queue_id, offset, count)) == Status.ABSENT:
        assert time.monotonic() < end, f"{folder} stays absent at {offset}"
        for file in folder.iterdir():
            file.read_bytes()
    return got
