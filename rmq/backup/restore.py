"""Restore: makes a store from a copy, and checks every byte on its way.

    Restore(Path("/backup/a"), Path("store")).run()

Everything is first made in NEW/restoring, synced and checked against the manifest, and then moved,
the log last. So an interrupted restore leaves no log, and brokers refuse the directory while that
folder exists (rmq/base/unfinished_restore.py); the next restore into the same directory begins
anew. The caller holds the new store's lock.

To a start the new store looks like one whose broker has stopped: it has no abort file and no
queues. So the start reads the whole log, makes queues and key index from it (row S5 of
cext/store/recovery.pxd), and learns from queueEnds.synced at which offset queues without messages
go on. The rest of the last segment is zeros, as in any store; the checkpoint says up to where it
was copied, so that the start takes the last record as whole, whatever its last bytes are.

Nothing is restored from a damaged copy: the error names the damage by file and byte.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rmq.backup import copy_lock, manifest
from rmq.backup.byte_copy import copy_bytes, trouble
from rmq.backup.manifest import Manifest, SegmentCopy, StoreCopy
from rmq.backup.verification import check_file, check_segment
from rmq.base.atomic_file import write_synced
from rmq.base.durable_directory import make_directory, sync_directory
from rmq.base.unfinished_restore import FOLDER
from rmq.errors import ConfigError, StoreCorruptError
from rmq.format.store_files import encode_checkpoint
from rmq.offline.report import Report
from rmq.progress import Progress, no_progress

CURE = "Make room or choose another directory, and restore again"


class Result(msgspec.Struct):
    number: int  # of the backup
    source: str
    store: str
    stores: int
    segments: int
    records: int
    bytes: int


def check_target(root: Path) -> None:
    """ConfigError unless the directory is empty, missing, or left by an unfinished restore. To be
    called before its lock is taken, because that makes a file in it."""
    if not root.exists():
        return
    if not root.is_dir():
        raise ConfigError(f"{root} is no directory: choose another one for --store")
    names = {path.name for path in root.iterdir()}
    if not names <= {"lock", "lost+found"} and not (FOLDER in names and "commitlog" not in names):
        raise ConfigError(
            f"{root} is not empty ({min(names)}): restore into a new directory, and put that in "
            "its place"
        )


class Restore:
    """One run. The caller has called check_target() and holds the lock of `root`."""

    def __init__(self, directory: Path, root: Path, progress: Progress = no_progress) -> None:
        self._directory, self._root, self._progress = directory, root, progress
        self._work = root / FOLDER
        self._done = 0

    def run(self) -> Result:
        with copy_lock.reading(self._directory):
            made = manifest.required(self._directory)
            self._clear(made)
            try:
                with trouble(self._root, "the new store", CURE):
                    self._copy_all(made)
            except BaseException:
                self._clear(made)
                raise
            with trouble(self._root, "the new store", CURE):
                self._move(made)
        segments = [segment for store in made.stores for segment in store.segments]
        return Result(
            made.number, made.source, str(self._root), len(made.stores), len(segments),
            sum(each.records for each in segments), sum(each.end for each in segments),
        )  # fmt: skip

    def _clear(self, made: Manifest) -> None:
        """Removes what an unfinished restore has left, this one or an earlier one; the folder that
        marks it as unfinished is removed last."""
        if self._work.exists():
            if not (self._root / "commitlog").exists():
                for name in self._parts(made):
                    _remove(self._root / name)
            shutil.rmtree(self._work)

    def _parts(self, made: Manifest) -> Iterator[str]:
        """The parts that are moved, in this order."""
        yield from (store.directory for store in made.stores if store.directory != ".")
        yield from ("config", manifest.QUEUE_ENDS, "rmqTimers", "checkpoint", "commitlog")

    def _copy_all(self, made: Manifest) -> None:
        make_directory(self._work)
        total = max(1, sum(segment.end for store in made.stores for segment in store.segments))
        for store in made.stores:
            target = self._work / store.directory
            make_directory(target)
            write_synced(target / "checkpoint", encode_checkpoint(store.log_end))
            self._copy_state(store, target)
            log = target / "commitlog"
            make_directory(log)
            for segment in store.segments:
                self._copy_segment(store, segment, log / segment.name, total)
            sync_directory(log)

    def _copy_state(self, store: StoreCopy, target: Path) -> None:
        report = Report()
        source = self._directory / store.directory / store.state
        make_directory(target / "config")
        for file in store.files:
            path = target / file.path
            make_directory(path.parent)
            check_file(source / file.path, file, report)
            _refuse(report)
            write_synced(path, (source / file.path).read_bytes(), manifest.mode_of(file.path))
            check_file(path, file, report)
            _refuse(report)
            sync_directory(path.parent)

    def _copy_segment(self, store: StoreCopy, known: SegmentCopy, target: Path, total: int) -> None:
        path = self._directory / store.directory / "commitlog" / known.name
        report = Report()
        size = path.stat().st_size if path.exists() else -1
        if size != known.bytes:
            what = "is missing" if size < 0 else f"length {size}, not {known.bytes}"
            report.problem(path, 0, what)
            _refuse(report)

        def told(done: int) -> None:
            self._done += done
            self._progress("copy of the log", self._done, total)

        with path.open("rb", buffering=0) as old, target.open("wb", buffering=0) as new:
            new.truncate(known.bytes)
            copy_bytes(old.fileno(), new.fileno(), 0, known.end, told)
            os.fsync(new.fileno())
        check_segment(target, known, report)
        if report.problems:
            report = Report()
            check_segment(path, known, report)  # named as in the store, not as in the copy
            if not report.problems:
                report.problem(target, 0, "was not written as it was read: see the system's log")
        _refuse(report)

    def _move(self, made: Manifest) -> None:
        for name in self._parts(made):
            if (self._work / name).exists():
                (self._work / name).rename(self._root / name)
                sync_directory(self._root)
        shutil.rmtree(self._work)
        sync_directory(self._root)


def _refuse(report: Report) -> None:
    if report.problems:
        raise StoreCorruptError(
            f"the backup is damaged: {report.problems[0]}. Nothing was restored. See all that is "
            "wrong with `rmq store backup --check DIR`, and take another backup"
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
