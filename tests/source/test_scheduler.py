"""The queue of test files from which the workers of `make test` take the next one."""

import json
import re
from collections import OrderedDict
from typing import Any

from support.scheduler import ALONE, DURATIONS, TOGETHER, LongestFirst, scope_of
from support.source_tree import ROOT


class Node:
    def __init__(self) -> None:
        self.sent: list[list[int]] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.sent.append(indexes)


def test_the_longest_file_is_taken_first_and_one_worker_has_the_spark_session() -> None:
    tests = [
        "tests/unit/test_few.py::test_a",
        "tests/unit/test_short.py::test_a",
        "tests/spark/test_batch.py::test_a",
        "tests/unit/test_many.py::test_a[x::y]",
        "tests/unit/test_many.py::test_b",
        "tests/spark/test_ending.py::test_a",
        "tests/spark/test_stream.py::test_a",
    ]
    node: Any = Node()
    scheduler = LongestFirst.__new__(LongestFirst)
    scheduler.known = {"tests/spark/": 100.0, "tests/unit/test_short.py": 0.1}
    scheduler.assigned_work, scheduler.registered_collections = {}, {node: tests}
    scheduler.workqueue = OrderedDict()
    for test in tests:
        scheduler.workqueue.setdefault(scope_of(test), {})[test] = False
    while scheduler.workqueue:
        scheduler._assign_work_unit(node)
    assert node.sent == [[2, 6], [3, 4], [0], [5], [1]]


def test_files_that_any_worker_may_run_do_not_use_the_spark_session() -> None:
    session = re.compile(r"\bdef test\w*\([^)]*\bspark\b|usefixtures\([^)]*\bspark\b")
    files = sorted((ROOT / TOGETHER).glob("test_*.py"))
    found = {TOGETHER + path.name for path in files if not session.search(path.read_text())}
    assert found == ALONE


def test_durations_are_those_of_files_that_are_there() -> None:
    assert [name for name in json.loads(DURATIONS.read_text()) if not (ROOT / name).exists()] == []
