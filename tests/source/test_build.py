"""The build: its log has nothing to mend, its check sees what it should, stubs match modules."""

import ast
import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.source_tree import ROOT, files, name_of, parsed, shown
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
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_stub_names_what_the_module_has() -> None:
    missing = []
    for path in files(".pyi"):
        module = importlib.import_module(name_of(path))
        wanted = {name for name in stub_names(path) if not name.startswith("_")}
        missing += [f"{shown(path)}: {name}" for name in wanted if not hasattr(module, name)]
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                real = getattr(module, node.name, None)
                missing += [
                    f"{shown(path)}: {node.name}.{child.name}"
                    for child in node.body
                    if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not hasattr(real, child.name)
                ]
    assert missing == []


def test_module_with_functions_for_python_has_a_stub() -> None:
    """What other Python code calls is typed."""
    used = "\n".join(
        other.read_text() for other in files(".py", trees=("rmq", "shards", "bench", "tools"))
    )
    missing = []
    for path in files(".pyx", trees=("cext",)):
        text = path.read_text()
        public = re.search(r"^(?:def|cpdef [\w*]+)\s+[a-z]\w*\(", text, re.MULTILINE)
        called = public and re.search(rf"{re.escape(name_of(path))}\b", used)
        if called and not path.with_suffix(".pyi").exists():
            missing.append(shown(path))
    assert missing == []


def test_every_module_is_compiled_and_imports() -> None:
    for path in files(".pyx", trees=("cext",)):
        module = importlib.import_module(name_of(path))
        assert module.__file__ is not None
        assert module.__file__.endswith(".so"), shown(path)


LOW = "\ncdef int seven() noexcept nogil:\n    return SEVEN\n"


@pytest.fixture(scope="module")
def first_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with this setup.py and two small modules, one of which uses the other. It was built by
    two processes at once."""
    tree = tmp_path_factory.mktemp("small") / "tree"
    texts = {
        "rmq/__init__.py": '__version__ = "0.0.1"\n',
        "cext/__init__.py": "",
        "cext/c/seven.h": "#define SEVEN 7\n",
        "cext/low.pxd": "cdef int seven() noexcept nogil\n",
        "cext/low.pyx": f"cdef extern from 'seven.h' nogil:\n    int SEVEN\n{LOW}",
        "cext/high.pyx": "from cext.low cimport seven\n\ndef value() -> int:\n    return seven()\n",
    }  # fmt: skip
    (tree / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "setup.py", tree)
    for tool in ("build_pool.py", "pxd_reader.py"):
        shutil.copy(ROOT / "tools" / tool, tree / "tools")
    for name, text in texts.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    code, progress, log = build(tree, jobs=2)
    assert code == 0, log
    made = sorted(line.split("] ")[1] for line in progress)
    assert made == ["cext/_cython", "cext/high", "cext/low"]
    assert [line.split("] ")[0] for line in progress] == ["[1/3", "[2/3", "[3/3"]
    return tree


@pytest.fixture
def small_tree(first_build: Path, tmp_path: Path) -> Path:
    """A copy of the built tree with the times of its files, so nothing in it is out of date."""
    return shutil.copytree(first_build, tmp_path / "tree")


AS_MODULE = "setup.py build_ext"
AS_TEXT = """-c '
import sys
sys.argv = ["setup.py", "build_ext", "--inplace"]
exec(open("setup.py").read(), {"__name__": "__main__", "__file__": "setup.py"})'"""


def build(tree: Path, jobs: int = 1, setup: str = AS_MODULE) -> tuple[int, list[str], str]:
    """(exit code, lines of progress, everything else that was said)"""
    log = tree / "log"
    with log.open("w") as said:
        done = subprocess.run(
            f"exec {sys.executable} {setup} 3>&1 >&2",
            shell=True, cwd=tree, stdout=subprocess.PIPE, stderr=said, text=True,
            env={**os.environ, "RMQ_PROGRESS": "3", "RMQ_JOBS": str(jobs)},
        )  # fmt: skip
    return done.returncode, done.stdout.splitlines(), log.read_text()


def test_progress_names_each_module_that_is_compiled_and_no_other(small_tree: Path) -> None:
    asked = [sys.executable, "-c", "import cext.high; print(cext.high.value())"]
    assert subprocess.check_output(asked, cwd=small_tree, text=True) == "7\n"
    (small_tree / "cext/low.pxd").write_text("# moved\ncdef int seven() noexcept nogil\n")
    code, progress, log = build(small_tree)
    assert (code, len(progress)) == (0, 2), f"both use what has changed\n{log}"
    (small_tree / "cext/c/seven.h").write_text("#define SEVEN 8\n")
    code, progress, log = build(small_tree)
    assert code == 0, log
    assert [line.split("] ")[1] for line in progress] == ["cext/low"], f"it includes it\n{log}"


def test_several_processes_build_where_setup_is_run_as_a_text(small_tree: Path) -> None:
    """As pip runs it: its functions are in no module that a process could import."""
    for name in ("low.pyx", "high.pyx"):
        os.utime(small_tree / "cext" / name)
    code, progress, log = build(small_tree, jobs=2, setup=AS_TEXT)
    assert (code, len(progress)) == (0, 2), log


def test_modules_share_what_cython_needs_itself(small_tree: Path) -> None:
    """Its C is below build/ only."""
    generated = (small_tree / "build/cython/cext/high.c").read_text()
    assert 'PyImport_ImportModule("cext._cython")' in generated
    assert list((small_tree / "cext").rglob("*.c")) == []
    (small_tree / "build/cython/cext/_cython.c").unlink()
    code, progress, log = build(small_tree)
    assert (code, [line.split("] ")[1] for line in progress]) == (0, ["cext/_cython"]), log


@pytest.mark.parametrize(
    ("module", "level"),
    [
        ("cext.flow.control.log_calls", ["-O1"]),
        ("cext.flow.control_room", []),
        ("cext.testing.wire_probe", ["-O1"]),
        ("cext.testing.stage_loops", ["-O3"]),
        ("cext.flow.turn", []),
    ],
)
def test_what_no_message_passes_through_is_compiled_quickly(module: str, level: list[str]) -> None:
    assert runpy.run_path(str(ROOT / "setup.py"))["effort"](module) == level


@pytest.mark.parametrize(
    ("broken", "said"),
    [("def f(:\n", "low.pyx:1"), (f"cdef extern from 'no.h' nogil:\n    int SEVEN\n{LOW}", "no.h")],
)
def test_a_module_that_does_not_compile_ends_the_build(
    small_tree: Path, broken: str, said: str
) -> None:
    """The build ends although the module's earlier result is still there, and although several
    modules are compiled at once."""
    (small_tree / "cext/low.pyx").write_text(broken)
    code, progress, log = build(small_tree, jobs=2)
    assert code != 0
    assert said in log
    assert not any("cext/low" in line for line in progress)


@pytest.mark.parametrize(("target", "extras"), [("run", False), ("test", True), ("lint", True)])
def test_a_broker_is_started_without_what_only_tests_need(
    tmp_path: Path, target: str, extras: bool
) -> None:
    """What make would do on a machine where nothing is installed yet."""
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", target, f"VENV={tmp_path}/none", "PYTHON=true"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert ("[dev" in told.stdout) == extras
    assert re.search(r"pip install .* -e '\.\[tables\]'$", told.stdout, re.MULTILINE)
    assert "setup.py build_ext" in told.stdout


def test_the_stamp_says_which_commit_was_built(small_tree: Path) -> None:
    """A checkout is stamped with its own commit. Sources without one keep the commit that they
    brought along."""
    stamp = small_tree / "cext" / "_build.py"
    assert 'COMMIT = ""\n' in stamp.read_text()
    stamp.write_text('VERSION = "0.0.1"\nCOMMIT = "4d61e699"\n')
    assert build(small_tree)[:2] == (0, []), "no module is out of date"
    assert 'COMMIT = "4d61e699"\n' in stamp.read_text()
    git = ["git", "-C", str(small_tree), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "setup.py", "rmq"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    write_stamp(small_tree)
    assert re.search(r'^COMMIT = "[0-9a-f]{8}"$', stamp.read_text(), re.MULTILINE)
    (small_tree / "setup.py").open("a").write("# changed\n")
    write_stamp(small_tree)
    assert re.search(r'^COMMIT = "[0-9a-f]{8}\+"$', stamp.read_text(), re.MULTILINE)


def write_stamp(tree: Path) -> None:
    """Writes the stamp, as make does if all modules are up to date."""
    subprocess.run([sys.executable, "setup.py", "stamp"], cwd=tree, check=True)


def test_a_wheel_of_what_is_compiled_needs_a_release_build_that_is_up_to_date(
    tmp_path: Path,
) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "rmq/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("cext", "build"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cext" / "one.pyx").write_text("x = 1\n")
    profile = tmp_path / "build" / "profile"

    def said() -> str:
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", "build"], cwd=tmp_path, capture_output=True,
            text=True, env={**os.environ, "RMQ_BUILD": "compiled"},
        )  # fmt: skip
        assert done.returncode == 1
        return done.stderr

    assert "no release build: make build" in said()
    profile.write_text("asan")
    assert "no release build: make build" in said()
    profile.write_text("release")
    assert "not there or too old: make build" in said()
