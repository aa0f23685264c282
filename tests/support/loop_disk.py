"""Loop disk: a disk whose power can be cut, ext4 in a file behind a loop device.

    with LoopDisk(tmp_path / "store", tmp_path / "disk.image") as disk:
        ... a broker whose store is disk.path ...
        disk.cut_power()        # unsynced bytes are lost; every write and sync fails from now on
        ... the broker, which was stopped (SIGSTOP) before, is killed ...
        disk.restore()          # unmounted, its journal replayed, checked, mounted again

The ioctl EXT4_IOC_SHUTDOWN with NOLOGFLUSH stops the file system at once: neither dirty pages nor
the journal's current transaction reach the device. The page cache still shows them, so do not trust
what you read before the file system has really been unmounted (never lazily) and mounted again.

It needs root, mkfs.ext4 and loop devices; without them the tests are skipped and say why. It cannot
show a device that lies about its cache, or one that tears a sector.
"""

import errno
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1 << 20
IMAGE_BYTES = 2048 * MIB  # sparse
SHUTDOWN_IOCTL = 0x8004587D
SHUTDOWN_NO_LOG_FLUSH = struct.pack("I", 2)
CHECK_MENDED = 1  # exit code of e2fsck: it found errors and mended them


class LoopDisk:
    """Mounted from __init__ until close(), except during restore()."""

    def __init__(self, path: Path, image: Path) -> None:
        self.path = path
        self.image = image
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        lazily = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        _run("mkfs.ext4", "-q", "-m", "0", "-E", lazily, str(image))
        self._mount()

    def __enter__(self) -> "LoopDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut_power(self) -> None:
        """Shuts the file system down. No process may be in the middle of a sync: ext4 would report
        success to some of these syncs without converting their blocks (28 of 300 shutdowns), which
        a power cut does not do. OSError if this kernel's ext4 cannot be shut down."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN_IOCTL, SHUTDOWN_NO_LOG_FLUSH)
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """Mounts the file system as the next start of the machine finds it. No process may have a
        file of it open."""
        _run("umount", str(self.path))
        _run("fsck.ext4", "-p", str(self.image), good=(0, CHECK_MENDED))
        self._mount()

    def close(self) -> None:
        """Unmounts it, even if a failed test has left it in use, and frees the loop device."""
        if os.path.ismount(self.path) and subprocess.run(["umount", str(self.path)]).returncode:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)
        self.image.unlink(missing_ok=True)

    def _mount(self) -> None:
        _run("mount", "-t", "ext4", "-o", "loop", str(self.image), str(self.path))


def _run(*command: str, good: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in good:
        said = (done.stderr or done.stdout).strip()
        raise OSError(errno.EIO, f"{' '.join(command)} ended with {done.returncode}: {said}")


@pytest.fixture
def loop_disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A loop disk at tmp_path/store, the store of brokers of support/broker_process.py."""
    if os.geteuid() != 0:
        pytest.skip("a power cut needs root: a file system is mounted and shut down")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("a power cut needs mkfs.ext4 (e2fsprogs)")
    try:
        disk = LoopDisk(tmp_path / "store", tmp_path / "disk.image")
    except OSError as error:
        pytest.skip(f"no loop file system: {error.strerror}")
    with disk:
        try:
            disk.cut_power()
            disk.restore()
        except OSError as error:
            pytest.skip(f"this file system cannot be shut down: {error.strerror}")
        yield disk
