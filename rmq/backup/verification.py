"""Verification: checks that a copy holds what its manifest says, and that its records are sound.

    verify(Path("/backup/a")).problems          `rmq store backup --check` prints them

    files       of the state: length and checksum
    segments    length of the file, checksum of the valid part, and every record in it: lengths,
                place, checksums; if something is wrong the records show at which byte

Damage that the store had when it was copied is named in the manifest: it is reported, but is not a
problem of the copy. Nothing is written.

Where the log ends was decided when it was copied, so each record up to there is judged by itself,
whatever follows it.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from pathlib import Path

from rmq.backup import copy_lock, manifest
from rmq.backup.byte_copy import crc32_of
from rmq.backup.manifest import FileCopy, SegmentCopy
from rmq.errors import ProtocolError
from rmq.format.store_files import Blank, Segment, record_at
from rmq.offline.report import Report
from rmq.progress import Progress, no_progress


def verify(directory: Path, progress: Progress = no_progress) -> Report:
    """ConfigError: no backup; StoreCorruptError: its manifest is damaged."""
    report = Report()
    with copy_lock.reading(directory):
        made = manifest.required(directory)
        total = sum(segment.end for store in made.stores for segment in store.segments)
        done = 0
        for store in made.stores:
            target = directory / store.directory
            for file in store.files:
                check_file(target / store.state / file.path, file, report)
            for segment in store.segments:
                progress("check", done, max(total, 1))
                check_segment(target / "commitlog" / segment.name, segment, report)
                done += segment.end
    report.counts["stores"] = len(made.stores)
    report.notes.append(f"backup {made.number} of {made.source}")
    return report


def check_file(path: Path, file: FileCopy, report: Report) -> None:
    report.count("files")
    try:
        data = path.read_bytes()
    except OSError as error:
        report.problem(path, 0, f"cannot be read: {error.strerror}")
        return
    if len(data) != file.bytes or zlib.crc32(data) != file.crc32:
        report.problem(path, 0, f"{len(data)} bytes that do not fit the checksum of {file.bytes}")


def check_segment(path: Path, known: SegmentCopy, report: Report) -> None:
    """Checks a segment; the report names the first place that is wrong."""
    report.count("segments")
    report.count("records", known.records)
    report.count("bytes", known.end)
    report.notes += [
        f"{path}:{each.at}: {each.bytes} bytes that were no record in the store: {each.what}"
        for each in known.damaged
    ]
    try:
        size = path.stat().st_size
        if size != known.bytes:
            report.problem(path, min(size, known.bytes), f"length {size}, not {known.bytes}")
            return
        with path.open("rb", buffering=0) as file:
            is_right = crc32_of(file.fileno(), 0, known.end) == known.crc32
        with closing(Segment(path)) as segment:
            found = _first_damage(segment, known)
    except OSError as error:
        report.problem(path, 0, f"cannot be read: {error.strerror}")
        return
    if found is not None:
        report.problem(path, found[0], found[1])
    elif not is_right:
        report.problem(path, 0, f"its {known.end} bytes do not fit their checksum")


def _first_damage(segment: Segment, known: SegmentCopy) -> tuple[int, str] | None:
    passed = {each.at: each.bytes for each in known.damaged}
    records = at = 0
    while at < known.end:
        if at in passed:
            at += max(1, passed[at])
            continue
        try:
            found = record_at(segment.data, at, segment.start + at)
        except ProtocolError as error:
            return at, f"no record: {error}"
        if isinstance(found, Blank):
            break
        records, at = records + 1, at + found.size
    if not passed and records != known.records:
        return at, f"{records} records, the manifest says {known.records}"
    return None
