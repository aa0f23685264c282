"""Index check: each file of the key index by itself, then its entries against the records.

    index = IndexChecker(root / "index", DEFAULT_SHAPE, report)
    index.open(log_min, log_end, strict)    headers, chains and slots of all files
    index.look(record)                      for each record of the log, in its order
    index.close()                           entries for which no record was found

A file by itself: length, header, entries in the order of the log, every chain as the earlier
entries make it, slots and their number. Against the log: an entry leads to the start of a record
that has this key and was stored in this second; from the first record of the index to its last, no
unique key and no key is missing (tags may be, as older brokers do not index them).

The last file of a store that was not stopped cleanly may be wrong. The next start mends it, so
problems in it are reported as notes. Files whose length does not fit the shape are not looked into.

Example: .../index/20260101000000000:60040: entry 1: leads to log offset 97, where no record starts
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rmq.codes import TRANSACTION_ROLLBACK_TYPE
from rmq.format.index_file import ENTRY, HEAD, Entry, Header, hashes_of, key_hash, read_header
from rmq.format.message import decode_properties
from rmq.format.store_files import Record
from rmq.offline.report import Report
from rmq.progress import Progress, no_progress

INT64_MAX = 2**63 - 1
SECONDS_MAX = 2**31 - 1
NAME = re.compile(r"\d{17}")
ENTRIES_AT_ONCE = 65_536
PROBLEMS_PER_FILE_MAX = 100  # listed problems; those beyond are only counted


class Shape(NamedTuple):
    slots: int  # maxHashSlotNum
    entries: int  # maxIndexNum

    def bytes(self) -> int:
        return HEAD.size + 4 * self.slots + ENTRY.size * self.entries


DEFAULT_SHAPE = Shape(5_000_000, 20_000_000)


class IndexFile:
    """One file whose length and header are right."""

    def __init__(self, path: Path, header: Header, shape: Shape) -> None:
        self.path = path
        self.header = header
        self.shape = shape
        self.wrong = 0  # problems found; the first PROBLEMS_PER_FILE_MAX are listed

    def place(self, number: int) -> int:
        """The byte at which the entry of this number begins."""
        return HEAD.size + 4 * self.shape.slots + ENTRY.size * number

    def entries(self) -> Iterator[Entry]:
        """All entries, from the first on."""
        number = 1
        with self.path.open("rb") as file:
            while number < self.header.next_entry:
                count = min(ENTRIES_AT_ONCE, self.header.next_entry - number)
                file.seek(self.place(number))
                yield from map(Entry._make, ENTRY.iter_unpack(file.read(count * ENTRY.size)))
                number += count

    def slots(self) -> array[int]:
        found = array("i")
        with self.path.open("rb") as file:
            file.seek(HEAD.size)
            found.frombytes(file.read(4 * self.shape.slots))
        found.byteswap()
        return found


class IndexChecker:
    """Reads the files twice: first each by itself, then along with the log."""

    def __init__(
        self, directory: Path, shape: Shape, report: Report, progress: Progress = no_progress
    ) -> None:
        self.directory = directory
        self.shape = shape
        self.report = report
        self.progress = progress
        self.files: list[IndexFile] = []
        self.newest = directory
        self.log_min = self.log_end = 0
        self.strict = True
        self.first = INT64_MAX  # log offsets between which all keys must be in the index
        self.last = -1
        self.rest: Iterator[tuple[IndexFile, int, Entry]] = iter(())
        self.next: tuple[IndexFile, int, Entry] | None = None

    def open(self, log_min: int, log_end: int, strict: bool) -> None:
        self.log_min, self.log_end, self.strict = log_min, log_end, strict
        paths = sorted(self.directory.iterdir()) if self.directory.is_dir() else []
        for path in paths:
            if not NAME.fullmatch(path.name):
                self.report.notes.append(f"not an index file: {path}")
            elif path.stat().st_size != self.shape.bytes():
                self.report.count("index_files_of_another_shape")
                self.report.notes.append(
                    f"{path}: {path.stat().st_size} bytes; maxHashSlotNum and maxIndexNum make it "
                    f"{self.shape.bytes()}: not looked into"
                )
            else:
                self._take(path)
        for at, file in enumerate(self.files):
            self.progress("key index", at, len(self.files))
            self._check_file(file)
        used = [file.header for file in self.files if file.header.next_entry > 1]
        if used:
            self.first, self.last = used[0].begin_offset, used[-1].end_offset
        self.rest = self._all_entries()
        self.next = next(self.rest, None)

    def _take(self, path: Path) -> None:
        self.newest = path
        with path.open("rb") as file:
            header = read_header(file.read(HEAD.size))
        if header.next_entry == 0:
            header = header._replace(next_entry=1)  # Java counts from 1 and does not say so
        self.report.count("index_files")
        self.files.append(IndexFile(path, header, self.shape))
        if not (
            1 <= header.next_entry <= self.shape.entries
            and 0 <= header.used_slots <= self.shape.slots
            and 0 <= header.begin_offset <= header.end_offset
            and 0 <= header.begin_ms <= header.end_ms
        ):
            self._problem(self.files.pop(), 0, f"header can not be: {tuple(header)}")

    def _problem(self, file: IndexFile, at: int, what: str) -> None:
        file.wrong += 1
        if file.wrong > PROBLEMS_PER_FILE_MAX:
            self.report.count("index_problems_not_told")
        elif not self.strict and file.path == self.newest:
            self.report.notes.append(f"{file.path}:{at}: {what} (the next start mends it)")
        else:
            self.report.problem(file.path, at, what)

    # ---- a file by itself

    def _check_file(self, file: IndexFile) -> None:
        header = file.header
        table = array("i", bytes(4 * self.shape.slots))
        before = 0
        for number, entry in enumerate(file.entries(), 1):
            what = ""
            if entry.hash < 0 or entry.seconds < 0:
                what = f"can not be: {tuple(entry)}"
            elif entry.offset < before:
                what = f"log offset {entry.offset} comes after {before}"
            elif entry.offset > header.end_offset:
                what = f"log offset {entry.offset} is beyond the file's last, {header.end_offset}"
            elif entry.before != table[entry.hash % self.shape.slots]:
                what = (
                    f"its chain goes on at {entry.before}, "
                    f"{table[entry.hash % self.shape.slots]} is due"
                )
            if what:
                self._problem(file, file.place(number), f"entry {number}: {what}")
            if before < entry.offset <= header.end_offset:
                before = entry.offset
            table[entry.hash % self.shape.slots] = number
        self.report.count("index_entries", header.next_entry - 1)
        if header.next_entry > 1 and header.end_offset != before:
            self._problem(file, 24, f"end offset {header.end_offset}, the last entry has {before}")
        if header.end_ms == INT64_MAX:
            self.report.notes.append(f"{file.path}: slots were being written (the next start does)")
            return
        used = self.shape.slots - table.count(0)
        if used != header.used_slots:
            self._problem(file, 32, f"{header.used_slots} slots used, the entries use {used}")
        slots = file.slots()
        if slots != table:
            for slot, (is_there, due) in enumerate(zip(slots, table, strict=False)):
                if is_there != due:
                    self._problem(
                        file, HEAD.size + 4 * slot, f"slot {slot}: {is_there}, {due} is due"
                    )

    # ---- along with the log

    def _all_entries(self) -> Iterator[tuple[IndexFile, int, Entry]]:
        for file in self.files:
            before = 0
            for number, entry in enumerate(file.entries(), 1):
                if before <= entry.offset <= file.header.end_offset:  # else it is listed already
                    before = entry.offset
                    yield file, number, entry

    def look(self, record: Record) -> None:
        """Checks the entries up to this record's, and that all keys of the record are there."""
        if not self.first <= record.offset <= self.last:
            if self.files and record.offset > self.last:
                self.report.count("records_not_indexed_yet")
            return
        found: list[int] = []
        properties = decode_properties(record.properties)
        topic = record.topic.decode("utf-8", "replace")
        rolled_back = record.sys_flag & TRANSACTION_ROLLBACK_TYPE == TRANSACTION_ROLLBACK_TYPE
        due = hashes_of(topic, properties, rolled_back)
        while self.next is not None and self.next[2].offset <= record.offset:
            file, number, entry = self.next
            if entry.offset < record.offset:
                self._lost(file, number, entry)
            elif entry.hash not in due:
                name = f"{topic}/{record.queue_id}"
                what = f"entry {number}: no key of the record at {entry.offset} ({name}) is it"
                self._problem(file, file.place(number), what)
            elif entry.seconds != seconds_since(file.header.begin_ms, record.store_ms):
                what = f"entry {number}: {entry.seconds} s, the record says otherwise"
                self._problem(file, file.place(number), what)
            if entry.offset == record.offset:
                found.append(entry.hash)
            self.next = next(self.rest, None)
        tags = properties.get("TAGS")
        optional = key_hash(topic, tags, tag=True) if tags else None
        for value in due:
            if value != optional and value not in found:
                file = self._file_of(record.offset)
                what = f"a key of the record at log offset {record.offset} is not in"
                self._problem(file, 0, what)

    def _file_of(self, offset: int) -> IndexFile:
        """The file to which the keys of the record at this offset belong."""
        return next(file for file in self.files if offset <= file.header.end_offset)

    def _lost(self, file: IndexFile, number: int, entry: Entry) -> None:
        if 0 <= entry.offset < self.log_min:
            self.report.count("index_entries_expired")
        elif entry.offset >= self.log_end and not self.strict:
            self.report.count("index_entries_ahead")
        else:
            what = f"entry {number}: leads to log offset {entry.offset}, where no record starts"
            self._problem(file, file.place(number), what)

    def close(self) -> None:
        """Reports the entries that are left: they lead to no record."""
        while self.next is not None:
            self._lost(*self.next)
            self.next = next(self.rest, None)


def seconds_since(begin_ms: int, store_ms: int) -> int:
    """The time of a record as an index file has it: seconds since the file's first record."""
    if begin_ms <= 0:
        return 0
    return max(0, min((store_ms - begin_ms) // 1000, SECONDS_MAX))
