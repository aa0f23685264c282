"""Goal: the table of the turn's steps is what its page says, and no step is left out.

Method: the table that a core has is compared with the table in turn.pxd and the declarations in
cext/flow. Cannot prove: that a step stands in the right place; the tests of each step show that.
"""

import re
from pathlib import Path

import pytest
from support.source_tree import ROOT

from bench.stages.turns import Rig

FLOW = ROOT / "cext" / "flow"
PAGE = FLOW / "turn.pxd"
LIST = FLOW / "turn.pyx"


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bool, bool]]:
    table: list[tuple[str, bool, bool]] = Rig(tmp_path_factory.mktemp("turn")).driven.steps()
    return table


def declared() -> dict[str, Path]:
    """The file of each function that gives a row of the table."""
    found: dict[str, Path] = {}
    for path in FLOW.rglob("*.pyx"):
        for name in re.findall(r"^cdef Step (\w+)\(", path.read_text(), re.MULTILINE):
            assert name not in found, f"{name} is in {path} and in {found[name]}"
            found[name] = path
    return found


def documented() -> list[str]:
    """The names in turn.pxd's table, in order."""
    text = PAGE.read_text().partition("in this order:\n")[2].partition("\nA step is")[0]
    return re.findall(r"^ {4}(\S+(?: \S+)*) {2,}\S", text, re.MULTILINE)


def test_each_step_has_a_name_of_its_own(steps: list[tuple[str, bool, bool]]) -> None:
    names = [name for name, _, _ in steps]
    assert len(set(names)) == len(names) > 20
    assert all(re.fullmatch(r"[a-z]+( [a-z]+)?", name) for name in names), names


def test_the_page_of_the_turn_has_its_steps_in_their_order(
    steps: list[tuple[str, bool, bool]],
) -> None:
    assert documented() == [name for name, _, _ in steps]


def test_each_step_that_a_file_declares_is_in_the_turn_once() -> None:
    listed = re.findall(r"^    add\(t, (\w+)\(", LIST.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(declared())


def test_a_step_is_declared_beside_what_it_does() -> None:
    for name, path in declared().items():
        assert name in path.with_suffix(".pxd").read_text(), f"{path.with_suffix('.pxd')}: {name}"


def test_some_steps_limit_the_poll_and_some_end_before_a_stop(
    steps: list[tuple[str, bool, bool]],
) -> None:
    limits = {name for name, limits, _ in steps if limits}
    drains = {name for name, _, drains in steps if drains}
    assert limits >= {"schedule", "timers", "revive", "housekeeping"}
    assert drains >= {"write", "settle", "pulls", "flush"}
