"""Pages: the pages that users read, with their blocks of code, links and commands."""

import re
import shlex
from pathlib import Path

from support.source_tree import ROOT

DOCS = ROOT / "docs"
# In the order in which a reader comes to them, and in which their commands are run.
EXAMPLES = [
    ROOT / "README.md",
    DOCS / "python-client.md",
    DOCS / "tables.md",
    DOCS / "spark-guide.md",
    DOCS / "operations.md",
    DOCS / "replicas.md",
    DOCS / "command-line.md",
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pipeline(line: str) -> list[list[str]]:
    """The words of each command of a line. Pipes may join several commands."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    return found


def pages() -> list[Path]:
    """Every page of the site, and the pages at the root that lead to it."""
    names = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    return [*(ROOT / name for name in names),
            *sorted(DOCS.rglob("*.md"))]  # fmt: skip


def blocks(language: str) -> list[str]:
    return [block for page in EXAMPLES for block in blocks_of(page, language)]


def blocks_of(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]
