"""Log copy: extends the log's segments in a copy to where the store's log ends now.

    complete segments       copied once, checked record by record, and never touched again
    the last segment        gets what it lacks, up to the last whole record; the rest is a hole
    prepared segments       left out, because they are empty

The copy is compared with the store by the last record of each segment: if both have the same record
at that place (it contains its queue offset, its place and its time), everything before it is the
same. A log that ends earlier, or has another record there or across that place, has lost its end in
a power cut, or was cut back to the log of another master. Then the copy is not changed, because it
may hold what the store has lost.

The broker's next start decides where the log ends, and it may find less than there is: it goes on
only to a segment that begins with a record, and behind a BLANK. So a segment is complete only if
such a start would go on behind it: where a power cut has taken its end and the first page of the
next segment, the log goes on in it.

A run ends with the segment that is being written when the run begins, so that it need not run after
a fast producer. Meanwhile retention may delete the first segments, or reuse their files under other
names: so after each copy the segment's name is checked, and a segment that is gone is not in the
backup.

Example: the copy has 3 complete segments and 200 MiB of the 4th. The store has 5 segments with
100 MiB in the last: 824 MiB and 100 MiB are read and copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from rmq.backup.byte_copy import copy_bytes, crc32_of
from rmq.backup.manifest import SegmentCopy
from rmq.backup.segment_scan import (
    SegmentScan,
    begins_with_record,
    has_record,
    is_across,
    scan_segment,
)
from rmq.base.durable_directory import make_directory, sync_directory
from rmq.errors import ProtocolError, StoreCorruptError, StoreError
from rmq.format.store_files import Blank, Segment, next_record, numbered_files, record_at
from rmq.progress import Progress

CURE = "Make another backup in a new directory; this one stays as it is"


class LogCopy:
    """The log of one store, in one run."""

    def __init__(
        self,
        log: Path,
        copy: Path,
        known: list[SegmentCopy],
        spare: list[SegmentCopy],
        progress: Progress,
        on_complete: Callable[[list[SegmentCopy]], None],
        persisted_ends: Container[int] = frozenset(),
    ) -> None:
        """`known`: segments that the last manifest names. `spare`: segments that an unfinished run
        has copied whole. `on_complete`: called with all segments so far when a further one is whole
        on the disk. `persisted_ends`: where the store says that its log ends
        (rmq/format/store_files.py)."""
        self.log, self.copy = log, copy
        self._known = {each.start: each for each in [*known, *spare]}
        self._progress = progress
        self._on_complete = on_complete
        self._persisted_ends = persisted_ends
        self.segments: list[SegmentCopy] = []
        self.problems: list[str] = []  # found in the store
        self.copied_bytes = self.copied_records = 0
        self._done = self._total = 0
        self._keep = False

    def run(self, keep: bool) -> None:
        """`keep`: segments that the store has deleted stay in the copy."""
        self._keep = keep
        make_directory(self.copy)
        files, _ = numbered_files(self.log)
        files = [path for path in files if path.stat().st_size]
        starts = self._used(files)
        self._total = sum(1 for start in starts if start not in self._known) * self._bytes(files)
        if keep or not starts:
            self._keep_older(starts)
        for at, start in enumerate(starts):
            self._copy_one(start, followed=at + 1 < len(starts))
        self._check_end(starts)
        sync_directory(self.copy)

    def _bytes(self, files: list[Path]) -> int:
        return files[0].stat().st_size if files else 0

    def _used(self, files: list[Path]) -> list[int]:
        """The segments up to the one that is being written; the first one if none is."""
        used = 0
        while (following := self._behind(files, used)) > used:
            used = following
        size = self._bytes(files)
        starts = [int(path.name) for path in files[: used + 1]]
        for before, start in pairwise(starts):
            if start != before + size:
                raise StoreCorruptError(
                    f"{self.log}: there is no segment at {before + size}, but one at {start}: "
                    "see what `rmq store check` says"
                )
        return starts

    def _behind(self, files: list[Path], number: int) -> int:
        """The segment to which a start would go on from this one; the same one: the log ends
        here."""
        if number + 1 >= len(files):
            return number
        if not files[number + 1].exists():  # retention would take those before it first
            return number if files[number].exists() else number + 1
        if _holds(files[number + 1], begins_with_record):
            return number + 1
        following = number + 1
        if not _holds(files[number + 1], has_record):
            # Behind a lost segment, a start checks only whether the next begins with a record.
            following += 1
            if following >= len(files) or not _holds(files[following], begins_with_record):
                return number
        return following if _holds(files[number], self._is_left) else number

    def _is_left(self, segment: Segment) -> bool:
        """Whether the segment's records lead to its end, so that a start would go on behind it."""
        known = self._known.get(segment.start)
        at = 0 if known is None else known.last_record if known.complete else known.end
        return scan_segment(segment, max(at, 0), followed=False).complete

    def _keep_older(self, starts: list[int]) -> None:
        older = sorted(start for start in self._known if not starts or start < starts[0])
        self.segments = [self._known[start] for start in older]
        if not self.segments or not starts:
            return
        last = self.segments[-1]
        if last.start + last.bytes != starts[0] or not last.complete:
            raise StoreError(
                f"{self.copy} ends at {last.start + last.end}, but {self.log} begins at "
                f"{starts[0]}: what lay between was deleted before it was copied, and a log has no "
                "gaps. Make another backup in a new directory, or leave --keep away: then what the "
                "store has deleted goes from this one, too"
            )

    def _copy_one(self, start: int, followed: bool) -> None:
        path = self.log / f"{start:020d}"
        known = self._known.get(start)
        try:
            with closing(Segment(path, self._persisted_ends)) as segment:
                if known is not None:
                    self._check_same(segment, known, followed)
                if known is None or not known.complete:
                    known = self._extend(segment, known, followed)
                else:
                    self._check_length(known)
        except FileNotFoundError:
            if path.exists():
                raise StoreCorruptError(
                    f"{self.copy / path.name} is missing: somebody has removed it. {CURE}"
                ) from None
            known = None
        if known is None or not path.exists():
            self._gone(path, known)
        else:
            self.segments.append(known)

    def _gone(self, path: Path, known: SegmentCopy | None) -> None:
        """Called when the store's retention has taken this segment and all before it."""
        if not self._keep:
            self.segments = []
        elif known is not None and known.complete and known.start in self._known:
            self.segments.append(known)
        elif self.segments:
            raise StoreError(
                f"{path} was deleted by the store while it was to be copied: run the backup again"
            )

    def _check_length(self, known: SegmentCopy) -> None:
        path = self.copy / known.name
        size = path.stat().st_size
        if size != known.bytes:
            raise StoreCorruptError(
                f"{path}: length {size}, not {known.bytes}: the copy is damaged. {CURE}"
            )

    def _check_same(self, segment: Segment, known: SegmentCopy, followed: bool) -> None:
        if segment.size != known.bytes:
            raise StoreError(
                f"{segment.path} has {segment.size} bytes, the copy {known.bytes}: "
                f"mappedFileSizeCommitLog was changed, or it is another store. {CURE}"
            )
        if known.last_record < 0:
            return
        at = known.last_record
        try:
            found = record_at(segment.data, at, segment.start + at)
        except ProtocolError as error:
            ends = str(error) == "zeros" and next_record(segment, at + 1) < 0
            if ends and not followed:
                raise self._other_log(segment.start + at, "ends before") from None
            if is_across(segment, at):
                raise self._other_log(segment.start + at, "has another record at") from None
            self.problems.append(f"{segment.path}:{at}: no record: {error}; the copy has it whole")
            return
        size = 8 if isinstance(found, Blank) else found.size
        with (self.copy / known.name).open("rb") as file:
            if os.pread(file.fileno(), size, at) != segment.data[at : at + size]:
                raise self._other_log(segment.start + at, "has another record at")

    def _other_log(self, offset: int, what: str) -> StoreError:
        return StoreError(
            f"{self.log} {what} log offset {offset}, up to which {self.copy} has it: it is another "
            f"store, or it lost its end (power cut) or was cut back to its master's. {CURE}, and "
            "may hold messages that the store has lost"
        )

    def _extend(self, segment: Segment, known: SegmentCopy | None, followed: bool) -> SegmentCopy:
        """Checks and copies what the segment has behind the copied part; on the disk when it
        returns."""
        at = known.end if known is not None else 0
        before = known or SegmentCopy(segment.start, segment.size, 0, 0)
        with segment.path.open("rb", buffering=0) as source:
            scan = scan_segment(segment, at, followed, self._told("check of records"))
            if known is not None and scan.end == known.end and not scan.complete:
                return known
            crc32 = crc32_of(source.fileno(), at, scan.end, before.crc32)
            self._write(source.fileno(), segment, at, scan)
            is_same = _is_still(segment.path, source.fileno())
        if not is_same:
            raise FileNotFoundError(segment.path)
        self.copied_bytes += scan.end - at
        self.copied_records += scan.records
        self.problems += [
            f"{segment.path}:{each.at}: {each.bytes} bytes that are no record: {each.what}"
            for each in scan.damaged
        ]
        extended = SegmentCopy(
            segment.start, segment.size, scan.end, crc32,
            scan.last_record if scan.last_record >= 0 else before.last_record,
            before.records + scan.records, scan.complete, [*before.damaged, *scan.damaged],
        )  # fmt: skip
        if scan.complete:
            sync_directory(self.copy)
            self._on_complete([*self.segments, extended])
        return extended

    def _write(self, source: int, segment: Segment, at: int, scan: SegmentScan) -> None:
        path = self.copy / segment.path.name
        if at and not path.exists():
            raise StoreCorruptError(f"{path} is missing: somebody has removed it. {CURE}")
        with path.open("r+b" if at else "wb", buffering=0) as target:
            # The remains of an unfinished run behind `at` become zeros.
            target.truncate(at)
            target.truncate(segment.size)
            copy_bytes(source, target.fileno(), at, scan.end, self._told("copy of the log"))
            os.fsync(target.fileno())

    def _told(self, stage: str) -> Callable[[int], None]:
        def told(done: int) -> None:
            self._done += done
            self._progress(stage, self._done, max(self._done, 2 * self._total, 1))

        return told

    def _check_end(self, starts: list[int]) -> None:
        """Refuses a store whose log ends before the copied part does."""
        last = max((each for each in self._known.values() if each.last_record >= 0),
                   key=lambda each: each.start, default=None)  # fmt: skip
        if last is not None and (not starts or last.start > starts[-1]):
            raise self._other_log(last.start + last.last_record, "ends before")


def _holds(path: Path, question: Callable[[Segment], bool]) -> bool:
    try:
        with closing(Segment(path)) as segment:
            return question(segment)
    except (FileNotFoundError, ValueError):
        return False  # the file was just deleted, or just made and has no length yet


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the name still stands for the file that was opened."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
