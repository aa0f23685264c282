"""Directories of stores: whose they are. That they survive a power cut is shown in tests/fault.

Method: the widest umask there is, so that only what is asked for makes a mode narrower.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cext.store.log.commit_log import make_durable_directory
from rmq.base.durable_directory import make_directory
from rmq.node.store_lock import StoreLock


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_store_is_open_to_its_user_and_group_alone(tmp_path: Path) -> None:
    StoreLock(tmp_path / "data" / "store").release()
    assert mode_of(tmp_path / "data" / "store") == 0o750
    assert mode_of(tmp_path / "data") == 0o777, "it may hold other things"
    make_durable_directory(str(tmp_path / "disk" / "commitlog"))
    assert mode_of(tmp_path / "disk" / "commitlog") == 0o750


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(0o755)
    make_directory(tmp_path / "store")
    StoreLock(tmp_path / "store").release()
    make_durable_directory(str(tmp_path / "store"))
    assert mode_of(tmp_path / "store") == 0o755
