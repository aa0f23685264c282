"""bench/tables.py measures rows, from filling a topic to writing the table.

Goal: a topic is filled, read and scanned by processes that count, a big store is browsed, commands
are timed, and table and JSON are made. Method: the quick mode, with rows that need neither Spark
nor Kafka nor Chromium. Cannot show: those rows, and that goals are met, as nothing is timed.
"""

import json
from pathlib import Path

import pytest
from support.tree_process import run_python

for module in ("pyarrow", "uvicorn", "starlette", "jinja2", "httpx"):
    pytest.importorskip(module)

OUTCOMES = {"scan_parquet": 2, "browse": 1, "help": 1}


@pytest.mark.timeout(900)
def test_a_quick_run_measures_scans_pages_and_commands(tmp_path: Path) -> None:
    results = tmp_path / "tables.json"
    done = run_python("bench/tables.py", "--quick", "--only", ",".join(OUTCOMES), "--dir",
                      tmp_path, "--json", results)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(results.read_text())["rows"]
    assert [row["name"] for row in rows] == [
        name for name, count in OUTCOMES.items() for _ in range(count)
    ]
    for row in rows:
        assert row["error"] == ""
        assert len(row["values"]) == 1
        assert row["median"] > 0
    assert "verdict" in done.stdout
    assert [each.name for each in tmp_path.iterdir()] == ["tables.json"]
