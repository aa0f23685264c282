"""The wheel of `make wheel` works where nothing can be compiled; what is in it and in the sdist.

Goal: the wheel is enough for a broker without a compiler, and the broker takes a message within 30
seconds from `pip install` on an idle machine. Method: an empty virtual environment, a PATH without
compilers, pip as users call it, tools/smoke.py. The seconds are only printed, because on a busy
machine they say nothing about the wheel. Cannot prove: other machines and Pythons (cibuildwheel
runs the same script). `make test-wheel` builds what is tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.waiting import HANG_S

pytestmark = pytest.mark.slow

DIST = ROOT / "dist"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "ld")


def newest(pattern: str) -> Path:
    found = sorted(DIST.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    assert found, f"no {pattern} in dist/: make test-wheel"
    return found[-1]


@pytest.fixture(scope="module")
def wheel() -> Path:
    return newest(f"rmq-*-{TAG}-{TAG}-*.whl")


def run(words: list[str | Path], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=environment, text=True, timeout=HANG_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_broker_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**kept, "PATH": str(place / "bin"), "CC": str(tmp_path / "none")}
    assert not any((place / "bin" / name).exists() for name in COMPILERS)
    began = time.monotonic()
    words = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary=:all:",
    ]
    run([python, *words, wheel], tmp_path, environment)
    installed = time.monotonic() - began
    told = run([python, ROOT / "tools" / "smoke.py"], tmp_path, environment)
    print(f"\npip install: {installed:.2f} s; then\n{told}")
    assert "another one by TLS" in told and "the broker has stopped" in told
    where = run([python, "-c", "import cext, rmq; print(cext.__file__, rmq.__file__)"], tmp_path,
                environment).split()  # fmt: skip
    assert all(Path(path).is_relative_to(place) for path in where)
    version = run([place / "bin" / "rmq", "--version"], tmp_path, environment)
    assert version.split()[-1] in wheel.name
    made = run([place / "bin" / "rmq", "generate", "compose"], tmp_path, environment)
    assert "==> Containerfile <==" in made, "its templates are there"


def modules() -> set[str]:
    """The compiled modules of the product. Those of cext/testing are for tests only."""
    found = {path.relative_to(ROOT) for path in (ROOT / "cext").rglob("*.pyx")}
    return {str(path.with_suffix("")) for path in found if "testing" not in path.parts}


def templates() -> set[str]:
    paths = (ROOT / "rmq" / "generate" / "templates").rglob("*")
    return {str(path.relative_to(ROOT)) for path in paths if path.is_file()}


def test_it_has_all_modules_their_libraries_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    assert compiled == modules()
    bundled = sorted(Path(name).name.partition("-")[0] for name in names if "rmq.libs/lib" in name)
    assert bundled == ["libcrypto", "libssl"]
    assert "-manylinux_" in wheel.name, "pip takes it on other distributions"
    tops = {name.partition("/")[0] for name in names}
    version = wheel.name.split("-")[1]
    assert tops == {"rmq", "cext", "shards", "pyspark_rmq", "rmq.libs", f"rmq-{version}.dist-info"}
    assert not any("testing" in name for name in names)
    sources = {str(path.relative_to(ROOT)) for tree in ("rmq", "shards", "pyspark_rmq")
               for path in (ROOT / tree).rglob("*.py")}  # fmt: skip
    assert (sources | templates()) - set(names) == set()


def test_the_sdist_has_what_a_build_needs() -> None:
    with tarfile.open(newest("rmq-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"setup.py", "pyproject.toml", "tools/pxd_reader.py", "cext/_build.py", "LICENSE"}
    for ending in ("*.pyx", "*.pxd", "*.h", "*.pyi"):
        wanted |= {str(path.relative_to(ROOT)) for path in (ROOT / "cext").rglob(ending)}
    assert (wanted | templates()) - names == set()
    assert not any(name.endswith((".so", ".pyc")) for name in names)
