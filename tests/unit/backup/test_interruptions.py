"""Goal: a backup or restore that is stopped at any step, or has no room, harms nothing and can go
on.

Method: child processes that end at every single step that changes the disk; a tmpfs that is full.
Not shown here: a power cut in between, which may undo what was not synced.
"""

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.backups import back_up, copy, image, refused, segments
from support.small_disk import MIB, SmallDisk, small_disk
from support.store_copies import copy_store
from support.store_image import SEGMENT, StoreImage, open_store

from rmq.backup.backup import Backup
from rmq.backup.restore import Restore, check_target
from rmq.backup.verification import verify
from rmq.base.unfinished_restore import check_none
from rmq.errors import StoreError

__all__ = ["copy", "image", "small_disk"]
GONE = 9  # the exit code of a child that was stopped in the middle


@pytest.fixture(autouse=True)
def _no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that ends loses nothing that was written, so a sync is only a step, without a
    wait."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def in_child(step: int, work: Callable[[], object]) -> int:
    """Does the work in a child that ends at the step-th call that changes the disk. Returns its
    exit code."""
    child = os.fork()
    if child == 0:
        left = step

        def counted(name: str) -> None:
            real = getattr(os, name)

            def call(*words: object, **named: object) -> object:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(GONE)
                return real(*words, **named)

            setattr(os, name, call)

        for name in ("fsync", "unlink", "replace", "rename", "mkdir", "rmdir"):
            counted(name)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def interruptions(work: Callable[[], object]) -> Iterator[int]:
    """Stops the work at each of its steps in turn, until one run completes it."""
    step = 0
    while True:
        code = in_child(step, work)
        assert code in (0, GONE), step
        yield step
        if code == 0:
            return
        step += 1


def test_a_backup_stopped_at_any_step_leaves_the_one_before(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    logs = {image.root: image.log_directory}
    Backup(image.root, copy, logs).run()
    base = tmp_path / "base"
    copy_store(copy, base, symlinks=True)
    old_end = image.end
    image.add_many(150).write_log()
    image.segment_path(0).unlink()
    steps = 0
    for step in interruptions(lambda: Backup(image.root, copy, logs).run()):
        steps += 1
        report = verify(copy)
        assert not report.problems, (step, report.problems)
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        Restore(copy, tmp_path / "new").run()
        end = open_store(tmp_path / "new", clean=True)[2]["log_end"]
        assert end in (old_end, image.end), step
        result = Backup(image.root, copy, logs).run()  # goes on from whatever is there
        assert result.stores[0].log_end == image.end and not verify(copy).problems, step
        assert segments(copy) == segments(image.root), step
        shutil.rmtree(copy)
        copy_store(base, copy, symlinks=True)
    assert steps > 20


def test_segments_that_an_unfinished_backup_has_copied_are_not_copied_again(
    image: StoreImage, copy: Path
) -> None:
    logs = {image.root: image.log_directory}
    step = 0
    while len(list(copy.glob("commitlog/*"))) < 4:
        shutil.rmtree(copy, ignore_errors=True)
        step += 1
        assert in_child(step, lambda: Backup(image.root, copy, logs).run()) == GONE
    result = back_up(image, copy)
    assert result["copied_bytes"] <= image.end - 2 * SEGMENT
    assert segments(copy) == segments(image.root)
    assert not verify(copy).problems


def test_a_restore_stopped_at_any_step_is_no_store_or_a_whole_one(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    back_up(image, copy)
    new = tmp_path / "new"
    steps = 0

    def restore() -> None:
        check_target(new)
        Restore(copy, new).run()

    for step in interruptions(restore):
        steps += 1
        if (new / "commitlog").exists():
            assert segments(new) == segments(image.root), step
            assert (new / "config" / "topics.json").exists()
        elif new.exists():
            assert is_refused(new), step
            restore()
            assert segments(new) == segments(image.root), step
            assert not (new / "restoring").exists()
        shutil.rmtree(new, ignore_errors=True)
    assert steps > 15


def test_a_restore_that_is_stopped_again_where_one_was_before_is_no_store(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    """What is left when a second restore is stopped, too, must not count as a store: the second one
    first removes what the first one had moved into place."""
    back_up(image, copy)
    new, left = tmp_path / "new", tmp_path / "left"

    def restore() -> None:
        check_target(new)
        Restore(copy, new).run()

    for _ in interruptions(restore):
        if (new / "config").exists():
            break
        shutil.rmtree(new, ignore_errors=True)
    assert is_refused(new) and not (new / "commitlog").exists()
    copy_store(new, left)
    for step in interruptions(restore):
        assert (new / "commitlog").exists() or is_refused(new), step
        shutil.rmtree(new)
        copy_store(left, new)


def is_refused(root: Path) -> bool:
    """Whether no broker starts there. (One does start where there is nothing at all.)"""
    try:
        check_none(root)
    except StoreError:
        return True
    return not {each.name for each in root.iterdir()} - {"lock"}


def test_a_full_disk_says_what_to_do_and_the_backup_before_stays(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    image = StoreImage(tmp_path / "store", segment=2 * MIB)
    image.add(b"T", 0, b"first")
    image.write_log()
    copy = small_disk.path / "copy"
    back_up(image, copy)
    for number in range(8000):
        image.add(b"T", 0, struct.pack(">I", number) * 250)
    image.write_log()
    small_disk.fill(leave=5 * MIB)
    text = refused("backup", "--store", image.root, "--to", copy)
    assert "its disk is full" in text and "Make room" in text and str(copy) in text
    report = verify(copy)
    assert not report.problems and report.counts["records"] == 1
    small_disk.free()
    result = back_up(image, copy)
    assert result["copied_bytes"] < image.end - 2 * MIB  # what was copied whole is not copied again
    assert verify(copy).counts["records"] == 8001
    small_disk.fill(leave=3 * MIB)
    target = small_disk.path / "new"
    text = refused("restore", "--from", copy, "--store", target)
    assert "its disk is full" in text and "restore again" in text
    assert {each.name for each in target.iterdir()} <= {"lock"}
