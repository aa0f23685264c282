"""The queue of test files from which the workers of `make test` take the next one."""

import json
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.scheduler import ALONE, DURATIONS, TOGETHER, LongestFirst
from support.source_tree import ROOT
from support.tree_process import bare_pytest
from support.waiting import HANG_S
from xdist.remote import Producer


class Node:
    """A worker: what it was sent, and what it has run of that."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.sent: list[list[int]] = []
        self.done: list[int] = []
        self.is_dead = self.shutting_down = False

    def send_runtest_some(self, indexes: list[int]) -> None:
        if self.is_dead:
            raise OSError("cannot send (already closed?)")
        self.sent.append(indexes)

    def shutdown(self) -> None:
        self.shutting_down = True

    def next(self) -> int | None:
        """The test that it runs next. It begins its last test only when it knows that it is the
        last."""
        left = [test for sent in self.sent for test in sent][len(self.done) :]
        return left[0] if len(left) > 1 or (left and self.shutting_down) else None


class Run:
    """Some workers, and what xdist's session tells its scheduler of them."""

    def __init__(
        self, tests: list[str], workers: int, durations: dict[str, float] | None = None
    ) -> None:
        self.tests = tests
        self.scheduler: Any = LongestFirst.__new__(LongestFirst)
        vars(self.scheduler).update(
            known=durations or {}, numnodes=workers, collection=None, workqueue=OrderedDict(),
            assigned_work={}, registered_collections={}, log=Producer("scheduler"),
            config=SimpleNamespace(option=SimpleNamespace(loadscopereorder=False)),
        )  # fmt: skip
        self.nodes = [self.comes() for _ in range(workers)]
        for node in self.nodes:
            self.has_read(node)

    def comes(self) -> Node:
        self.scheduler.add_node(node := Node())
        return node

    def has_read(self, node: Node) -> None:
        self.scheduler.add_node_collection(node, self.tests)
        if self.scheduler.collection_is_completed:
            self.scheduler.schedule()

    def runs(self, node: Node, tests: int = sys.maxsize) -> None:
        while tests > 0 and (test := node.next()) is not None:
            node.done.append(test)
            self.scheduler.mark_test_complete(node, test)
            tests -= 1

    def ends(self, node: Node) -> str | None:
        """The test that it died in, if it did."""
        return self.scheduler.remove_node(node)

    def is_done_but(self, *lost: str) -> bool:
        """Whether every test except those was run once, and nothing is left to do."""
        done = sorted(self.tests[test] for node in self.nodes for test in node.done)
        return done == sorted(set(self.tests) - set(lost)) and not self.scheduler.has_pending


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
    durations = {"tests/spark/": 100.0, "tests/unit/test_short.py": 0.1}
    run = Run(tests, workers=1, durations=durations)
    run.runs(run.nodes[0])
    assert run.nodes[0].sent == [[2, 6], [3, 4], [0], [5], [1]]


TESTS = [f"tests/unit/test_{file}.py::test_{test}" for file in range(6) for test in range(3)]


def test_what_a_dead_worker_is_sent_is_run_by_others() -> None:
    """The scheduler hears of a worker's end after its last report. What it sends to the worker in
    between must be run by others."""
    run = Run(TESTS, workers=2)
    one, two = run.nodes
    one.is_dead = True
    run.runs(one, 2)
    running = TESTS[one.sent[0][2]]
    run.runs(two)
    assert run.ends(one) == running
    run.nodes.append(new := run.comes())
    run.has_read(new)
    run.runs(new)
    assert run.is_done_but(running)


def test_a_worker_that_comes_for_a_dead_one_is_asked_when_it_has_read_the_tests() -> None:
    run = Run(TESTS, workers=3)
    one, two, three = run.nodes
    lost = [run.ends(one)]
    run.nodes.append(new := run.comes())
    run.runs(two, 1)
    lost.append(run.ends(two))
    run.runs(three)
    assert run.ends(three) is None
    assert new.sent == []
    run.has_read(new)
    run.runs(new)
    assert None not in lost
    assert run.is_done_but(*map(str, lost))


def test_the_last_file_is_run_by_who_comes_for_its_worker() -> None:
    """A worker ends in the last file when all others know already that nothing is left for them."""
    run = Run(TESTS[:6], workers=2)
    one, two = run.nodes
    run.runs(two)
    assert run.ends(two) is None
    lost = run.ends(one)
    run.nodes.append(new := run.comes())
    run.has_read(new)
    run.runs(new)
    assert new.shutting_down
    assert run.is_done_but(str(lost))


CONFTEST = """
import faulthandler

import pytest
from support.failure_lines import FailureLines
from support.scheduler import LongestFirst

def pytest_xdist_make_scheduler(config, log):
    return LongestFirst(config, log)

later = faulthandler.dump_traceback_later

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    # The test that hangs is soon said to; the others have as long as they take.
    limit_s = 0.5 if item.name == "test_bad" else 600
    faulthandler.dump_traceback_later = lambda _, **said: later(limit_s, **said)
    yield

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
            *[sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n2"],
            *["-p", "no:cacheprovider"],
            *["-o", "faulthandler_timeout=15", "-o", "faulthandler_exit_on_timeout=true", "."],
        ],
        cwd=tmp_path,
        env=bare_pytest(),
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
