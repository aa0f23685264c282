"""Release notes: the changelog's section of one version, as GitHub shows notes of a release.

    python tools/release_notes.py 1.4.2       its notes on standard output
    python tools/release_notes.py v1.4.2      of a tag, which has to be that of this commit

What is wrong is said all at once, and nothing is printed then: the version is none, this tree is of
another one, the section is missing, empty or not the newest, something stands under "Unreleased"
still, or the tag is missing or somewhere else.

A line break in the changelog is none in the notes: GitHub would keep it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"\d+\.\d+\.\d+")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
UNRELEASED = "Unreleased"
BEGINS = re.compile(r"\s*([-*|#>] ?|\d+\. |$)")  # such a line begins something new
ENDS = re.compile(r"\s*([#|]|```|$)")  # so does the line after such a line


def sections(changelog: str) -> dict[str, str]:
    """Heading -> the text below it, newest first. A date after the version is left out."""
    _, *parts = SECTION.split(changelog)
    headings = (heading.partition(",")[0].strip() for heading in parts[::2])
    return dict(zip(headings, (text.strip() for text in parts[1::2]), strict=True))


def unwrapped(text: str) -> str:
    """The text with each paragraph and each point in one line; blocks of code stay as they are."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_apart = is_code or is_fence or bool(BEGINS.match(line))
        if is_apart or not lines or ENDS.match(lines[-1]):
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
        is_code ^= is_fence
    return "\n".join(lines)


def faults(version: str, tree_version: str, found: dict[str, str]) -> list[str]:
    """The reasons why the version can have no notes; empty: it can."""
    if not VERSION.fullmatch(version):
        return [f"{version} is no version: MAJOR.MINOR.PATCH is wanted, such as 1.4.2"]
    wrong = []
    if version != tree_version:
        wrong.append(f"this tree is {tree_version}: set __version__ in rmq/__init__.py")
    released = [heading for heading in found if heading != UNRELEASED]
    if version not in found:
        wrong.append(f'CHANGELOG.md has no "## {version}"')
    elif not found[version]:
        wrong.append(f'CHANGELOG.md has nothing below "## {version}"')
    elif released[0] != version:
        wrong.append(f'CHANGELOG.md has "## {released[0]}" above "## {version}"')
    if found.get(UNRELEASED):
        wrong.append(
            f'CHANGELOG.md has changes below "## {UNRELEASED}": of which version are they?'
        )
    return wrong


def tag_faults(tag: str, root: Path) -> list[str]:
    """The reasons why the tag is not that of this commit; empty: it is."""
    tagged = commit_of(f"refs/tags/{tag}", root)
    if tagged is None:
        return [f"there is no tag {tag}: git tag --annotate {tag}"]
    if tagged != commit_of("HEAD", root):
        return [f"the tag {tag} is that of another commit, {tagged[:12]}"]
    return []


def commit_of(name: str, root: Path) -> str | None:
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip() or None


def version_of(root: Path) -> str:
    found = re.search(r'__version__ = "(.+)"', (root / "rmq" / "__init__.py").read_text())
    if found is None:
        raise ValueError("rmq/__init__.py has no __version__")
    return found[1]


def main(name: str, root: Path = ROOT) -> int:
    is_tag = name.startswith("v")
    version = name.removeprefix("v")
    found = sections((root / "CHANGELOG.md").read_text("utf-8"))
    wrong = faults(version, version_of(root), found)
    if is_tag and VERSION.fullmatch(version):
        wrong += tag_faults(name, root)
    for each in wrong:
        print(each, file=sys.stderr)
    if wrong:
        return 1
    print(unwrapped(found[version]))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
