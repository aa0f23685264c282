"""No stage of the compiled core takes more instructions than bench/stages/instructions.json says.

Method: callgrind counts N and 2 N operations of each stage in one process (bench/stages); counts do
not depend on what else the machine does. Where the compiler or the processor is another one there
is nothing to compare with: the test says so and records what it counted; in the project's CI, whose
compiler is the file's, it fails. Not shown: time.
"""

import re
import warnings
from pathlib import Path

import pytest
from support.source_tree import ROOT

from bench.stages.instructions import (
    BEFORE_SECURITY,
    KEPT,
    MUST_COMPARE,
    RECORDED,
    Counts,
    Row,
    compare,
    dear_when_off,
    difference,
    measure,
    table,
    total_of,
    uncompared,
)
from bench.stages.table import STAGES
from cext._build import PROFILE


@pytest.fixture(scope="module")
def measured() -> Counts:
    assert PROFILE == "release", "instructions are those of a release build: make build"
    return measure()


@pytest.fixture(scope="module")
def now(measured: Counts) -> Counts | None:
    """What the stages take here. None: the counts of the file are of another compiler."""
    if why := difference(Counts.read(KEPT), measured):
        measured.write(RECORDED)
        text, is_failure = uncompared(why)
        if is_failure:
            pytest.fail(text, pytrace=False)
        warnings.warn(text, stacklevel=1)
        return None
    return measured


def test_no_stage_takes_more_instructions_than_before(now: Counts | None) -> None:
    if now is None:
        return
    rows = compare(Counts.read(KEPT), now)
    if any(row.grew or row.before is None for row in rows):
        pytest.fail(
            f"{table(rows)}\nis that meant? make bench-stages UPDATE=1 writes {KEPT.name} anew",
            pytrace=False,
        )


def test_accounts_and_tls_that_are_off_cost_a_turn_a_hundredth_at_most(now: Counts | None) -> None:
    """Checks what was counted here, if the compiler is the file's, and always the file: many
    updates of it that each add less than 3 % would be as dear as one large one."""
    for counts in (Counts.read(KEPT), now):
        assert counts is None or dear_when_off(counts.stages) == []


def test_the_page_says_what_they_cost() -> None:
    kept, page = Counts.read(KEPT).stages, (KEPT.parents[1] / "README.md").read_text()
    for counts in (BEFORE_SECURITY, kept):
        for name in BEFORE_SECURITY:
            assert f"{counts[name]:,.0f}" in page, name


@pytest.mark.parametrize("stage", list(BEFORE_SECURITY))
def test_a_hundredth_more_with_security_off_is_too_much(stage: str) -> None:
    before = BEFORE_SECURITY[stage]
    assert dear_when_off({stage: before * 1.0099}) == []
    (line,) = dear_when_off({stage: before * 1.011})
    assert line.startswith(f"{stage} takes ") and "1.011 times" in line


def test_of_a_thousand_times_as_many_entries_a_verdict_looks_at_few_more(measured: Counts) -> None:
    """True for every compiler: the search halves the entries. A search through all of them would
    take 30,000 instructions and more."""
    assert measured.stages["verdict_of_many"] < 4 * measured.stages["verdict"]


def test_the_file_has_every_stage_and_no_other() -> None:
    assert set(Counts.read(KEPT).stages) == set(STAGES)


@pytest.mark.parametrize(
    ("before", "now", "grew"),
    [(1000.0, 1030.0, False), (1000.0, 1031.0, True), (1000.0, 500.0, False), (None, 9.0, False)],
)
def test_three_percent_more_is_too_much(before: float | None, now: float, grew: bool) -> None:
    assert Row("json_header", before, now).grew is grew


def test_the_table_names_stage_before_now_and_ratio() -> None:
    before = Counts({}, {"json_header": 1000, "turn_send": 1000})
    now = Counts({}, {"json_header": 1040, "turn_send": 1040, "gather": 7})
    lines = [line.split() for line in table(compare(before, now)).splitlines()]
    assert lines[0] == ["stage", "before", "now", "ratio"]
    assert lines[1][:4] == ["json_header", "1000.00", "1040.00", "1.040x"]
    assert lines[1][4] == "GREW"
    assert lines[2][:5] == ["turn_send", "1000.00", "1040.00", "1.040x", "GREW"]
    assert lines[3][:5] == ["gather", "-", "7.00", "-", "NEW:"]


def test_counts_of_another_compiler_are_not_compared(tmp_path: Path) -> None:
    ours = Counts({"gcc": "12.2.0", "machine": "x86_64"}, {"gather": 1})
    ours.write(tmp_path / "deep" / "counts.json")
    assert Counts.read(tmp_path / "deep" / "counts.json") == ours
    assert difference(ours, ours) == ""
    other = Counts({"gcc": "13.1.0", "machine": "x86_64"})
    assert difference(ours, other) == "gcc 13.1.0 instead of 12.2.0"


def test_only_where_it_is_asked_for_is_it_a_failure_that_nothing_was_compared() -> None:
    text, is_failure = uncompared("gcc 13.1.0 instead of 12.2.0", {})
    assert "not compared: gcc 13.1.0 instead" in text and not is_failure
    text, is_failure = uncompared("gcc 13.1.0 instead of 12.2.0", {MUST_COMPARE: "compare"})
    assert "gcc 13.1.0 instead" in text and "UPDATE=1" in text and is_failure


def test_the_compiler_of_the_file_is_the_one_that_is_built_with() -> None:
    """In the project's CI it has to be: an image of Debian 12, and one Cython, named everywhere."""
    cython = Counts.read(KEPT).made_by["cython"]
    for file, times in (("pyproject.toml", 2), ("Makefile", 1)):
        named = re.findall(r"Cython([=<>~!][^\"']*)", (ROOT / file).read_text())
        assert named == [f"=={cython}"] * times, file
    ci = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    job = ci.partition("  test:\n")[2].partition("\n  lint:\n")[0]
    assert f"{MUST_COMPARE}: compare" in job and "-bookworm" in job


def test_a_file_of_callgrind_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    whole, cut = tmp_path / "counts.1", tmp_path / "counts.2"
    whole.write_text("events: Ir\n\nfn=(1) a\n0 5\n\ntotals: 12345\n")
    cut.write_text("events: Ir\n")
    assert total_of(whole) == 12345
    with pytest.raises(RuntimeError, match="totals"):
        total_of(cut)
