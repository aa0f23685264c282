"""The C headers against plain code, for this machine and for aarch64 where it can be emulated.

Cannot show what the compiler makes of the generated C there, nor what threads see of each other:
the emulator keeps this machine's order of loads and stores.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.waiting import HANG_S

FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Icext/c"]


def compiled(directory: Path, compiler: str, *flags: str) -> Path:
    program = directory / f"c_parts-{'-'.join([compiler, *flags]).replace('/', '_')}"
    command = [compiler, *FLAGS, *flags, "-o", str(program), "tests/support/c_parts.c"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return program


def test_c_parts_do_what_plain_code_does(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = compiled(tmp_path, Path(compiler).name, "-O3")
    done = subprocess.run(
        [program, str(tmp_path / "page"), "5000"], capture_output=True, text=True, timeout=HANG_S
    )
    assert (done.returncode, done.stdout) == (0, "5000 rounds\n")


def test_c_parts_do_the_same_on_aarch64(tmp_path: Path) -> None:
    """There, vectors and checksums use the instructions of that processor."""
    if platform.machine() == "aarch64":
        pytest.skip("this is one")
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None or shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("no compiler or emulator for aarch64 (gcc-aarch64-linux-gnu, qemu-user-static)")
    program = compiled(tmp_path, "aarch64-linux-gnu-gcc", "-O3", "-static")
    done = subprocess.run(
        [emulator, program, str(tmp_path / "page"), "2000"],
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "2000 rounds\n"), done.stderr
