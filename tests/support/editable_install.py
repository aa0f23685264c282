"""Editable install: rmq as `pip install -e` leaves it, in an environment of its own.

    python = editable_install(folder)
    subprocess.run([python, "-c", "import rmq"], cwd=elsewhere, env=without_paths(python))

The tests run in the tree or are given PYTHONPATH, and so find rmq in any case. Whoever works with
a checkout from a folder of his own has only what the install has put into his environment, and
this environment has no more than that. pyspark and the other packages are those of the environment
that the tests run in: their folder is on the path, and the .pth of the tests' own rmq, which is in
it, is not read there.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from support.source_tree import ROOT
from support.waiting import HANG_S

# What setuptools reads. The modules are compiled already: RMQ_BUILD=none, as the Makefile has it.
COPIED = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
LINKED = ("rmq", "cext", "shards", "pyspark_rmq")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"


def editable_install(folder: Path) -> Path:
    """Its interpreter. The checkout is a folder of links, so that the build leaves nothing here."""
    checkout, wheels, place = folder / "checkout", folder / "wheels", folder / "venv"
    checkout.mkdir(parents=True)
    for name in COPIED:
        (checkout / name).write_bytes((ROOT / name).read_bytes())
    for name in LINKED:
        (checkout / name).symlink_to(ROOT / name)
    run = {"check": True, "timeout": HANG_S, "stdout": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-c", BUILD, wheels], cwd=checkout, **run,
                   env={**without_paths(Path(sys.executable)), "RMQ_BUILD": "none"})  # fmt: skip
    (wheel,) = wheels.glob("rmq-*.editable-*.whl")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    words = ["--quiet", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *words, wheel], **run)
    (found,) = place.glob("lib/python*/site-packages")
    (found / "packages_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def without_paths(python: Path) -> dict[str, str]:
    """The environment of a user who has activated that of the interpreter."""
    ours = ("PYTHONPATH", "PYSPARK", "SPARK", "MYPY", "RMQ_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]])}
