"""Goal: a copy of a store's file has its bytes and its length, and holes where nobody wrote
(tests/support/store_copies.py)."""

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.store_copies import copy_file, copy_store

MIB = 1 << 20


def plain(file: int) -> None:
    os.pwrite(file, b"begin", 0)
    os.pwrite(file, b"end", 8 * MIB - 3)


def reserved(file: int) -> None:
    os.posix_fallocate(file, 0, 8 * MIB)
    os.pwrite(file, b"in the middle", 5 * MIB + 77)


def mapped(file: int) -> None:
    """Writes through a map, so that the bytes are not on the disk yet."""
    os.ftruncate(file, 8 * MIB)
    with mmap.mmap(file, 0) as memory:
        memory[3 * MIB : 3 * MIB + 4] = b"here"


def empty(file: int) -> None:
    os.ftruncate(file, 8 * MIB)


def short(file: int) -> None:
    os.pwrite(file, b"x" * 10, 0)


@pytest.mark.parametrize("make", [plain, reserved, mapped, empty, short])
def test_a_copy_is_the_same_to_who_reads_it(tmp_path: Path, make: Callable[[int], None]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("w+b") as file:
        make(file.fileno())
        for _ in range(2):  # the second time after all of it was read
            copy_file(source, target)
            assert target.read_bytes() == source.read_bytes()
            assert target.stat().st_mtime_ns == source.stat().st_mtime_ns
            target.unlink()
            source.read_bytes()


def test_what_nobody_wrote_is_a_hole_of_the_copy(tmp_path: Path) -> None:
    source = tmp_path / "store" / "commitlog" / "00000000000000000000"
    source.parent.mkdir(parents=True)
    with source.open("w+b") as file:
        reserved(file.fileno())
    copy_store(tmp_path / "store", tmp_path / "copy")
    copied = (tmp_path / "copy" / "commitlog" / source.name).stat()
    assert copied.st_size == 8 * MIB
    assert copied.st_blocks * 512 < MIB <= source.stat().st_blocks * 512
