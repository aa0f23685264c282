"""Backup: one run, whether the store's broker is running or not.

    Backup(Path("store"), Path("/backup/a"), {store: log, ..}, keep=False).run()

The order of a run, and why:

    1  state        configuration and offsets, of one moment (state_copy.py)
    2  log          up to where it ends after step 1 (log_copy.py)
    3  manifest     when everything is on the disk
    4  removal      of what the new manifest does not name any more

The state is copied before the log, because offsets of groups, of delay levels and of transactions
say that something in the log is done. If the log were copied first, offsets could cover messages
that the copy does not have, and after a restore new messages with the same offsets would be passed
over, unread. In this order the log has more than the offsets say: what was consumed between 1 and 2
comes again, and nothing is lost. A broker syncs its log before it writes offsets, so the log has
everything that step 1 reads about. Topics that are made between 1 and 2 are found by their
messages, as after a crash.

The manifest is replaced in step 3, all at once. Until then the manifest of the run before is valid,
and nothing that it names has changed: the state gets a new directory each time, complete segments
are not touched, and the last segment only grows behind its valid part. An unfinished run notes
which segments it has copied whole, so that the next run does not copy them again.

Shards are copied one after the other: each queue is in only one shard, with its messages and
offsets.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec

from rmq.backup import copy_lock, manifest
from rmq.backup.byte_copy import trouble
from rmq.backup.log_copy import LogCopy
from rmq.backup.manifest import Manifest, SegmentCopy, StoreCopy
from rmq.backup.state_copy import read_state, write_state
from rmq.base import clock
from rmq.base.durable_directory import make_directory, sync_directory
from rmq.errors import ConfigError, StoreError
from rmq.format.store_files import persisted_ends
from rmq.progress import Progress, no_progress

CURE = (
    "A backup before this one is whole. Make room (or choose another directory) and run it "
    "again: it goes on with the segment at which it stopped"
)


class StoreResult(msgspec.Struct):
    """What a run did with one shard's store."""

    directory: str
    segments: int = 0
    log_begin: int = 0
    log_end: int = 0
    copied_bytes: int = 0  # of the log, copied in this run
    copied_records: int = 0
    files: int = 0  # of the state
    problems: list[str] = []  # found in the store


class Result(msgspec.Struct):
    number: int
    directory: str
    milliseconds: int
    stores: list[StoreResult]


class Backup:
    """One run."""

    def __init__(
        self,
        root: Path,
        directory: Path,
        logs: dict[Path, Path],
        keep: bool = False,
        progress: Progress = no_progress,
    ) -> None:
        """`logs`: store -> its log, for all shards, that of shard 0 first."""
        self._root, self._directory, self._logs = root, directory, logs
        self._keep, self._progress = keep, progress
        self._copies: list[StoreCopy] = []
        self._results: list[StoreResult] = []

    def run(self) -> Result:
        began_ms = clock.now_ms()
        self._check_places()
        try:
            make_directory(self._directory)
        except OSError as error:
            raise ConfigError(f"{self._directory} cannot be made: {error.strerror}") from None
        with trouble(self._directory, "the backup", CURE), copy_lock.writing(self._directory):
            self._last = manifest.load(self._directory / manifest.NAME)
            self._partial = self._unfinished()
            self._check_directory()
            self._number = max((each.number for each in (self._last, self._partial) if each),
                               default=0) + 1  # fmt: skip
            for store, log in self._logs.items():
                self._copy_store(store, log)
            made = Manifest(self._number, began_ms, clock.now_ms(), str(self._root.absolute()),
                            self._copies)  # fmt: skip
            manifest.save(self._directory / manifest.NAME, made)
            self._remove_rest(made)
        took_ms = clock.now_ms() - began_ms
        return Result(self._number, str(self._directory), took_ms, self._results)

    # ---- before

    def _check_places(self) -> None:
        source, target = self._root.resolve(), self._directory.resolve()
        for log in self._logs.values():
            if not log.is_dir():
                raise ConfigError(f"{log} is no directory: {self._root} is not a store")
            if target == log.resolve() or log.resolve() in target.parents:
                raise ConfigError(f"{self._directory} lies in the log {log}: choose another --to")
        if source == target or source in target.parents or target in source.parents:
            raise ConfigError(
                f"{self._directory} and the store {self._root} lie in one another: choose another "
                "directory for --to, best on another disk"
            )
        for store in self._logs:
            if (store / "truncation").exists():
                raise StoreError(
                    f"{store}: its log is being cut back; start the broker, which finishes that, "
                    "and try again"
                )

    def _check_directory(self) -> None:
        """Refuses a directory that is neither empty nor a backup."""
        if (self._directory / "lock").exists():
            raise ConfigError(
                f"{self._directory} has been used as a store: its log may have got messages of its "
                "own. Choose another directory for --to"
            )
        others = {each.name for each in self._directory.iterdir()} - {copy_lock.NAME}
        known = self._last or self._partial
        mine = re.compile(r"commitlog|state-\d+|rmqBackup\..*|shard-\d+")
        if known is None and any(not mine.fullmatch(name) for name in others):
            raise ConfigError(
                f"{self._directory} is neither empty nor a backup: choose another --to"
            )

    def _unfinished(self) -> Manifest | None:
        """The partial manifest of an unfinished run. It only saves work, so a damaged one is
        ignored."""
        try:
            found = manifest.load(self._directory / manifest.PARTIAL_NAME)
        except StoreError:
            return None
        is_older = found and self._last and found.number <= self._last.number
        return None if is_older else found

    # ---- the stores

    def _copy_store(self, store: Path, log: Path) -> None:
        name = "." if store == self._root else store.name
        target = self._directory / name
        make_directory(target)
        state = f"state-{self._number}"
        shutil.rmtree(target / state, ignore_errors=True)
        files = write_state(target / state, read_state(store))
        sync_directory(target)
        copy = StoreCopy(name, state, files, [])

        def completed(segments: list[SegmentCopy]) -> None:
            copy.segments = [each for each in segments if each.complete]
            partial = Manifest(self._number, 0, 0, "", [*self._copies, copy])
            manifest.save(self._directory / manifest.PARTIAL_NAME, partial)

        last = self._last.of(name) if self._last else None
        spare = self._partial.of(name) if self._partial else None
        run = LogCopy(
            log, target / "commitlog", last.segments if last else [],
            [each for each in spare.segments if each.complete] if spare else [],
            self._progress, completed, persisted_ends(store, log),
        )  # fmt: skip
        run.run(self._keep)
        copy.segments = run.segments
        self._copies.append(copy)
        self._results.append(
            StoreResult(
                name,
                len(run.segments),
                copy.log_begin,
                copy.log_end,
                run.copied_bytes,
                run.copied_records,
                len(files),
                run.problems,
            )
        )

    # ---- after

    def _remove_rest(self, made: Manifest) -> None:
        """Removes what the manifest does not name; after a kill the next run does it."""
        for store in made.stores:
            target = self._directory / store.directory
            _link_config(target, store.state)
            named = {segment.name for segment in store.segments}
            for path in (target / "commitlog").iterdir():
                if path.name not in named:
                    path.unlink()
            for path in target.glob("state-*"):
                if path.name != store.state:
                    shutil.rmtree(path)
        kept = {store.directory for store in made.stores}
        for path in self._directory.glob("shard-*"):
            if path.name not in kept and manifest.DIRECTORY.fullmatch(path.name):
                shutil.rmtree(path)
        (self._directory / manifest.PARTIAL_NAME).unlink(missing_ok=True)
        sync_directory(self._directory)


def _link_config(target: Path, state: str) -> None:
    """Makes a link for Spark and others that read the copy as a store; the backup itself does not
    need it."""
    link = target / "config.new"
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(f"{state}/config")
        link.replace(target / "config")
    except OSError:  # a file system without links
        pass
