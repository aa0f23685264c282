"""Goal: parts of more files than may be open at once are read unchanged, and no file stays open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmq.offline.open_files import OpenFiles


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_pieces_of_many_files_come_from_a_few_descriptors(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(50)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes(range(number, number + 100)))
    before = descriptors()
    files = OpenFiles(most=8)
    for at in (0, 99, 40):
        for number, path in enumerate(paths):
            piece = bytes(range(number, number + 100))[at : at + 20]
            assert files.read(path, at, 20) == piece
        assert descriptors() == before + 8
    files.close()
    assert descriptors() == before


def test_what_is_read_often_stays_open(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"old")
    files = OpenFiles(most=2)
    for path in (paths[0], paths[1], paths[0], paths[2]):
        files.read(path, 0, 3)
    for path in paths:
        path.unlink()
        path.write_bytes(b"new")
    assert [files.read(paths[0], 0, 3), files.read(paths[1], 0, 3)] == [b"old", b"new"]
    files.close()


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    files = OpenFiles()
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "absent", 0, 1)
    files.close()
