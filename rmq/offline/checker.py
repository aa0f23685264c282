"""Checker: reads a store directory offline and names every damage by file and byte offset.

    check_store("/var/rmq").problems        `rmq store check` prints them; tests end with it

    log     names and lengths of segments, none missing in between; every record: lengths, magic,
            position, checksum, queue offsets; BLANKs; eight zeros behind the last record
    queue   names and lengths of files, none missing; every entry: a record of this topic, queue and
            offset starts there, with this size and tag code; entries in the order of the log
    both    every record that belongs to a queue has its entry
    index   headers, chains and slots of the key index; every entry leads to a record with that
            key; every key of a record is in the index (index_check.py)
    small   checkpoint: rmq's part of it, and its marks against the log; queueEnds: its checksum,
            and that the log has the last entry that the file names for each queue

Queue files lag behind the log by seconds while a broker runs or after it was killed: entries
missing at a queue's end are then only counted as `behind`. After a clean stop (no abort file, or
`strict`) they are problems, too. Nothing is written.

A broker may go on writing meanwhile (--live). What promises something is therefore read before what
keeps it: the checkpoint before the log, the log before queues and index, and what lies behind the
end that the log had is counted, and not compared.

Example: .../consumequeue/T/0/00000000000000000000:140: entry of offset 7: 1200+97, but the log has
    1297+99 of T/0 offset 8 there
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from rmq.codes import TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK
from rmq.errors import ProtocolError
from rmq.format.message import decode_properties, tags_code
from rmq.format.queue_ends import decode_ends
from rmq.format.store_files import (
    BLANK_ENTRY,
    QUEUE_ENTRY,
    QUEUE_ENTRY_BYTES,
    Blank,
    Checkpoint,
    Damage,
    End,
    Record,
    Segment,
    is_present_boot,
    numbered_files,
    persisted_ends,
    queue_directories,
    read_checkpoint,
    record_at,
    scan_segment,
)
from rmq.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rmq.offline.index_check import DEFAULT_SHAPE, IndexChecker, Shape
from rmq.offline.open_files import OpenFiles
from rmq.offline.report import Report
from rmq.progress import Progress, no_progress

# Tag codes in these topics are times. The times of delay levels are not known here, and a queue of
# timed messages that was repaired from the log has codes of tags.
TIMES_TOPICS = (SCHEDULE_TOPIC.encode(), TIMER_TOPIC.encode())
QUEUE_FILE_BYTES = 6_000_000
EPOCH_FILE = "epochFileCheckpoint"  # of a broker under a controller


class QueueFiles:
    """The files of one queue as one sequence of entries."""

    def __init__(
        self, path: Path, files: list[Path], file_bytes: int, open_files: OpenFiles
    ) -> None:
        self.path = path
        self.open_files = open_files
        self.per_file = file_bytes // QUEUE_ENTRY_BYTES
        self.files = {int(file.name) // file_bytes: file for file in files}
        self.first = min(self.files) * self.per_file if self.files else 0
        self.end = 0  # one behind the last entry; check_entries sets it

    def contents(self) -> Iterator[tuple[int, bytes]]:
        """(number, content) of each file up to the last one that has an entry. Which one that is
        is known before the first one is read: otherwise a broker that writes could go from one
        file to the next in between, and the end of the first would look like a gap."""
        numbers = sorted(self.files)
        while numbers and _used_bytes(self.files[numbers[-1]].read_bytes()) == 0:
            numbers.pop()
        for number in numbers:
            yield number, self.files[number].read_bytes()

    def place(self, offset: int) -> tuple[Path, int]:
        """(file, byte) where the entry of `offset` is, or would be."""
        number, index = divmod(offset, self.per_file)
        name = f"{number * self.per_file * QUEUE_ENTRY_BYTES:020d}"
        return self.files.get(number, self.path / name), index * QUEUE_ENTRY_BYTES

    def entry(self, offset: int) -> tuple[int, int, int]:
        number, index = divmod(offset, self.per_file)
        file = self.files.get(number)
        if file is None:
            return 0, 0, 0
        data = self.open_files.read(file, index * QUEUE_ENTRY_BYTES, QUEUE_ENTRY_BYTES)
        return QUEUE_ENTRY.unpack(data) if len(data) == QUEUE_ENTRY_BYTES else (0, 0, 0)


def _used_bytes(data: bytes) -> int:
    """The length up to the last eight bytes that are not all zero."""
    in_words = len(data) - len(data) % 8
    if any(data[in_words:]):
        return len(data)
    used = np.flatnonzero(np.frombuffer(data, np.uint64, in_words // 8))
    return (int(used[-1]) + 1) * 8 if len(used) else 0


@lru_cache(maxsize=65536)
def _tags_code(properties: bytes) -> int:
    return tags_code(decode_properties(properties).get("TAGS"))


class Checker:
    """Checks one store, once."""

    def __init__(
        self,
        root: Path,
        commit_log: Path,
        strict: bool | None = None,
        shape: Shape = DEFAULT_SHAPE,
        progress: Progress = no_progress,
    ) -> None:
        self.report = Report()
        self.progress = progress
        self.root = root
        self.log_directory = commit_log
        self.strict = not (root / "abort").exists() if strict is None else strict
        self.segments: dict[int, Segment] = {}
        self.segment_bytes = 0
        self.log_min = self.log_end = self.segments_end = 0
        self.last_start = -1  # where the last segment begins that has a record
        self.progress_mark = "", -1
        self.last: Record | None = None  # that was asked for
        self.damaged: list[Damage] = []
        self.believed_below = 0  # records below this log offset must have their entries
        self.queues: dict[tuple[bytes, int], QueueFiles] = {}
        self.open_files = OpenFiles()
        self.index = IndexChecker(root / "index", shape, self.report, progress)

    def run(self) -> Report:
        try:
            self._check()
        finally:
            self.open_files.close()
            for segment in self.segments.values():
                segment.close()
        return self.report

    def _check(self) -> None:
        checkpoint = self.read_checkpoint()
        self.open_log()
        self.scan_log()
        self.check_checkpoint(checkpoint)
        self.open_queues()
        for done, ((topic, queue_id), files) in enumerate(sorted(self.queues.items())):
            self.progress("consume queues", done, len(self.queues))
            self.check_entries(topic, queue_id, files)
        self.check_queue_ends()
        self.index.open(self.log_min, self.log_end, self.strict)
        for record in self.records():
            self.check_record_has_entry(record)
            self.index.look(record)
        self.index.close()

    def _report_progress(self, stage: str, offset: int) -> None:
        """Progress once a MiB."""
        if (stage, offset >> 20) != self.progress_mark:
            self.progress_mark = stage, offset >> 20
            end = self.log_end if stage != "commit log" else self.segments_end
            self.progress(stage, offset - self.log_min, max(1, end - self.log_min))

    # ---- the log

    def open_log(self) -> None:
        files, others = numbered_files(self.log_directory)
        self.report.notes += [f"not a segment: {path}" for path in others]
        while files and files[-1].stat().st_size == 0:
            self.report.notes.append(f"empty last segment: {files.pop()}")
        self.segment_bytes = next(filter(None, (path.stat().st_size for path in files)), 0)
        persisted = persisted_ends(self.root, self.log_directory)
        for path in files:
            segment = Segment(path, persisted)
            if segment.size != self.segment_bytes:
                self.report.problem(path, 0, f"length {segment.size}, not {self.segment_bytes}")
            if segment.start % self.segment_bytes:
                self.report.problem(path, 0, f"name is no multiple of {self.segment_bytes}")
            elif self.segments and segment.start != max(self.segments) + self.segment_bytes:
                self.report.problem(path, 0, f"no segment at {segment.start - self.segment_bytes}")
            self.segments[segment.start] = segment
        self.log_min = self.log_end = min(self.segments, default=0)
        self.segments_end = max(self.segments, default=0) + self.segment_bytes
        self.report.counts["segments"] = len(self.segments)

    def scan_log(self) -> None:
        starts = sorted(self.segments)
        # Segments made ahead are empty: the log ends in the last segment that has a record.
        while len(starts) > 1 and not self.has_record(starts[-1]):
            self.report.count("segments_prepared")
            starts.pop()
        self.last_start = starts[-1] if starts else -1
        previous_ms = 0
        for start in starts:
            segment = self.segments[start]
            for found in scan_segment(segment, followed=start != self.last_start):
                at = found.offset - start
                self._report_progress("commit log", found.offset)
                if isinstance(found, Record):
                    self.report.count("records")
                    if found.store_ms < previous_ms:
                        self.report.count("store_times_going_back")
                    previous_ms = max(previous_ms, found.store_ms)
                    self.log_end = found.offset + found.size
                elif isinstance(found, Damage):
                    self.damage(segment, found)
                    if at + found.size == segment.size:
                        self.log_end = start + segment.size
                elif isinstance(found, Blank):
                    if found.size != segment.size - at:
                        self.report.problem(segment.path, at, f"blank says {found.size} bytes, "
                                            f"{segment.size - at} are left")  # fmt: skip
                    self.log_end = start + segment.size
                else:
                    self.end_of_log(segment, found)

    def has_record(self, start: int) -> bool:
        return any(isinstance(found, Record) for found in scan_segment(self.segments[start]))

    def damage(self, segment: Segment, found: Damage) -> None:
        self.damaged.append(found)
        self.report.problem(segment.path, found.offset - segment.start,
                            f"{found.size} bytes that are no record: {found.what}")  # fmt: skip

    def end_of_log(self, segment: Segment, found: End) -> None:
        at = found.offset - segment.start
        if found.what != "zeros" and at < segment.size:
            text = f"behind the last record: {found.what}"
            if self.strict:
                self.report.problem(segment.path, at, text)
            else:
                self.report.notes.append(f"{segment.path}:{at}: {text} (torn write)")

    def records(self) -> Iterator[Record]:
        for start in sorted(self.segments):
            if start < self.log_end:
                followed = start != self.last_start
                for found in scan_segment(self.segments[start], followed=followed):
                    self._report_progress("records in queues and index", found.offset)
                    if found.offset >= self.log_end:
                        break  # it was not there when the log was read
                    if isinstance(found, Record):
                        yield found

    def record(self, offset: int) -> Record:
        """The record at a log offset; ProtocolError when there is none."""
        if self.last is not None and self.last.offset == offset:
            return self.last  # an entry is compared with what it leads to in two steps
        segment = self.segments.get(offset - offset % self.segment_bytes)
        if segment is None:
            raise ProtocolError("no segment")
        found = record_at(segment.data, offset - segment.start, offset)
        if isinstance(found, Blank):
            raise ProtocolError("a blank")
        self.last = found
        return found

    # ---- the checkpoint

    def read_checkpoint(self) -> Checkpoint | None:
        """Reads it again if its checksum is wrong: it may have been read as it was written."""
        checkpoint = None
        for _ in range(3):
            checkpoint = read_checkpoint(self.root / "checkpoint")
            if checkpoint is None or checkpoint.own_problem != "checksum":
                break
        return checkpoint

    def check_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        path = self.root / "checkpoint"
        self.believed_below = self.log_end if self.strict else 0
        if checkpoint is None:
            self.report.notes.append("no checkpoint")
            return
        if checkpoint.own_problem == "checksum":
            self.report.problem(path, 1024, "checksum of rmq's part")
        if checkpoint.own_problem:
            self.report.notes.append(f"checkpoint without rmq's part: {checkpoint.own_problem}")
            return
        same_boot = is_present_boot(checkpoint.boot_id)
        believed = checkpoint.persisted_offset if same_boot else checkpoint.synced_offset
        if believed > self.log_end:
            self.report.problem(path, 1064, f"entries persisted up to log offset {believed}, "
                                f"the log ends at {self.log_end}")  # fmt: skip
        # A broker under a controller makes no entries for records that are not confirmed when it
        # stops; the next start makes them.
        if not self.strict or (self.root / EPOCH_FILE).exists():
            self.believed_below = believed

    # ---- the queues

    def open_queues(self) -> None:
        for topic, queue_id, path in queue_directories(self.root / "consumequeue"):
            files, others = numbered_files(path)
            self.report.notes += [f"not a queue file: {other}" for other in others]
            self.report.count("queues")
            if not files:
                continue
            lengths = [file.stat().st_size for file in files]
            size = next((each for each in lengths if each >= QUEUE_ENTRY_BYTES), QUEUE_FILE_BYTES)
            for file, length in zip(files, lengths, strict=True):
                if length != size or length % QUEUE_ENTRY_BYTES:
                    self.report.problem(file, 0, f"length {length}, others have {size}")
            size -= size % QUEUE_ENTRY_BYTES
            numbers = [int(file.name) // size for file in files]
            for file in files:
                if int(file.name) % size:
                    self.report.problem(file, 0, f"name is no multiple of {size}")
            for number in set(range(numbers[0], numbers[-1])) - set(numbers):
                self.report.problem(path / f"{number * size:020d}", 0, "file is missing")
            self.queues[topic, queue_id] = QueueFiles(path, files, size, self.open_files)

    def check_queue_ends(self) -> None:
        """Checks the queue ends that rmq has noted (cext/store/queues/queue_ends.pxd)."""
        for path in (self.root / "queueEnds", self.root / "queueEnds.synced"):
            if not path.exists():
                continue
            try:
                ends = decode_ends(path.read_bytes())
            except ValueError as error:
                self.report.problem(path, 0, str(error))
                continue
            for (topic, queue_id), entry in ends.queues.items():
                end = entry.last_physical + entry.last_size
                if entry.min_offset == entry.end_offset or entry.last_size == BLANK_ENTRY[1]:
                    continue
                if entry.last_physical < self.log_min or end > self.log_end:
                    continue  # trimmed; or the log lost its end, and no start believes the file
                self.report.count("queue_ends")
                what = self.compare_place(topic, queue_id, entry.end_offset - 1,
                                          entry.last_physical, entry.last_size)  # fmt: skip
                if what:
                    self.report.problem(path, 0, f"{topic.decode()}/{queue_id}: {what}")

    def check_entries(self, topic: bytes, queue_id: int, files: QueueFiles) -> None:
        previous, seen = -1, False
        gap = -1  # first offset without an entry
        for number, data in files.contents():
            whole = len(data) - len(data) % QUEUE_ENTRY_BYTES
            # Most of a young file is zeros, which need no look at each entry.
            used = -(-_used_bytes(data[:whole]) // QUEUE_ENTRY_BYTES) * QUEUE_ENTRY_BYTES
            for index, entry in enumerate(QUEUE_ENTRY.iter_unpack(data[:used])):
                offset = number * files.per_file + index
                if entry == (0, 0, 0):
                    gap = offset if gap < 0 else gap
                    continue
                if gap >= 0:
                    place = files.place(gap)
                    self.report.problem(*place, f"{offset - gap} entries of zeros before others")
                    gap = -1
                files.end = offset + 1
                if entry == BLANK_ENTRY:
                    self.report.count("blank_entries_in_between" if seen else "blank_entries")
                    continue
                seen = True
                self.report.count("queue_entries")
                self.check_entry(topic, queue_id, files, offset, entry, previous)
                previous = max(previous, entry[0])
            if used < whole and gap < 0:
                gap = number * files.per_file + used // QUEUE_ENTRY_BYTES

    def check_entry(self, topic: bytes, queue_id: int, files: QueueFiles, offset: int,
                    entry: tuple[int, int, int], previous: int) -> None:  # fmt: skip
        physical, size, _code = entry
        what = ""
        if physical < 0 or size <= 0:
            what = f"entry of offset {offset} is none: {entry}"
        elif physical <= previous:
            what = f"entry of offset {offset}: {physical} comes after {previous}"
        elif physical < self.log_min:
            self.report.count("queue_entries_expired")
        elif physical + size > self.log_end:
            if self.strict or physical < self.believed_below:
                what = f"entry of offset {offset}: {physical}+{size} is beyond the log"
            else:
                self.report.count("queue_entries_ahead")
        else:
            what = self.compare(topic, queue_id, offset, entry)
        if what:
            self.report.problem(*files.place(offset), what)

    def compare(self, topic: bytes, queue_id: int, offset: int, entry: tuple[int, int, int]) -> str:
        """What is wrong with an entry that points into the log; "" when nothing is."""
        physical, size, code = entry
        what = self.compare_place(topic, queue_id, offset, physical, size)
        if what or topic in TIMES_TOPICS:
            return what
        due = _tags_code(self.record(physical).properties)
        return "" if code == due else f"entry of offset {offset}: tag code {code}, {due} due"

    def compare_place(self, topic: bytes, queue_id: int, offset: int, physical: int,
                      size: int) -> str:  # fmt: skip
        head = f"entry of offset {offset}: {physical}+{size}, but the log has "
        try:
            record = self.record(physical)
        except ProtocolError as error:
            return f"{head}no record there: {error}"
        if (record.topic, record.queue_id, record.queue_offset) != (topic, queue_id, offset):
            name = record.topic.decode("utf-8", "replace")
            return f"{head}{name}/{record.queue_id} offset {record.queue_offset} there"
        if record.size != size:
            return f"{head}{record.size} bytes there"
        return ""

    def check_record_has_entry(self, record: Record) -> None:
        kind = record.sys_flag & TRANSACTION_TYPE_MASK
        if kind in (TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE):
            return
        files = self.queues.get((record.topic, record.queue_id))
        if files is None:
            # A deleted topic leaves its records in the log.
            if record.offset >= self.believed_below:
                self.report.count("behind")
            else:
                self.report.count("records_without_queue")
            return
        entry = files.entry(record.queue_offset)
        if entry[0] == record.offset and entry[1] > 0:
            return  # check_entries has compared the two
        # A topic made anew may hold fewer messages than the older one. Then its last entry, which
        # points behind this record, shows that the record is of the older topic.
        newest = files.entry(min(record.queue_offset, files.end - 1)) if files.end > 0 else entry
        if newest != (0, 0, 0) and newest != BLANK_ENTRY and newest[0] > record.offset:
            self.report.count("records_of_older_topic")  # deleted and made anew since
            return
        if record.queue_offset >= files.end and record.offset >= self.believed_below:
            self.report.count("behind")
            return
        name = record.topic.decode("utf-8", "replace")
        self.report.problem(*files.place(record.queue_offset),
                            f"no entry for the record at log offset {record.offset} "
                            f"({name}/{record.queue_id} offset {record.queue_offset})")  # fmt: skip


def check_store(
    root: Path | str,
    commit_log: Path | str | None = None,
    strict: bool | None = None,
    shape: Shape = DEFAULT_SHAPE,
    progress: Progress = no_progress,
) -> Report:
    """A report of everything that was found in a store. `strict`: queue files must be complete;
    None: they must be complete if the stop was clean, that is, if there is no abort file.
    NotADirectoryError when there is no store."""
    root = Path(root)
    log = Path(commit_log) if commit_log is not None else root / "commitlog"
    if not log.is_dir():
        raise NotADirectoryError(f"{log} is no directory: not a store")
    return Checker(root, log, strict, shape, progress).run()
