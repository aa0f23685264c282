"""Files for services elsewhere name only what exists here: GitHub's workflows, its list of who
looks at changes, and cibuildwheel's settings.

Cannot prove: that they run there.
"""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.source_tree import ROOT

yaml = pytest.importorskip("yaml")
if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PATH = re.compile(r"(?:^|[\s/}])((?:tools|tests)/[\w/.-]+)")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load(path.read_text())["jobs"]
    assert isinstance(found, dict)
    return found


def supported() -> set[str]:
    """The versions of Python that are supported, such as "3.10"."""
    least, below = re.findall(r"3\.(\d+)", PROJECT["project"]["requires-python"])
    return {f"3.{minor}" for minor in range(int(least), int(below))}


def test_there_are_three() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "pages.yml", "wheels.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_is_run_is_here(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    ran = 0
    for name, job in jobs(path).items():
        assert job["timeout-minutes"] <= 180, name
        for step in job["steps"]:
            text = step.get("run", "")
            for target in re.findall(r"^make ([\w-]+)", text, re.MULTILINE):
                assert target in targets
                ran += 1
            for file in PATH.findall(text):
                assert (ROOT / file).exists(), file
            ran += "cibuildwheel" in text or "-m build" in text
    assert ran


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_nobody_may_write_to_the_repository(path: Path) -> None:
    """Who may publish the pages runs nothing: what others' changes bring does not publish."""
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    allowed = {name: job for name, job in jobs(path).items() if "permissions" in job}
    assert set(allowed) == ({"publish"} if path.name == "pages.yml" else set())
    for job in allowed.values():
        assert job["permissions"] == {"pages": "write", "id-token": "write"}
        (step,) = job["steps"]
        assert "run" not in step and step["uses"].startswith("actions/deploy-pages@")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_of_github_and_of_one_version(path: Path) -> None:
    for job in jobs(path).values():
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v1"))


def test_the_pages_of_main_are_what_make_docs_builds() -> None:
    path = WORKFLOWS[1]
    began_by = yaml.safe_load(path.read_text())[True]  # "on", as YAML 1.1 reads it
    assert began_by == {"push": {"branches": ["main"]}, "workflow_dispatch": None}
    built, published = jobs(path)["build"], jobs(path)["publish"]
    assert "make docs" in [step.get("run") for step in built["steps"]]
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:\n")[2].partition("\n\n")[0]
    assert f" docs {built['steps'][-1]['with']['path']}\n" in recipe
    assert published["needs"] == "build"


def test_the_oldest_and_the_newest_python_are_tested_and_each_gets_a_wheel() -> None:
    tested = jobs(WORKFLOWS[0])["test"]["strategy"]["matrix"]["python"]
    by_age = sorted(supported(), key=lambda version: int(version.partition(".")[2]))
    assert tested == [by_age[0], by_age[-1]]
    built = re.findall(r"cp3(\d+)-", PROJECT["tool"]["cibuildwheel"]["build"])
    assert {f"3.{minor}" for minor in built} == supported()
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert set(listed) == supported()


def test_scripts_of_the_wheels_are_here() -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    for words in (settings["test-command"], settings["linux"]["before-all"]):
        (file,) = PATH.findall(words)
        assert (ROOT / file).is_file(), file
    script = ROOT / PATH.findall(settings["linux"]["before-all"])[0]
    assert script.stat().st_mode & 0o111, "it is run by its name"
    assert set(settings["linux"]["archs"]) == {"x86_64", "aarch64"}


def test_who_looks_at_a_change_is_said_of_every_file_and_of_none_that_is_gone() -> None:
    text = (ROOT / ".github" / "CODEOWNERS").read_text()
    kinds: list[str] = []
    rows: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if head := re.match(r"# ([a-z]+(?:, [a-z]+)*): ", line):
            kinds = head[1].split(", ")
        elif line and not line.startswith("#"):
            rows.append((line, kinds))
    assert rows[0] == ("*", ["maintainers"]), "the first line is for all that no other one fits"
    for pattern, owners in rows[1:]:
        path = ROOT / pattern.removeprefix("/")
        assert pattern.startswith("/") and path.exists(), pattern
        assert path.is_dir() == pattern.endswith("/"), pattern
        assert "maintainers" in owners, f"{pattern}: a maintainer looks at every change"
    assert len({pattern for pattern, _ in rows}) == len(rows)
    said = (ROOT / "docs" / "contributing.md").read_text()
    section = said.partition("## Who looks at a change")[2].partition("\n## ")[0]
    assert "@" not in text + section, "nobody knows who has these accounts"
    assert {kind for _, owners in rows for kind in owners} == {
        "maintainers", *re.findall(r"^\| (\w+) \| (?!at)", section, re.MULTILINE)
    }  # fmt: skip
