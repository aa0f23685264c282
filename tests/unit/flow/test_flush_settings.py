"""A change of any of the three settings of ASYNC_FLUSH takes effect at once, also in a wait that
has begun. Without this the flusher would sleep for days here, and only the flusher syncs the
log."""

from pathlib import Path

import pytest
from support.shard import Shard, send
from support.waiting import wait_until

NEVER_MS = 1_000_000_000
PAGES = 1_000_000


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({"flush_interval_ms": 1}, {"flush_least_pages": 0}),
        ({"flush_least_pages": 0}, {"flush_interval_ms": 1}),
        ({"flush_thorough_ms": 1}, {"flush_interval_ms": 1}),
    ],
)
def test_a_flush_setting_counts_at_once(
    tmp_path: Path, changes: dict[str, int], others: dict[str, int]
) -> None:
    slow = {"flush_interval_ms": NEVER_MS, "flush_thorough_ms": NEVER_MS,
            "flush_least_pages": PAGES}  # fmt: skip
    with Shard(tmp_path, **(slow | others)) as shard:
        shard.topic("t")
        assert shard.connect().ask(send("t", b"body", 1)).code == 0
        written, durable = shard.core.log_range()[1:]
        assert (written > 0, durable) == (True, 0)
        for name, value in changes.items():
            shard.core.set_option(name, value)
        wait_until(lambda: shard.core.log_range()[2] == written)
