"""Two scanners of the log agree: that of a broker's start (LogScan of cext/store/log), and the one
in plain Python for the checker and for backups (rmq/format/store_files.py).

Both find the same end and the same damage in logs that a crash or a disk has spoiled. Both read
what checkpoint, queueEnds and queues say of the end, and give it the same weight.
"""

import errno
import mmap
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.store_image import PER_FILE, SEGMENT, Placed, StoreImage, open_store

from rmq.backup.segment_scan import scan_segment
from rmq.format import store_files
from rmq.format.store_files import Segment, encode_checkpoint, persisted_ends
from rmq.offline.checker import Checker, check_store

IN_ZERO = b"A\x01\x00"
OTHER_BOOT = bytes(range(16))
Found = tuple[int, list[tuple[int, int]]]  # the end, and (offset, bytes) of damage
Spoil = Callable[[StoreImage, Placed, Placed], object]


def bit(image: StoreImage, at: int) -> None:
    number = at // SEGMENT
    byte = image.segment_path(number).read_bytes()[at % SEGMENT]
    image.patch_log(at, bytes([byte ^ 0x40]))


def cut(image: StoreImage, at: int) -> None:
    """Writes zeros from this offset on, and deletes later segments."""
    for path in sorted(image.log_directory.iterdir()):
        if int(path.name) > at:
            path.unlink()
    image.patch_log(at, bytes(SEGMENT - at % SEGMENT))


def last_of_segment(image: StoreImage) -> Placed:
    inside = (each for each in image.records if each.offset < image.blanks[0][0])
    return max(inside, key=lambda each: each.offset)


# Ways to spoil a log. `one` is a record that ends in zeros and `following` the next one; both are
# in the middle of the first segment.
SPOILS: dict[str, Spoil] = {
    "nothing": lambda image, one, following: None,
    "a record": lambda image, one, following: bit(image, one.offset + 2),
    "behind one that ends in zeros": lambda image, one, following: bit(image, following.offset + 2),
    "a page with the end of one": lambda image, one, following: image.patch_log(
        following.offset - 2, bytes(2 + len(following.data))
    ),
    "a torn end": lambda image, one, following: cut(image, following.offset),
    "an end": lambda image, one, following: cut(image, following.offset + len(following.data)),
    "half a record": lambda image, one, following: cut(image, following.offset + 50),
    "a blank": lambda image, one, following: bit(image, image.blanks[0][0] + 5),
    "the end of a segment": lambda image, one, following: image.patch_log(
        last_of_segment(image).offset + 3, bytes(SEGMENT - last_of_segment(image).offset - 3)
    ),
}


def of_checker(image: StoreImage) -> Found:
    checker = Checker(image.root, image.log_directory)
    checker.open_log()
    checker.scan_log()
    checker.open_files.close()
    for segment in checker.segments.values():
        segment.close()
    return checker.log_end, [(each.offset, each.size) for each in checker.damaged]


def of_backup(image: StoreImage) -> Found:
    paths = sorted(image.log_directory.iterdir())
    end, damaged, persisted = 0, [], persisted_ends(image.root)
    for path in paths:
        with closing(Segment(path, persisted)) as segment:
            scan = scan_segment(segment, 0, followed=path is not paths[-1])
        end = segment.start + scan.end
        damaged += [(segment.start + each.at, each.bytes) for each in scan.damaged]
    return end, damaged


def of_start(image: StoreImage, clean: bool = False) -> Found:
    """What a start finds. It reads the whole log if there are no queues, and replaces the files
    that say where the log ends."""
    log, _queues, report = open_store(image.root, clean)
    log.close()
    assert report["records_scanned"] > 0
    return report["log_end"], [(d["log_offset"], d["length"]) for d in report["damages"]]


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
def test_a_start_and_its_plain_twin_find_the_same_end_and_damage(
    tmp_path: Path, spoil: Spoil
) -> None:
    image = StoreImage(tmp_path).add_many(30)
    one = image.add(b"topic-0", 0, b"body", IN_ZERO)
    following = image.add(b"topic-0", 0, b"a body")
    image.add_many(600).write_log()
    assert len(image.blanks) > 0
    spoil(image, one, following)
    by_checker, by_backup = of_checker(image), of_backup(image)
    assert by_checker == by_backup == of_start(image)


Mark = Callable[[StoreImage, int], object]  # for so many records
# Files that say that the last record is whole (True), or only the one before it (False).
MARKS: dict[str, tuple[bool, Mark]] = {
    "checkpoint": (True, lambda image, count: image.checkpoint_at(count, synced=5)),
    "synced before a reboot": (
        True,
        lambda image, count: image.checkpoint_at(count, boot_id=OTHER_BOOT),
    ),
    "restored": (
        True,
        lambda image, _: (image.root / "checkpoint").write_bytes(encode_checkpoint(image.end)),
    ),
    "queueEnds": (True, lambda image, count: image.write_ends(count)),
    "queueEnds.synced": (
        True,
        lambda image, count: image.write_ends(count, "queueEnds.synced", boot_id=OTHER_BOOT),
    ),
    "nothing": (False, lambda image, count: None),
    "checkpoint of the record before": (
        False,
        lambda image, count: image.checkpoint_at(count - 1),
    ),
    "checkpoint before a reboot": (
        False,
        lambda image, count: image.checkpoint_at(count, synced=5, boot_id=OTHER_BOOT),
    ),
    "queueEnds of the record before": (False, lambda image, count: image.write_ends(count - 1)),
    "queueEnds before a reboot": (
        False,
        lambda image, count: image.write_ends(count, boot_id=OTHER_BOOT),
    ),
}


@pytest.mark.parametrize("is_said, mark", MARKS.values(), ids=MARKS.keys())
def test_the_last_record_may_end_in_zeros_where_the_store_says_that_it_has_it(
    tmp_path: Path, is_said: bool, mark: Mark
) -> None:
    """A last record that ends in zeros is taken for whole only if a file of the store says that it
    is."""
    image = StoreImage(tmp_path).add_many(30)
    last = image.add(b"topic-0", 0, b"body", IN_ZERO)
    image.write_log()
    mark(image, len(image.records))
    found = of_checker(image), of_backup(image), of_start(image)
    assert found == (((image.end if is_said else last.offset), []),) * 3


def grow_last_entry(image: StoreImage, last: Placed) -> None:
    """Makes the record's queue entry say one byte more than the record has."""
    number, index = divmod(last.queue_offset, PER_FILE)
    directory = image.queue_directory / last.topic.decode() / str(last.queue_id)
    with (directory / f"{number * PER_FILE * 20:020d}").open("r+b") as file:
        file.seek(index * 20 + 8)
        file.write((len(last.data) + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("case", ["apache alone", "rmq before", "killed", "body", "size"])
def test_the_last_record_may_end_in_zeros_where_a_queue_of_a_cleanly_stopped_store_names_it(
    tmp_path: Path, case: str
) -> None:
    """Apache's broker wrote the store last. What its queues say of the last record is believed if
    the store was stopped cleanly and the entry fits the record."""
    image = StoreImage(tmp_path).add_many(400)
    last = image.add(b"topic-0", 0, b"body", IN_ZERO)
    image.write_log().write_queues()
    if case == "rmq before":
        image.write_ends(390)
    elif case == "killed":
        (image.root / "abort").touch()
    elif case == "body":
        image.patch_log(last.offset + 88, b"X")
    elif case == "size":
        grow_last_entry(image, last)
    is_said = case in ("apache alone", "rmq before")
    if is_said:
        assert check_store(image.root).problems == []
    found = of_checker(image), of_backup(image), of_start(image, clean=case != "killed")
    assert found == (((image.end if is_said else last.offset), []),) * 3


class LogMap(mmap.mmap):
    """A map of any file but a queue: where the disk cannot read, a map raises SIGBUS, and a read
    only returns an error."""

    def __new__(cls, fd: int, *given: Any, **named: Any) -> "LogMap":
        assert "consumequeue" not in os.readlink(f"/proc/self/fd/{fd}")
        return super().__new__(cls, fd, *given, **named)


@pytest.mark.parametrize("is_read", [True, False])
def test_queues_are_read_and_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """A queue that the disk cannot read must not end the process that looks for the log's end. It
    says nothing about the end then."""

    def unreadable(fd: int, size: int, at: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    image = StoreImage(tmp_path).add_many(30)
    last = image.add(b"topic-0", 0, b"body", IN_ZERO)
    image.write_log().write_queues()
    maps = SimpleNamespace(mmap=LogMap, ACCESS_READ=mmap.ACCESS_READ)
    monkeypatch.setattr(store_files, "mmap", maps)
    if not is_read:
        monkeypatch.setattr(os, "pread", unreadable)
    assert of_backup(image) == (image.end if is_read else last.offset, [])


def test_no_queue_is_opened_where_no_record_needs_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may have many thousand queues. Here one record ends in zeros, but another record
    follows it, so that no queue has to say whether it is whole."""

    def opened(directory: Path) -> None:
        raise AssertionError(directory)

    image = StoreImage(tmp_path).add_many(30)
    image.add(b"topic-0", 0, b"body", IN_ZERO)
    image.add(b"topic-0", 0, b"a body")
    image.write_log().write_queues()
    monkeypatch.setattr(store_files, "queue_directories", opened)
    assert of_backup(image) == (image.end, [])


def test_queues_say_nothing_once_a_broker_has_begun_to_write_them(tmp_path: Path) -> None:
    """While a broker runs, or after it was killed, what its queues say of the log's end is not
    believed."""
    image = StoreImage(tmp_path).add_many(30)
    image.add(b"topic-0", 0, b"body", IN_ZERO)
    image.write_log().write_queues()
    persisted = persisted_ends(image.root)
    (image.root / "abort").touch()
    assert image.end not in persisted
