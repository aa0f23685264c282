"""tools/release_notes.py: notes of a release are the changelog's section, or it is said why not.

Method: trees made here, with a changelog, a version and tags of a real git; then this tree's own
changelog. Cannot show: how GitHub draws them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.tools import load_tool
from support.tree_process import run_python

notes = load_tool("release_notes")

CHANGELOG = """\
# Changelog

## Unreleased

## 1.4.2, 2026-05-01

### Send

- A send that a broker
  refuses says so.
- Another one.
  - A point of it,
    on two lines.

A paragraph
of two lines:

```text
rmq send paid \\
    "42 EUR"
```
| a | b |
|---|---|
| 1 | 2 |

## 1.4.1

- Older.
"""
NOTES = """\
### Send

- A send that a broker refuses says so.
- Another one.
  - A point of it, on two lines.

A paragraph of two lines:

```text
rmq send paid \\
    "42 EUR"
```
| a | b |
|---|---|
| 1 | 2 |
"""


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false",
           "-c", "tag.gpgsign=false")  # fmt: skip
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def tree(root: Path, changelog: str = CHANGELOG, version: str = "1.4.2") -> Path:
    (root / "rmq").mkdir()
    (root / "rmq" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (root / "CHANGELOG.md").write_text(changelog)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def told(name: str, root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is wrong; nothing is printed then."""
    assert notes.main(name, root) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    return list(printed.err.splitlines())


def test_the_notes_are_the_section_without_its_line_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path)
    assert notes.main("1.4.2", root) == 0
    assert capsys.readouterr().out == NOTES


def test_a_tag_has_to_be_that_of_this_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path)
    assert told("v1.4.2", root, capsys) == ["there is no tag v1.4.2: git tag --annotate v1.4.2"]
    git(root, "branch", "v1.4.2")  # no tag, though it has the name of one
    assert "there is no tag" in told("v1.4.2", root, capsys)[0]
    git(root, "tag", "--annotate", "--message", "1.4.2", "v1.4.2")
    assert notes.main("v1.4.2", root) == 0
    assert capsys.readouterr().out == NOTES
    git(root, "commit", "--quiet", "--allow-empty", "--message", "second")
    (said,) = told("v1.4.2", root, capsys)
    assert said.startswith("the tag v1.4.2 is that of another commit")
    assert notes.main("1.4.2", root) == 0


@pytest.mark.parametrize("name", ["1.4", "v1.4", "1.4.2rc1", "latest", "v", "1.4.2.1"])
def test_what_is_no_version_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (said,) = told(name, tree(tmp_path), capsys)
    assert "is no version" in said


@pytest.mark.parametrize(
    ("changelog", "version", "said"),
    [
        (CHANGELOG, "1.4.1", ["this tree is 1.4.1"]),
        (CHANGELOG.replace("1.4.2", "1.5.0"), "1.4.2", ['has no "## 1.4.2"']),
        (CHANGELOG.replace("## 1.4.2", "## 1.5.0\n\n- Newer.\n\n## 1.4.2"), "1.4.2",
         ['has "## 1.5.0" above "## 1.4.2"']),
        ("# Changelog\n\n## 1.4.2\n\n## 1.4.1\n\n- Older.\n", "1.4.2", ["has nothing below"]),
        (CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- New.\n"), "1.4.2",
         ["of which version are they?"]),
        (CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- New.\n"), "1.5.0",
         ["this tree is 1.5.0", "of which version are they?"]),
    ],
    ids=["other-version", "no-section", "not-newest", "empty", "unreleased", "two-at-once"],
)  # fmt: skip
def test_what_does_not_fit_together_is_said(
    changelog: str, version: str, said: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    found = told("1.4.2", tree(tmp_path, changelog, version), capsys)
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))


def test_this_trees_changelog_makes_notes_once_it_is_a_releases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = notes.version_of(ROOT)
    text = (ROOT / "CHANGELOG.md").read_text()
    released = text.replace("## Unreleased", f"## Unreleased\n\n## {version}", 1)
    root = tree(tmp_path, released, version)
    assert notes.main(version, root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("- ") for line in lines) == text.count("\n- ")
    assert not [line for line in lines if line.startswith("  ") and "- " not in line]


def test_it_is_called_with_one_word() -> None:
    for words in ((), ("1.0.0", "2.0.0")):
        done = run_python("tools/release_notes.py", *words)
        assert done.returncode == 1
        assert "tools/release_notes.py 1.4.2" in done.stderr
