"""bench/run.py measures a row from start to table.

Goal: servers start, load runs, ratios and JSON come out. Method: the quick mode, one row that needs
both servers. What this cannot show: that goals are met; nothing here is timed.
"""

import json
import shutil
import subprocess

import pytest
from support.tree_process import run_python


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for floor.c")
def test_a_quick_run_measures_every_row(tmp_path):
    results = tmp_path / "results.json"

    def measure(*options: str) -> "subprocess.CompletedProcess[str]":
        return run_python("bench/run.py", "--quick", "--dir", tmp_path, "--json", results, *options)

    run = measure()
    rows = json.loads(results.read_text())["rows"]
    for _ in range(3):  # its windows are of 0.1 s, and a disk may take that for one sync
        failed = {row["name"] for row in rows if row["error"]}
        if failed:
            run = measure("--only", ",".join(failed))
            rows = [row for row in rows if row["name"] not in failed]
            rows += json.loads(results.read_text())["rows"]
    assert [row["error"] for row in rows] == [""] * len(rows), run.stdout + run.stderr
    assert run.returncode == 0
    assert {row["name"] for row in rows} == {
        "single", "many", "latency", "sync_one", "sync_many", "batch", "pull", "queues", "start",
        "restart", "indexed", "query", "shards", "bus", "shard_faults", "idle", "store_pool",
        "pop", "delay", "timed", "transaction", "pending", "tag_skip", "sql_skip",
        "replica", "replica_many", "replica_latency", "accounts", "tls", "tls_pull",
        "tls_handshakes", "tls_idle", "tls_half_open", "follow", "large", "cold",
    }  # fmt: skip
    may_be_none = "bus messages/s under full load, above those at rest"
    assert all(row["median"] > 0 for row in rows if row["title"] != may_be_none)
    assert "verdict" in run.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
