"""A workload of the OpenMessaging benchmark at a cluster of two brokers, of either kind.

Goal: `rmq bench omb` asks for nothing that Apache's brokers lack. The numbers that it counts are
tested in tests/process/test_omb_workloads.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from compat.targets import ROOT, Target
from support.waiting import HANG_S

WORKLOAD = {
    "name": "two topics", "topics": 2, "partitionsPerTopic": 4, "messageSize": 1024,
    "subscriptionsPerTopic": 2, "consumerPerSubscription": 2, "producersPerTopic": 2,
    "producerRate": 500, "testDurationMinutes": 0.05, "warmupDurationMinutes": 0,
}  # fmt: skip


def test_a_workload_runs_at_two_brokers(two_shards: Target, tmp_path: Path) -> None:
    workload = tmp_path / "two.yaml"
    workload.write_text(json.dumps(WORKLOAD))
    done = subprocess.run(
        [sys.executable, "-m", "rmq", "bench", "omb", "-n", two_shards.name_server, workload,
         "--interval", "1", "--out", "-"],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert sum(result["publishRate"]) > 0 and sum(result["consumeRate"]) > 0
    assert not any(result["publishErrorRate"])
    assert result["aggregatedEndToEndLatencyMax"] >= result["aggregatedEndToEndLatency50pct"] > 0
