"""The wheel of `make wheel` works where nothing can be compiled, and the sdist where something can;
what is in both.

Goal: the wheel is enough for a broker without a compiler, and the sdist with gcc. Method: an empty
virtual environment, for the wheel a PATH without compilers, pip as users call it, tools/smoke.py.
The seconds from `pip install` to the first message are only printed, because on a busy machine they
say nothing about the wheel. Cannot prove: other machines and Pythons (cibuildwheel runs the same
script). `make test-wheel` builds what is tested.
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
BUILD_S = 3 * HANG_S  # 250 modules by gcc, on two slow processors


def newest(pattern: str) -> Path:
    found = sorted(DIST.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    assert found, f"no {pattern} in dist/: make test-wheel"
    return found[-1]


@pytest.fixture(scope="module")
def wheel() -> Path:
    return newest(f"rmq-*-{TAG}-{TAG}-*.whl")


@pytest.fixture(scope="module")
def sdist() -> Path:
    return newest("rmq-*.tar.gz")


def version_of(given: Path) -> str:
    return given.name.removesuffix(".tar.gz").split("-")[1]


def names_in(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def run(words: list[str | Path], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=environment, text=True, timeout=BUILD_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def clean_environment(place: Path, path: list[str], **variables: str) -> dict[str, str]:
    """That of a user who has activated the environment, and none of the variables of a build."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("PYTHONPATH", "RMQ_"))}  # fmt: skip
    return {**kept, "PATH": os.pathsep.join([str(place / "bin"), *path]), **variables}


def install(given: Path, place: Path, environment: Mapping[str, str], *options: str) -> None:
    """With pip, into the environment; what rmq needs is there as wheels, also for its build."""
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ("--only-binary=:all:", *options)
    run([place / "bin" / "python", *words, *options, given], place.parent, environment)


def check_broker(place: Path, environment: Mapping[str, str], version: str) -> str:
    """What smoke.py told."""
    python, folder = place / "bin" / "python", place.parent
    told = run([python, ROOT / "tools" / "smoke.py"], folder, environment)
    assert "another one by TLS" in told and "the broker has stopped" in told
    where = run([python, "-c", "import cext, rmq; print(cext.__file__, rmq.__file__)"], folder,
                environment).split()  # fmt: skip
    assert all(Path(path).is_relative_to(place) for path in where)
    assert run([place / "bin" / "rmq", "--version"], folder, environment).split()[-1] == version
    made = run([place / "bin" / "rmq", "generate", "compose"], folder, environment)
    assert "==> Containerfile <==" in made, "its templates are there"
    return told


def test_a_broker_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    environment = clean_environment(place, [], CC=str(tmp_path / "none"))
    assert not any((place / "bin" / name).exists() for name in COMPILERS)
    began = time.monotonic()
    install(wheel, place, environment)
    installed = time.monotonic() - began
    told = check_broker(place, environment, version_of(wheel))
    print(f"\npip install: {installed:.2f} s; then\n{told}")


@pytest.mark.timeout(2 * BUILD_S)
def test_a_broker_compiled_from_the_sdist(sdist: Path, tmp_path: Path) -> None:
    """In an environment that pip makes for the build, with all that an sdist does not have left
    out: no checkout, no git, no module that is compiled already."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    environment = clean_environment(place, [os.environ["PATH"]])
    install(sdist, place, environment, "--no-binary=rmq")
    check_broker(place, environment, version_of(sdist))
    (found,) = place.glob("lib/python*/site-packages")
    compiled = {str(path.relative_to(found)).partition(".")[0] for path in found.rglob("*.so")
                if path.is_relative_to(found / "cext")}  # fmt: skip
    assert compiled == modules()


def modules() -> set[str]:
    """The compiled modules of the product. Those of cext/testing are for tests only; one has no
    source here, because Cython makes all of it."""
    found = {path.relative_to(ROOT) for path in (ROOT / "cext").rglob("*.pyx")}
    sources = {str(path.with_suffix("")) for path in found if "testing" not in path.parts}
    return sources | {"cext/_cython"}


def files_of_the_product() -> set[str]:
    """What of the trees is no source of a compiled module: Python, stubs, templates, the console's
    pages with what they load."""
    found = {path.relative_to(ROOT) for tree in ("rmq", "shards", "pyspark_rmq")
             for path in (ROOT / tree).rglob("*") if path.is_file()}  # fmt: skip
    for ending in ("*.py", "*.pyi", "py.typed"):
        found |= {path.relative_to(ROOT) for path in (ROOT / "cext").rglob(ending)}
    return {str(path) for path in found if not {"__pycache__", "testing"} & set(path.parts)}


def test_both_have_every_file_of_the_product(wheel: Path, sdist: Path) -> None:
    wanted = files_of_the_product()
    for name in ("rmq/console/templates/base.html", "rmq/console/static/htmx.min.js",
                 "rmq/generate/templates/compose/Containerfile", "rmq/py.typed"):  # fmt: skip
        assert name in wanted
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()
    assert wanted - names_in(sdist) == set()


def test_the_wheel_has_all_modules_their_libraries_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    assert compiled == modules()
    bundled = sorted(Path(name).name.partition("-")[0] for name in names if "rmq.libs/lib" in name)
    assert bundled == ["libcrypto", "libssl"]
    assert "-manylinux_" in wheel.name, "pip takes it on other distributions"
    tops = {name.partition("/")[0] for name in names}
    info = f"rmq-{version_of(wheel)}.dist-info"
    assert tops == {"rmq", "cext", "shards", "pyspark_rmq", "rmq.libs", info}
    assert not any("testing" in name for name in names)


def test_the_sdist_has_what_a_build_needs(sdist: Path) -> None:
    names = names_in(sdist)
    wanted = {"setup.py", "pyproject.toml", "cext/_build.py", "LICENSE"}
    wanted |= {"tools/build_pool.py", "tools/pxd_reader.py"}
    for ending in ("*.pyx", "*.pxd", "*.h", "*.pyi"):
        wanted |= {str(path.relative_to(ROOT)) for path in (ROOT / "cext").rglob(ending)}
    assert wanted - names == set()
    assert not any(name.endswith((".so", ".pyc")) for name in names)
