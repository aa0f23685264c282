"""The pages of a file that are in memory, by both ways in which the kernel reports them."""

import os
from pathlib import Path

import pytest

from cext.base.page_cache import of_file
from cext.base.status import Status
from cext.testing.base_probe import mincore_pages


def by_mincore(path: Path) -> int:
    with path.open("rb") as file:
        status, resident = mincore_pages(file.fileno(), path.stat().st_size)
    assert status == Status.OK
    return resident


def test_a_file_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    resident, dirty, size = of_file(str(path))
    assert size == 100_000
    assert resident == by_mincore(path) == 102_400  # 25 pages
    assert dirty == -1 or 0 <= dirty <= resident


def test_what_was_never_written_is_not_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:
        os.ftruncate(file.fileno(), 1 << 20)
    assert of_file(str(path))[0] == by_mincore(path) == 0
    path.write_bytes(b"")
    assert of_file(str(path)) == (0, 0, 0)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        of_file(str(tmp_path / "none"))
