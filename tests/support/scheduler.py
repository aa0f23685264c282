"""Scheduler: which worker of pytest-xdist runs which tests; the longest files first, so that all
workers end at about the same time.

One worker runs all tests of a file. Likewise one worker runs all files of tests/spark that use the
Spark session, which costs more than any of them, and one all files of tests/source that parse all
sources. tests/durations.json says how long each took; only the ratios of its figures matter. A file
that is not in it is estimated by the number of its tests.

    make test PYTEST_ARGS=--record-durations    writes the file anew, from this run
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

DURATIONS = Path(__file__).parents[1] / "durations.json"
TOGETHER = "tests/spark/"  # its session is expensive
ALONE = {
    f"{TOGETHER}test_{name}.py"
    for name in ("ending", "questions", "readme_block", "replica_reads", "sending")
}
OUTLINES = "tests/source/"  # parsing all files is most of the work of each of these
OF_OUTLINES = {
    f"{OUTLINES}test_{name}.py" for name in ("circles", "layers", "limits", "parts_for_tests")
}
LEAST_S = 1.0  # shorter files are run last, in any order
UNKNOWN_TEST_S = 0.2


def scope_of(nodeid: str) -> str:
    """The unit that one worker runs: a file, or all files that share the Spark session or the
    outlines."""
    path = nodeid.split("::", 1)[0]
    if path in OF_OUTLINES:
        return OUTLINES
    return TOGETHER if path.startswith(TOGETHER) and path not in ALONE else path


class LongestFirst(LoadFileScheduling):
    """LoadFileScheduling that takes the longest unit of its queue first."""

    known: dict[str, float] | None = None

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def seconds(self, scope: str) -> float:
        if self.known is None:
            self.known = json.loads(DURATIONS.read_text())
        return self.known.get(scope, UNKNOWN_TEST_S * len(self.workqueue[scope]))

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test in which a worker died, if any; other workers run what it had not begun.

        LoadFileScheduling would give out everything again: also that test, in which the next worker
        would die, and files that are done, after which a worker would wait for ever.
        """
        units = self.assigned_work.pop(node)
        if self.collection is None:  # the first units go to workers that have collected the tests
            self.registered_collections.pop(node, None)
        died_in = next((test for unit in units.values() for test in unit if not unit[test]), None)
        if died_in is not None:
            units[scope_of(died_in)][died_in] = True
        self.workqueue.update(
            {scope: unit for scope, unit in units.items() if not all(unit.values())}
        )
        for other in self.assigned_work:
            self._reschedule(other)
        return died_in

    def _reschedule(self, node: WorkerController) -> None:
        """Gives a worker more units, or tells it that there are none. A worker begins its last test
        only when it knows one of the two.

        LoadFileScheduling gives out one file at a time. A worker that replaces a dead one might get
        a file of a single test, and wait for ever. Workers that still collect the tests are sent
        nothing: they ask when they have collected them.
        """
        if node.shutting_down or node not in self.registered_collections:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self.seconds), last=False)
        with contextlib.suppress(OSError):  # the worker has died: remove_node gives it to others
            super()._assign_work_unit(node)


class Recorder:
    """Records the seconds of each scope in this run, including setup and teardown."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[scope_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        found = {scope: round(seconds) for scope, seconds in sorted(self._seconds.items())
                 if seconds >= LEAST_S}  # fmt: skip
        DURATIONS.write_text(json.dumps(found, indent=1) + "\n")
