"""bench/run.py measures a row, from starting servers to writing the table.

Goal: servers start, load runs, ratios and JSON are made. Method: the quick mode, with one row of
each file of rows. Together these have every kind of server: the floor, the floor that syncs and the
disk's probe, a broker that flushes asynchronously or synchronously, two shards, a slave, accounts,
TLS, a peer whose consumer follows. The slow test has all rows. Cannot show: that goals are met, as
nothing here is timed.
"""

import json
import shutil
from pathlib import Path

import pytest
import run as table
from support.tree_process import run_python

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for floor.c"),
]
ALL = {
    "single", "many", "latency", "sync_one", "sync_many", "batch", "pull", "queues", "start",
    "restart", "indexed", "query", "shards", "bus", "shard_faults", "idle", "store_pool",
    "pop", "delay", "timed", "transaction", "pending", "tag_skip", "sql_skip",
    "replica", "replica_many", "replica_rate", "replica_latency", "accounts", "tls", "tls_pull",
    "tls_handshakes", "tls_idle", "tls_half_open", "follow", "large", "cold",
}  # fmt: skip
ONE_OF_EACH = (
    "sync_one", "pop", "idle", "delay", "tag_skip", "replica_latency", "accounts", "tls", "follow",
    "large",
)  # fmt: skip


def measured(folder: Path, *options: str) -> set[str]:
    """The rows that a quick run has measured."""
    results = folder / "results.json"

    def measure(*given: str):
        return run_python("bench/run.py", "--quick", "--dir", folder, "--json", results, *given)

    run = measure(*options)
    rows = json.loads(results.read_text())["rows"]
    for _ in range(3):  # its windows last 0.1 s, and one sync of a disk may take as long
        failed = {row["name"] for row in rows if row["error"]}
        if failed:
            run = measure("--only", ",".join(failed))
            rows = [row for row in rows if row["name"] not in failed]
            rows += json.loads(results.read_text())["rows"]
    assert [row["error"] for row in rows] == [""] * len(rows), run.stdout + run.stderr
    assert run.returncode == 0
    may_be_none = "bus messages/s under full load, above those at rest"
    assert all(row["median"] > 0 for row in rows if row["title"] != may_be_none)
    assert "verdict" in run.stdout
    assert [path.name for path in folder.iterdir()] == ["results.json"]
    return {row["name"] for row in rows}


def test_a_quick_run_measures_a_row_of_each_file(tmp_path: Path) -> None:
    assert table.ROWS.keys() == ALL
    files = {row.__module__ for row in table.ROWS.values()}
    assert {table.ROWS[name].__module__ for name in ONE_OF_EACH} == files
    assert measured(tmp_path, "--only", ",".join(ONE_OF_EACH)) == set(ONE_OF_EACH)


@pytest.mark.slow
def test_a_quick_run_measures_every_row(tmp_path: Path) -> None:
    assert measured(tmp_path) == ALL
