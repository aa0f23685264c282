"""Which worker of pytest-xdist runs which tests: the longest files first, so that all end together.

A file is run by one worker, and by one all files of tests/spark that use the Spark session, which
costs more than any of them, and those of tests/source that go by what all sources say. How long
each took stands in tests/durations.json, whose figures count against each other only; a file that
is not in it comes in by the number of its tests.

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
TOGETHER = "tests/spark/"  # its session is dear
ALONE = {
    f"{TOGETHER}test_{name}.py"
    for name in ("ending", "questions", "readme_block", "replica_reads", "sending")
}
OUTLINES = "tests/source/"  # to parse all files is most of what each of these does
OF_OUTLINES = {
    f"{OUTLINES}test_{name}.py" for name in ("circles", "layers", "limits", "parts_for_tests")
}
LEAST_S = 1.0  # shorter ones fill the end in any order
UNKNOWN_TEST_S = 0.2


def scope_of(nodeid: str) -> str:
    """What one worker runs: a file, or all files that share the Spark session or the outlines."""
    path = nodeid.split("::", 1)[0]
    if path in OF_OUTLINES:
        return OUTLINES
    return TOGETHER if path.startswith(TOGETHER) and path not in ALONE else path


class LongestFirst(LoadFileScheduling):
    """LoadFileScheduling whose queue is taken by duration."""

    known: dict[str, float] | None = None

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def seconds(self, scope: str) -> float:
        if self.known is None:
            self.known = json.loads(DURATIONS.read_text())
        return self.known.get(scope, UNKNOWN_TEST_S * len(self.workqueue[scope]))

    def remove_node(self, node: WorkerController) -> str | None:
        """The test in which a worker died, if it did; others go on with what it had not begun.

        LoadFileScheduling gives out everything again: that test, in which the next worker dies,
        and files that are done, behind which a worker waits for ever.
        """
        units = self.assigned_work.pop(node)
        if self.collection is None:  # what is given out first goes to all that have read the tests
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
        """A worker begins its last test when it has another, or knows that there is none.

        LoadFileScheduling gives one file at a time: to one that comes for a worker that died, which
        may have a single test, and wait for ever. While it is reading the tests it is sent nothing:
        it asks when it has.
        """
        if node.shutting_down or node not in self.registered_collections:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= 2:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self.seconds), last=False)
        with contextlib.suppress(OSError):  # it has died: remove_node gives it to others
            super()._assign_work_unit(node)


class Recorder:
    """Seconds of each scope in this run, setup and teardown among them."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[scope_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        found = {scope: round(seconds) for scope, seconds in sorted(self._seconds.items())
                 if seconds >= LEAST_S}  # fmt: skip
        DURATIONS.write_text(json.dumps(found, indent=1) + "\n")
