"""Directories that a power cut does not take back, and their owners.

Modes are checked with the widest umask there is, so that only the requested mode narrows them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq.base import atomic_file
from rmq.base.durable_directory import make_directory
from rmq.base.json_file import JsonFile
from rmq.node.store_lock import StoreLock


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The synced paths, in order."""
    paths: list[Path] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_each_directory_made_is_synced_where_it_is_named(
    tmp_path: Path, synced: list[Path]
) -> None:
    make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "c")
    assert synced[2:] == [tmp_path / "a"]


def test_first_files_bring_their_directories_to_the_disk(
    tmp_path: Path, synced: list[Path]
) -> None:
    StoreLock(tmp_path / "store").release()
    JsonFile(tmp_path / "store" / "config" / "topics.json").save({"a": 1})
    atomic_file.replace(tmp_path / "namesrv" / "kvConfig.json", b"{}")
    for made in ("store", "store/config", "namesrv"):
        assert (tmp_path / made).parent in synced


# ------------------------------------------------------------------- modes


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_store_is_open_to_its_user_and_group_alone(tmp_path: Path, wide_umask: None) -> None:
    StoreLock(tmp_path / "data" / "store").release()
    assert mode_of(tmp_path / "data" / "store") == 0o750
    assert mode_of(tmp_path / "data") == 0o777, "it may hold other things"


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path, wide_umask: None) -> None:
    (tmp_path / "store").mkdir(0o755)
    make_directory(tmp_path / "store")
    StoreLock(tmp_path / "store").release()
    assert mode_of(tmp_path / "store") == 0o755
