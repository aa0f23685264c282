"""Page cache: drops files from memory, so that they are read from the disk again."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.waiting import wait_until_is

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = _libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def drop_page_cache(directory: Path) -> None:
    """Syncs the files and drops their pages. Pages that are mapped or in use may stay."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def drop_from_page_cache(directory: Path) -> None:
    """Drops the files until none of their pages is in memory, since the kernel does not drop a page
    that is in use at that moment. No process may map the files."""
    if "tmpfs" in filesystem_of(directory):
        pytest.skip("nothing can be dropped of files that are in memory alone: set TMPDIR")
    files = [path for path in directory.rglob("*") if path.is_file() and path.stat().st_size > 0]

    def cached() -> list[Path]:
        drop_page_cache(directory)
        return [path for path in files if is_cached(path, path.stat().st_size)]

    wait_until_is(cached, lambda found: not found, still=True)


def filesystem_of(path: Path) -> str:
    asked = ["stat", "-f", "-c", "%T", str(path)]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def is_cached(path: Path, length: int) -> bool:
    """Whether any of the file's first `length` bytes is in memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY) as view:
        start = ctypes.c_char.from_buffer(view)
        pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(length),
                               pages)  # fmt: skip
        del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore", str(path))
    return any(page & 1 for page in pages)


@contextmanager
def kept_in_memory(path: Path, length: int) -> Iterator[None]:
    """Keeps the file's first `length` bytes in memory during the block. Without this the kernel may
    drop them at any time."""
    with path.open("rb") as file:
        at = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap", str(path))
    try:
        if _libc.mlock(at, length):
            raise OSError(ctypes.get_errno(), "mlock", str(path))
        yield
    finally:
        _libc.munmap(at, length)
