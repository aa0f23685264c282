"""Code that only tests call is in no wheel: it is in cext/testing. Nothing in the product has a
name that says it is for tests, or a line of a compiled module that says so; and what the lower
layers have for Python is called by a module that names theirs.

Cannot prove: that such a call is one of this function, and not of another with the same name; that
a function of a layer above, which Python is given in other ways, has callers beside the tests.
"""

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.source_tree import ROOT, files, name_of, outline, outline_of, shown

FOR_TESTS = re.compile(r"(?i:for_?tests)|\w_probe$|^probe$")
SECTION = re.compile(r"^ *#[- ]*(for tests\b[^.]*)$", re.MULTILINE | re.IGNORECASE)
SAYS_SO = re.compile(r"\bfor (?:the )?tests\b", re.IGNORECASE)
OTHERWISE = ["cext/base/clock.pxd: For tests"]  # every clock of a process can be a driven one
COMPILED = re.compile(
    r"^ *(?:def|cdef|cpdef)\b[^\n(=#:]*?\b(\w+)\(|^ *(?:cdef )?class +(\w+)", re.MULTILINE
)

# Whoever uses their classes imports or cimports these. (A core, a client's engine or a TLS context
# comes as an argument.)
LOWER = ("cext.base.", "cext.memory.", "cext.wire.", "cext.store.")
SAID = re.compile(r'"""[\s\S]*?"""|#.*')
CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:.*\n((?:^(?: .*)?\n)*)", re.MULTILINE)
METHOD = re.compile(r"^    (@property\n    )?def ([a-z]\w*)\(", re.MULTILINE)
FUNCTION = re.compile(r"^def ([a-z]\w*)\(", re.MULTILINE)


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
    says_so = SAYS_SO if path.suffix in (".pyx", ".pxd") else SECTION
    return found + says_so.findall(text)


def test_no_module_of_the_product_has_a_part_for_tests() -> None:
    paths = product()
    assert len(paths) > 500, "they are found"
    found = [f"{shown(path)}: {name}" for path in paths
             for name in meant_for_tests(path, path.read_text())]  # fmt: skip
    assert found == OTHERWISE


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
        ("cext/wire/a.pyx", 'def step():\n    """For tests: one round."""\n    return 0\n'),
        ("cext/wire/a.pxd", "# The methods are for tests.\ncdef int x() noexcept nogil\n"),
        ("rmq/a.py", "class A:\n    async def wait_for_tests(self) -> None: ...\n"),
    ],
)
def test_the_check_sees_a_planted_name(name: str, text: str) -> None:
    assert len(meant_for_tests(Path(name), text)) == 1


def texts_of_modules() -> dict[str, str]:
    """The text of each module of the product, of a compiled one that of both files, without what it
    says to readers."""
    texts: dict[str, str] = defaultdict(str)
    for path in product():
        if path.suffix != ".pyi":
            texts[name_of(path)] += SAID.sub("", path.read_text()) + "\n"
    return texts


def uncalled(texts: Mapping[str, str]) -> list[str]:
    """What the lower layers have for Python and no module calls that names theirs, or that of a
    class below."""
    homes: dict[str, str] = {}
    below: dict[str, list[str]] = defaultdict(list)
    methods: set[tuple[str, str, bool]] = set()
    words = Counter(re.findall(r"\w+", "\n".join(texts.values())))
    wrong = []
    for module, text in texts.items():
        for kind, base, body in CLASS.findall(text):
            homes[kind] = module
            below[base].append(kind)
            if module.startswith(LOWER):
                methods |= {(kind, name, bool(mark)) for mark, name in METHOD.findall(body)}
        if module.startswith(LOWER):
            wrong += [f"{module}: {name}" for name in FUNCTION.findall(text) if words[name] == 1]

    def users(kind: str) -> Iterator[str]:
        home = homes[kind]
        yield from (text for name, text in texts.items() if name == home or home in text)
        for lower in below[kind]:
            yield from users(lower)

    for kind, name, is_property in methods:
        call = re.compile(rf"\.{name}\b" if is_property else rf"\.{name}\(")
        if not any(call.search(text) for text in users(kind)):
            wrong.append(f"{homes[kind]}: {kind}.{name}")
    return sorted(wrong)


def test_what_the_lower_layers_have_for_python_is_called() -> None:
    assert uncalled(texts_of_modules()) == []


def test_the_check_sees_a_method_and_a_function_that_nobody_calls() -> None:
    texts = {
        "cext.store.reader": """
cdef class Table:
    def names(self) -> list:
        return []

cdef class Reader(Table):
    def start(self) -> None:
        pass

    @property
    def count(self) -> int:
        return 0

def opened(path):
    return Reader(path)
""",
        "cext.flow.core": "from cext.store.reader cimport Reader\nreader.start()\n",
        "cext.flow.other": "x.names(); x.count\n",
    }
    assert uncalled(texts) == [
        "cext.store.reader: Reader.count",
        "cext.store.reader: Table.names",
        "cext.store.reader: opened",
    ]
    texts["cext.flow.core"] += "reader.names()\nopened(reader.count)\n"
    assert uncalled(texts) == []


def test_a_wheel_has_none_of_it(tmp_path: Path) -> None:
    """Looks at the files that are copied. Compiled modules for tests are left out by setup.py."""
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "RMQ_BUILD": "none"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lib/cext/store/log/record.pyi").exists()
    assert not (tmp_path / "lib/cext/testing").exists()
