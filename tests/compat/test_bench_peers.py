"""bench/peers.py measures one row of all peers: Apache RocketMQ, NATS and Kafka beside rmq.

Goal: each peer starts, takes the load of its client, and has its numbers. Method: the quick mode,
with rows that cover all differences. Cannot prove: that the numbers of a long run are fair.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.source_tree import ROOT

ROWS = ("batch-256", "pull-256", "topics", "pop", "java-256")
WITHOUT = {("pop", "kafka"), ("java-256", "nats")}

pytestmark = pytest.mark.compat


@pytest.mark.timeout(3600)
def test_a_quick_run_measures_every_peer(tmp_path: Path) -> None:
    results = tmp_path / "peers.json"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "bench/peers.py", "--quick", "--only", ",".join(ROWS), "--dir", tmp_path,
         "--json", results], env={**os.environ, "PYTHONPATH": path}, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as run:  # fmt: skip
        try:
            said, _ = run.communicate()
        finally:
            run.terminate()  # it stops its servers, too
    assert run.returncode == 0, said
    rows = {row["name"]: row["cells"] for row in json.loads(results.read_text())["rows"]}
    assert list(rows) == list(ROWS)
    for name, cells in rows.items():
        assert list(cells) == ["rmq", "apache", "nats", "kafka"]
        for key, cell in cells.items():
            if (name, key) in WITHOUT:
                assert cell["not_offered"] and not cell["turns"]
            else:
                assert cell["turns"][0]["messages"] > 0 and cell["error"] == "", (name, key, cell)
