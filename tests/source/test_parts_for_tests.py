"""Code that only tests call is in no wheel: it is in cext/testing, and nothing in the product has a
name that says it is for tests, or stands below a line that says so.

Cannot prove: that a function without such a name has callers beside the tests.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.source_tree import ROOT, files, outline, outline_of, shown

FOR_TESTS = re.compile(r"(?i:for_?tests)|\w_probe$|^probe$")
SECTION = re.compile(r"^ *#[- ]*(for tests\b[^.]*)$", re.MULTILINE | re.IGNORECASE)
COMPILED = re.compile(
    r"^ *(?:def|cdef|cpdef)\b[^\n(=#:]*?\b(\w+)\(|^ *(?:cdef )?class +(\w+)", re.MULTILINE
)


def product() -> list[Path]:
    paths = files(".py", ".pyi", ".pyx", ".pxd", trees=("cext", "rmq", "shards"))
    return [path for path in paths if ROOT / "cext" / "testing" not in path.parents]


def names(path: Path, text: str) -> Iterator[str]:
    """The names of the module, its functions, its classes and their methods."""
    yield path.stem
    if path.suffix in (".py", ".pyi"):
        # A planted text is in no file.
        found = outline(path) if path.is_absolute() else outline_of(ast.parse(text))
        yield from (name for name, _ in found.functions)
        yield from found.classes
    else:
        for match in COMPILED.finditer(text):
            yield match[1] or match[2]


def meant_for_tests(path: Path, text: str) -> list[str]:
    found = [name for name in names(path, text) if FOR_TESTS.search(name)]
    return found + SECTION.findall(text)


def test_no_module_of_the_product_has_a_part_for_tests() -> None:
    paths = product()
    assert len(paths) > 500, "they are found"
    found = [f"{shown(path)}: {name}" for path in paths
             for name in meant_for_tests(path, path.read_text())]  # fmt: skip
    assert found == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cext/wire/a.pyx", "def hash_for_tests(bytes text) -> int:\n    return 0\n"),
        ("cext/wire/a.pyx", "cdef class HeapForTests:\n    pass\n"),
        ("cext/wire/a.pyx", "cdef class A:\n    cpdef int n_for_tests(self):\n        pass\n"),
        ("cext/wire/a.pxd", "cdef int look_for_tests(const int* at) noexcept nogil\n"),
        ("cext/wire/timer_probe.pyx", ""),
        ("cext/wire/probe.pxd", ""),
        (
            "cext/wire/a.pyx",
            "# ---- for tests ----\n\ndef read(bytes text):\n    return 0\n",
        ),
        ("rmq/a.py", "class A:\n    async def wait_for_tests(self) -> None: ...\n"),
    ],
)
def test_the_check_sees_a_planted_name(name: str, text: str) -> None:
    assert len(meant_for_tests(Path(name), text)) == 1


def test_a_wheel_has_none_of_it(tmp_path: Path) -> None:
    """Looks at the files that are copied. Compiled modules for tests are left out by setup.py."""
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "RMQ_BUILD": "none"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lib/cext/store/log/record.pyi").exists()
    assert not (tmp_path / "lib/cext/testing").exists()
