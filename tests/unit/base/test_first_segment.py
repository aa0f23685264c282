"""Where a log without a record begins: at a segment by its name, and not where none can begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq.base.first_segment import begin_log, has_segments, move_log
from rmq.errors import ConfigError

SIZE = 4096


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_first_segment_says_where_the_log_begins(tmp_path: Path) -> None:
    directory = tmp_path / "store" / "commitlog"
    assert not has_segments(directory)
    begin_log(directory, 0, SIZE)
    assert not directory.exists(), "the store makes this one itself"
    begin_log(directory, 3 * SIZE, SIZE)
    assert names(directory) == [f"{3 * SIZE:020d}"]
    assert (directory / f"{3 * SIZE:020d}").read_bytes() == bytes(SIZE)
    assert has_segments(directory)


def test_a_log_that_is_there_is_not_begun_again(tmp_path: Path) -> None:
    begin_log(tmp_path, SIZE, SIZE)
    (tmp_path / f"{SIZE:020d}").write_bytes(b"x" * SIZE)
    with pytest.raises(FileExistsError):
        begin_log(tmp_path, SIZE, SIZE)
    assert (tmp_path / f"{SIZE:020d}").read_bytes() == b"x" * SIZE


@pytest.mark.parametrize("start", [0, SIZE, 7 * SIZE])
def test_all_segments_go_when_it_moves(tmp_path: Path, start: int) -> None:
    for number in (0, SIZE, 2 * SIZE):
        (tmp_path / f"{number:020d}").write_bytes(bytes(SIZE))
    (tmp_path / "notes").write_text("not a segment")
    move_log(tmp_path, start, SIZE)
    assert names(tmp_path) == [*([f"{start:020d}"] if start else []), "notes"]


@pytest.mark.parametrize("start", [-SIZE, 1, SIZE + 1])
def test_nothing_goes_where_no_segment_begins(tmp_path: Path, start: int) -> None:
    begin_log(tmp_path, SIZE, SIZE)
    for change in (begin_log, move_log):
        with pytest.raises(ConfigError, match=f"begins at {start}, which is no start"):
            change(tmp_path, start, SIZE)
    assert names(tmp_path) == [f"{SIZE:020d}"]
