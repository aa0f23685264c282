"""One version everywhere, a package that imports light, and the stamp of the compiled half."""

import re
import subprocess
import sys
from pathlib import Path

from support.source_tree import ROOT

import rmq


def run(script: str, cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a script without writing bytecode (-B): Python would take it for current if a source is
    changed within the same second and keeps its size."""
    return subprocess.run(
        [sys.executable, "-B", *options, "-c", script], capture_output=True, text=True, cwd=cwd
    )


def test_version_is_the_same_in_package_and_metadata() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    assert found[1] == rmq.__version__


def test_rmq_alone_imports_nothing_of_ours() -> None:
    """Spark's executors read the formats with no compiled module present."""
    done = run(
        "import sys, rmq, rmq.errors, rmq.format.message\n"
        "print(sorted(name for name in sys.modules if name.startswith('cext')))",
        ROOT,
    )
    assert done.stdout == "[]\n"


def test_type_checkers_know_the_same_names() -> None:
    stub = (ROOT / "rmq" / "__init__.pyi").read_text()
    assert set(re.findall(r" as (\w+)$", stub, re.MULTILINE)) | {"__version__"} == set(rmq.__all__)


def test_modules_of_another_version_are_refused_with_the_remedy(tmp_path: Path) -> None:
    for name in ("rmq/__init__.py", "rmq/errors.py", "rmq/codes.py", "cext/__init__.py"):
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text((ROOT / name).read_text())
    # -S: the finder of an editable installation would supply what the copy lacks
    done = run("import cext", tmp_path, "-S")
    assert "NotBuiltError: The compiled modules of rmq are missing." in done.stderr
    (tmp_path / "cext" / "_build.py").write_text('VERSION = "0.0.1"\nCOMMIT = ""\n')
    done = run("import cext", tmp_path, "-S")
    assert "NotBuiltError: The compiled modules are of rmq 0.0.1, the rest is" in done.stderr
    assert "make build" in done.stderr
    (tmp_path / "cext" / "_build.py").write_text(f'VERSION = "{rmq.__version__}"\n')
    assert "are missing." in run("import cext", tmp_path, "-S").stderr, "a stamp of long ago"
    (tmp_path / "cext" / "_build.py").write_text(f'VERSION = "{rmq.__version__}"\nCOMMIT = ""\n')
    assert run("import cext", tmp_path, "-S").returncode == 0


def test_every_code_folder_is_a_package() -> None:
    missing = [
        str(folder.relative_to(ROOT))
        for tree in ("rmq", "cext", "shards")
        for folder in (ROOT / tree).rglob("*")
        if folder.is_dir()
        and any(folder.glob("*.py*"))
        and folder.name != "__pycache__"
        and not (folder / "__init__.py").exists()
    ]
    assert missing == []
