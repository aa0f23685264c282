"""Small disk: a tmpfs of a few MiB, mounted for one test, so that a disk can be full.

    def test(small_disk): small_disk.fill(leave=0); ...; small_disk.free()

Mounting needs root (or CAP_SYS_ADMIN). Without it the tests that use this disk are skipped, and
only those with an ENOSPC of support/faults.py remain.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1 << 20


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.ballast = path / "ballast"

    def free_bytes(self) -> int:
        space = os.statvfs(self.path)
        return space.f_bavail * space.f_frsize

    def fill(self, leave: int) -> None:
        """Fills the disk with a file, except for `leave` bytes."""
        wanted = self.free_bytes() - leave
        with self.ballast.open("ab") as file:
            os.posix_fallocate(file.fileno(), file.tell(), max(wanted, 1))

    def free(self) -> None:
        self.ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={48 * MIB}", "tmpfs", str(path)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small file system: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
