"""tests/compat/README.md says which test shows what: every name in its table exists."""

from __future__ import annotations

import re

from support.source_tree import ROOT

COMPAT = ROOT / "tests" / "compat"
JAVA = re.compile(r'table\.put\("(\w+)"')
GO = re.compile(r'^\t"(\w+)": +\w+,$', re.MULTILINE)
PYTHON = re.compile(r"^def (\w+)\(", re.MULTILINE)


def cells() -> list[list[list[str]]]:
    """The names in the cells of each row, except its first cell."""
    rows = [line for line in (COMPAT / "README.md").read_text().splitlines()
            if line.startswith("| ")][1:]  # fmt: skip
    return [[re.findall(r"`(\w+)`", cell) for cell in row.split("|")[2:-1]] for row in rows]


def test_every_name_of_the_table_is_a_scenario_or_a_test() -> None:
    python = {name for file in COMPAT.glob("*.py") for name in PYTHON.findall(file.read_text())}
    java = {name for file in COMPAT.glob("java/src/**/*.java")
            for name in JAVA.findall(file.read_text())}  # fmt: skip
    go = set(GO.findall((COMPAT / "go" / "main.go").read_text()))
    tests = {name for name in python if name.startswith("test_")}
    assert (len(java) > 80, len(go) > 30, len(tests) > 60) == (True, True, True)
    rows = cells()
    assert len(rows) >= 18
    for row in rows:
        assert len(row) == 3, row
        for names, known in zip(row, (java | tests, go | tests, python), strict=True):
            assert set(names) <= known, set(names) - known
