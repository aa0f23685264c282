"""The build: its log has nothing to mend, its check sees what it should, stubs match modules."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from support.source_tree import ROOT, files, name_of
from support.tools import load_tool

LOG = ROOT / "build" / "build.log"


def test_last_build_had_nothing_to_say() -> None:
    if not LOG.exists():
        pytest.skip("built without make: no log")
    assert load_tool("check_build_log").complaints(LOG.read_text(errors="replace")) == []


def test_check_of_the_log_sees_hints_and_warnings_and_no_others() -> None:
    complaints = load_tool("check_build_log").complaints
    assert complaints("performance hint: cext/a.pyx:7:0: Exception check ...\n") != []
    assert complaints("build/cython/cext/a.c:12:3: warning: unused variable 'x'\n") != []
    assert complaints("gcc -Wall -Wextra -c a.c\nSetuptoolsDeprecationWarning: x\n") == []


def stub_names(path: Path) -> set[str]:
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize("path", files(".pyi"), ids=lambda path: str(path.relative_to(ROOT)))
def test_stub_names_what_the_module_has(path: Path) -> None:
    module = importlib.import_module(name_of(path))
    wanted = {name for name in stub_names(path) if not name.startswith("_")}
    assert sorted(name for name in wanted if not hasattr(module, name)) == []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            members = {
                child.name
                for child in node.body
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            real = getattr(module, node.name)
            assert sorted(name for name in members if not hasattr(real, name)) == []


@pytest.mark.parametrize(
    "path", files(".pyx", trees=("cext",)), ids=lambda path: str(path.relative_to(ROOT))
)
def test_module_with_functions_for_python_has_a_stub(path: Path) -> None:
    """What others call from Python is typed; entry points for tests alone need no stub."""
    text = path.read_text().partition("# for tests")[0]
    public = re.findall(r"^(?:def|cpdef [\w*]+)\s+([a-z]\w*)\(", text, re.MULTILINE)
    used = "\n".join(
        other.read_text() for other in files(".py", trees=("rmq", "shards", "bench", "tools"))
    )
    called = [name for name in public if re.search(rf"{re.escape(name_of(path))}\b", used)]
    assert not called or path.with_suffix(".pyi").exists()


@pytest.mark.parametrize(
    "path", files(".pyx", trees=("cext",)), ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_module_is_compiled_and_imports(path: Path) -> None:
    module = importlib.import_module(name_of(path))
    assert module.__file__ is not None
    assert module.__file__.endswith(".so")
