"""Size and form: files, functions and lines that a reader can hold, and no names of machines.

The limits are those a reader needs: files of at most 800 lines (aim 400), functions of at most 70,
lines of at most 100 columns. A file that breaks a limit for a reason is in the table of exceptions,
with the reason. Each test is a rule, and lists every place where it is broken. No test can see
whether a file's header explains the file: that is for those who read the change.
"""

import re
from pathlib import Path

from support.source_tree import ROOT, files, outline, shown

LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 800, 70, 100
CODE = (".py", ".pyx", ".pxd", ".c", ".h", ".pyi")
TEXT = (*CODE, ".toml", ".md", ".sh", ".java", ".go", ".xml")

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

# Machines, paths and hosts that nothing may name; "work" and "root" alone are words.
BANNED = re.compile(
    r"/work/|/root/|/home/[a-z]|/tmp/bash|/opt/wheels|:\d+/simple|index-url|extra-index"
    r"|proxy\.golang|repo1?\.maven|localhost\.localdomain|\bsubagent|\bAI agent",
)  # fmt: skip
CDEF = re.compile(r"^(\s*)(?:cdef|cpdef|def)\s[^=]*?(\w+)\s*\([^)]*", re.MULTILINE)


def root_texts() -> list[Path]:
    names = ("setup.py", "pyproject.toml", "Makefile", "README.md", "ARCHITECTURE.md",
             "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "MANIFEST.in", ".ci/run",
             ".github/workflows/ci.yml", ".github/workflows/pages.yml",
             ".github/workflows/wheels.yml")  # fmt: skip
    return [ROOT / name for name in names if (ROOT / name).exists()]


def python_functions(path: Path) -> list[tuple[str, int]]:
    if path.read_text().count("\n") < FUNCTION_LINES_MAX:
        return []  # no function in it is long
    return list(outline(path).functions)


def cython_functions(path: Path) -> list[tuple[str, int]]:
    """(name, lines) by indentation: a function ends before the next line not deeper than it."""
    lines = path.read_text().split("\n")
    found = []
    for number, line in enumerate(lines):
        head = re.match(r"(\s*)(?:cdef|cpdef|def)\s(?!class\b)[^=]*?(\w+)\s*\(", line)
        if head is None:
            continue
        body = number
        while body < len(lines) and not lines[body].rstrip().endswith(":"):
            if lines[body].rstrip().endswith(("nogil", ")")) and body > number:
                break
            body += 1
        if body >= len(lines) or not lines[body].rstrip().endswith(":"):
            continue  # a declaration
        end = last = body
        for at in range(body + 1, len(lines)):
            text = lines[at]
            if text.strip() and len(text) - len(text.lstrip()) <= len(head[1]):
                break
            end = at
            if text.strip():
                last = at
        assert end >= last
        found.append((head[2], last - number + 1))
    return found


def test_files_are_short_and_lines_fit() -> None:
    found = []
    for path in files(*CODE):
        lines = path.read_text().split("\n")
        if len(lines) > LINES_MAX and shown(path) not in LONG_FILES:
            found.append(f"{shown(path)}: {len(lines)} lines")
        if max(map(len, lines)) > COLUMNS_MAX:
            found += [
                f"{shown(path)}:{number}: {len(line)} columns"
                for number, line in enumerate(lines, 1)
                if len(line) > COLUMNS_MAX
            ]
    assert found == []


def test_functions_are_short() -> None:
    found = []
    for path in files(".py", ".pyx"):
        functions = python_functions(path) if path.suffix == ".py" else cython_functions(path)
        found += [
            f"{shown(path)}:{name}: {lines} lines"
            for name, lines in functions
            if lines > FUNCTION_LINES_MAX and f"{shown(path)}:{name}" not in LONG_FUNCTIONS
        ]
    assert found == []


def test_no_machine_path_or_host_is_named() -> None:
    own = Path(__file__).resolve()
    found = [
        f"{shown(path)}:{number}: {line}"
        for path in [*files(*TEXT), *root_texts()]
        if path != own and BANNED.search(text := path.read_text(errors="replace"))
        for number, line in enumerate(text.split("\n"), 1)
        if BANNED.search(line)
    ]
    assert found == []


def test_files_begin_with_what_they_are() -> None:
    found = []
    for path in files(".py", ".pyx", ".pxd", trees=("rmq", "cext", "shards", "tools")):
        text = path.read_text().lstrip()
        if text.startswith("#!"):
            text = text.partition("\n")[2].lstrip()
        if text and not text.startswith(('"""', 'r"""', "#", "'''")):
            found.append(shown(path))
    assert found == []


def test_no_package_marker_stands_in_the_tests() -> None:
    """With it `python -m pytest` would find the uncompiled tree instead of the installed one."""
    assert list((ROOT / "tests").rglob("__init__.py")) == []


BANNED_CYTHON = {
    "include": r"^\s*include\s+[\"']",
    "DEF or IF": r"^\s*(DEF|IF)\s",
    "except *": r"except\s*\*",
    "memoryview argument": r"\[::1?\]|\[:, ",
    "relative cimport": r"^\s*from\s+\.\S*\s+c?import",
    "nogil without noexcept": r"^\s*c(p)?def\s(?!.*(noexcept|except\s*[?+-]|except NULL)).*\)"
    r"\s*nogil\s*:?$",
}


def test_cython_is_written_by_the_rules() -> None:
    """No textual includes, compile-time conditions, memoryviews or hidden takes of the lock."""
    found = []
    for path in files(".pyx", ".pxd"):
        code = "\n".join(line.partition("#")[0] for line in path.read_text().split("\n"))
        code = re.sub(r'""".*?"""', '""', code, flags=re.DOTALL)
        found += [
            f"{shown(path)}: {name}"
            for name, pattern in BANNED_CYTHON.items()
            if re.search(pattern, code, re.MULTILINE)
        ]
    assert found == []
