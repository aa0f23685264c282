"""The table of threats in docs/security.md: who could do what, what stops him, and which test shows
it. Each row names tests, and each test that it names is there."""

import ast
import functools
import re
from pathlib import Path

import pytest
from support.pages import DOCS
from support.source_tree import ROOT

NAMED = re.compile(r"`([^`]+)`")


def rows(text: str) -> list[list[str]]:
    table = text.partition("\n## Threats\n")[2].partition("\n## ")[0]
    found = [line.strip() for line in table.splitlines() if line.startswith("|")]
    return [line.strip("|").strip().split(" | ") for line in found[2:]]


@functools.cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.walk(tree) if isinstance(each, kinds)}


def complaints(cells: list[str]) -> list[str]:
    """What is wrong with a row."""
    if len(cells) != 4 or not all(each.strip() for each in cells):
        return ["it has not four cells, or an empty one"]
    found, known, count = [], set[str](), 0
    for name in NAMED.findall(cells[3]):
        if "/" in name:
            path = ROOT / name
            known = functions_of(path) if path.is_file() else set()
            found += [] if path.is_file() else [f"{name} is not there"]
        else:
            count += 1
            found += [] if name in known and name.startswith("test_") else [f"no test {name}"]
    return found if count else [*found, "it names no test"]


ROWS = rows((DOCS / "security.md").read_text())


@pytest.mark.parametrize("cells", ROWS, ids=range(len(ROWS)))
def test_what_stops_a_threat_is_shown_by_tests_that_are_there(cells: list[str]) -> None:
    assert complaints(cells) == []


def test_the_check_sees_a_planted_fault() -> None:
    assert len(ROWS) > 30
    here = "`tests/source/test_threats.py`"
    right = f"{here}: `test_the_check_sees_a_planted_fault`"
    assert complaints(["a user", "everything", "nothing", right]) == []
    for cell in (
        "", here, f"{here}: `test_of_nothing`", f"{here}: `complaints`",
        "`tests/none.py`: `test_of_nothing`", "`test_the_check_sees_a_planted_fault`",
        f"{right}; `tests/source/test_docs.py`: `test_the_check_sees_a_planted_fault`",
    ):  # fmt: skip
        assert complaints(["a user", "everything", "nothing", cell]) != [], cell
    assert complaints(["a user", "everything", right]) != []
