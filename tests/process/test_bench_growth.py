"""bench/growth.py measures a dimension, from starting brokers to writing the page.

Goal: brokers start, sizes are compared with the smallest one, and a page is made. Method: the quick
mode of one dimension. Complete pages: tests/unit/bench/test_growth_page.py.
"""

import json
from pathlib import Path

import pytest
from support.tree_process import run_python


@pytest.mark.timeout(900)
def test_a_quick_run_of_one_dimension_makes_points_and_a_page(tmp_path: Path) -> None:
    results = tmp_path / "growth.json"
    done = run_python("bench/growth.py", "--quick", "--only", "properties", "--dir", tmp_path,
                      "--json", results)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(results.read_text())["dimensions"]
    assert list(found) == ["properties"]
    least, most = found["properties"]["points"]
    assert (least["size"], most["size"]) == (0, 4)
    for point in (least, most):
        assert point["error"] == "" and point["cost"][0] > 0 and point["rate"][0] > 0
    assert least["cost"] == least["least"] == most["least"]
    assert "<svg" in results.with_suffix(".html").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["growth.html", "growth.json"]
