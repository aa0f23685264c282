"""A log whose end was not confirmed when its core stopped: the next start puts all of it into
queues.

Goal: what consumers were not shown is in no queue file, and yet nothing is missing after a start.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shard import Shard

from tests.unit.flow.test_auto_switch_stream import ControlledMaster, boundary, fill, log_of
from tests.unit.flow.test_ha_stream import Slave


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_start_has_the_entries_of_all_records(tmp_path: Path, share: float) -> None:
    with ControlledMaster(tmp_path / "master") as master:
        end = fill(master, 3000)
        master.stop()
    log = log_of(tmp_path / "master" / "store", end)
    shown = boundary(log, int(len(log) * share))
    with Slave(tmp_path / "slave") as slave:
        slave.core.set_visible(0)
        at = 0
        while at < len(log):
            at = slave.core.append_raw(at, log[at : at + (1 << 20)])
        slave.core.set_visible(shown)
        slave.until(lambda stats: stats["log_dispatched"] == shown)
        slave.stop()
    with Shard(tmp_path / "slave", segment_bytes=1 << 20) as again:
        again.topic("t")
        again.until(lambda stats: stats["log_dispatched"] == end)
        assert again.core.queue_range(b"t", 0) == (0, 3000)
