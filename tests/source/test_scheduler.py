"""The queue of test files from which the workers of `make test` take the next one."""

import json
import os
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from support.scheduler import ALONE, DURATIONS, TOGETHER, LongestFirst, scope_of
from support.source_tree import ROOT
from support.waiting import HANG_S


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


CONFTEST = """
from support.failure_lines import FailureLines
from support.scheduler import LongestFirst

def pytest_xdist_make_scheduler(config, log):
    return LongestFirst(config, log)

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureLines(config))
"""
BAD = """
import ctypes, os, signal

def test_before():
    pass

def test_bad():
    %s

def test_behind():
    pass
"""
WAYS = {
    "crashes": "os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": "ctypes.PyDLL(None).pause()  # and keeps the interpreter",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_a_worker_that_is_lost_fails_one_test_and_the_run_goes_on(way: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(20):
        (tmp_path / f"test_{number}.py").write_text("def test_good():\n    pass\n")
    (tmp_path / "test_9_bad.py").write_text(BAD % way)
    ended = subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "-q", "-n2", "-p", "no:cacheprovider"],
            *["-o", "faulthandler_timeout=5", "-o", "faulthandler_exit_on_timeout=true", "."],
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert "1 failed, 22 passed" in ended.stdout, ended.stdout
    assert re.search(r"^failed: test_9_bad.py::test_bad .*crashed", ended.stdout, re.MULTILINE)


def test_files_that_any_worker_may_run_do_not_use_the_spark_session() -> None:
    session = re.compile(r"\bdef test\w*\([^)]*\bspark\b|usefixtures\([^)]*\bspark\b")
    files = sorted((ROOT / TOGETHER).glob("test_*.py"))
    found = {TOGETHER + path.name for path in files if not session.search(path.read_text())}
    assert found == ALONE


def test_durations_are_those_of_files_that_are_there() -> None:
    assert [name for name in json.loads(DURATIONS.read_text()) if not (ROOT / name).exists()] == []
