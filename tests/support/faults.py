"""Faults: a disk that fails on demand; the Python side of tests/support/faultio/faultio.c.

    with Faults(shim, tmp_path / "control") as faults:
        faults.fail("fdatasync", errno.EIO, path="commitlog/", first=3, count=1)
        process = subprocess.Popen([...], env=faults.environment())
        ...
        assert faults.hits(0) == 1
        faults.clear()              # the disk is well again, while the program runs
        faults.hold("fsync", path="config/")        # these calls wait until the next clear()
        faults.lose(123_456, path="commitlog/")     # reads that need this byte of a file fail

A conftest.py gets the fixtures `fault_shim` (one per session) and `faults` (one control file per
test) with `from support.faults import fault_shim, faults`. Rules: `first` (from 1) is the matching
call at which a rule begins, `count` the number of calls that it hits (0: all that follow). Rules
are tried in their order, and the first that hits decides.
"""

import errno
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "faultio" / "faultio.c"
MAGIC = 0x46494F31
RULE_BYTES, RULES_MAX = 256, 8
OPERATIONS = {"pwrite": 1, "fdatasync": 2, "fsync": 4, "fallocate": 8, "pread": 16, "rename": 32,
              "unlink": 64, "ftruncate": 128}  # fmt: skip
OPERATIONS["step"] = sum(OPERATIONS[each] for each in (  # calls that must survive a power cut
    "pwrite", "fdatasync", "fsync", "rename", "unlink", "ftruncate"))  # fmt: skip
ACTIONS = {"fail": 1, "short": 2, "kill": 3, "kill_after_part": 4, "sleep": 5, "hold": 6}


def compile_shim(directory: Path, source: Path = SOURCE) -> Path:
    """Builds the shared library in `directory`; returns its path."""
    library = directory / f"{source.stem}.so"
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the fault shim")
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(source), "-ldl"], check=True)
    return library


class Faults:
    """One control file: rules in, counters out."""

    def __init__(self, shim: Path, control: Path) -> None:
        self.shim = shim
        self.control = control
        self._holds = 0
        control.write_bytes(struct.pack("<II8x", MAGIC, 0) + bytes(RULE_BYTES * RULES_MAX))
        with control.open("r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.map.close()

    def environment(self, **more: str) -> dict[str, str]:
        """The environment for the program under test."""
        # A library that is preloaded already (a sanitizer's runtime) must come first.
        preload = f"{os.environ.get('LD_PRELOAD', '')} {self.shim}".strip()
        ours = {"LD_PRELOAD": preload, "RMQ_FAULTIO": str(self.control)}
        return {**os.environ, **ours, **more}

    def fail(self, operation, error, *, path="", first=1, count=0):
        self._add(operation, "fail", error, path, first, count, 0)

    def lose(self, byte, *, path=""):
        """A lost sector: every pread that includes this byte of a file fails (not byte 0)."""
        self._add("pread", "fail", errno.EIO, path, 1, 0, byte)

    def short_write(self, size, *, path="", first=1, count=0):
        self._add("pwrite", "short", 0, path, first, count, size)

    def kill(self, operation, *, path="", first=1):
        self._add(operation, "kill", 0, path, first, 1, 0)

    def kill_after_part(self, size, *, path="", first=1):
        self._add("pwrite", "kill_after_part", 0, path, first, 1, size)

    def sleep(self, operation, microseconds, *, path="", first=1, count=0):
        self._add(operation, "sleep", microseconds, path, first, count, 0)

    def hold(self, operation, *, path=""):
        """Every such call waits until clear(), and then succeeds."""
        self._holds += 1
        self._add(operation, "hold", 0, path, 1, 0, self._holds)

    def let_go(self, rule: int = 0) -> None:
        """Lets the calls go on that this rule holds. The rule counts anew and holds later calls.
        clear() and hold() would not do: the next call might come while there is no rule."""
        at = 16 + rule * RULE_BYTES
        self._holds += 1
        struct.pack_into("<II", self.map, at + 24, 0, 0)  # seen, hits
        struct.pack_into("<I", self.map, at + 20, self._holds)

    def _add(self, operation, action, error, path, first, count, size):
        number = struct.unpack_from("<I", self.map, 4)[0]
        if number >= RULES_MAX:
            raise ValueError(f"at most {RULES_MAX} rules")
        text = str(path).encode()
        if len(text) > 223:
            raise ValueError("path: at most 223 bytes")
        struct.pack_into(
            "<IIiIIIII224s",
            self.map, 16 + number * RULE_BYTES,
            OPERATIONS[operation], ACTIONS[action], error, first, count, size, 0, 0, text,
        )  # fmt: skip
        struct.pack_into("<I", self.map, 4, number + 1)

    def clear(self) -> None:
        """Removes all rules: the disk is well again."""
        struct.pack_into("<I", self.map, 4, 0)

    def seen(self, rule: int) -> int:
        """Calls that matched the rule's operation and path."""
        return struct.unpack_from("<I", self.map, 16 + rule * RULE_BYTES + 24)[0]

    def hits(self, rule: int) -> int:
        """Calls that the rule changed."""
        return struct.unpack_from("<I", self.map, 16 + rule * RULE_BYTES + 28)[0]


@pytest.fixture(scope="session")
def fault_shim(tmp_path_factory):
    return compile_shim(tmp_path_factory.mktemp("faultio"))


@pytest.fixture
def faults(fault_shim, tmp_path):
    with Faults(fault_shim, tmp_path / "faultio.control") as faults:
        yield faults
