"""bench/peers.py measures a row of rmq's broker, from starting it to writing the page.

Goal: the broker starts, load runs at full speed and paced, and rounds, page and table are made.
Method: the quick mode, with a row of sends, one of pulls and one in which a consumer follows.
Brokers of other makers: tests/compat.
"""

import json
from pathlib import Path

import pytest
from support.tree_process import run_python


@pytest.mark.timeout(900)
def test_a_quick_run_of_ours_makes_turns_and_a_page(tmp_path: Path) -> None:
    results = tmp_path / "peers.json"
    done = run_python("bench/peers.py", "--quick", "--peers", "rmq", "--only",
                      "single-256,pull-256,tail-256", "--dir", tmp_path,
                      "--json", results)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(results.read_text())
    for row, paced in zip(found["rows"], (1, 0, 1), strict=True):
        cell = row["cells"]["rmq"]
        assert (len(cell["turns"]), len(cell["paced"]), cell["error"]) == (1, paced, "")
        (turn,) = cell["turns"]
        assert turn["messages"] > 0 and turn["cpu_seconds"] > 0 and turn["resident_bytes"] > 0
        assert turn["failures"] == {} == turn["latency_us"]
    tail = found["rows"][-1]
    (turn,) = tail["cells"]["rmq"]["paced"]
    assert (turn["messages"], turn["failures"]) == (tail["pace"] * found["seconds"], {})
    assert 0 < turn["latency_us"]["p50"] <= turn["latency_us"]["p99"]
    assert found["servers"]["rmq"]["settings"] == {"flushDiskType": "ASYNC_FLUSH"}
    assert "<svg" in results.with_suffix(".html").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["peers.html", "peers.json"]
