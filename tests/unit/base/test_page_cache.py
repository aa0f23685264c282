"""The pages of a file that are in memory, by both ways in which the kernel reports them."""

import os
from pathlib import Path

import pytest

from cext.base.page_cache import of_file


@pytest.mark.parametrize("by_mincore", [False, True])
def test_a_file_just_written_is_in_memory(tmp_path: Path, by_mincore: bool) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    resident, dirty, size = of_file(str(path), by_mincore)
    assert size == 100_000
    assert resident == 102_400  # 25 pages
    assert dirty == -1 or 0 <= dirty <= resident


def test_what_was_never_written_is_not_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:
        os.ftruncate(file.fileno(), 1 << 20)
    for by_mincore in (False, True):
        assert of_file(str(path), by_mincore)[0] == 0
    path.write_bytes(b"")
    assert of_file(str(path)) == (0, 0, 0)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        of_file(str(tmp_path / "none"))
