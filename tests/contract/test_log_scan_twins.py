"""Where a log ends, and what of it is damage, is said twice: by a start of the broker (LogScan of
cext/store/log) and in plain Python (rmq/format/store_files.py), for the checker and for backups.
Both find the same in logs that a crash or a disk has been at.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.store_image import SEGMENT, Placed, StoreImage, open_store

from rmq.backup.segment_scan import scan_segment
from rmq.format.store_files import Segment
from rmq.offline.checker import Checker

IN_ZERO = b"A\x01\x00"
Found = tuple[int, list[tuple[int, int]]]  # the end, and (offset, bytes) of damage
Spoil = Callable[[StoreImage, Placed, Placed], object]


def bit(image: StoreImage, at: int) -> None:
    number = at // SEGMENT
    byte = image.segment_path(number).read_bytes()[at % SEGMENT]
    image.patch_log(at, bytes([byte ^ 0x40]))


def cut(image: StoreImage, at: int) -> None:
    """Zeros from there on; later segments are gone."""
    for path in sorted(image.log_directory.iterdir()):
        if int(path.name) > at:
            path.unlink()
    image.patch_log(at, bytes(SEGMENT - at % SEGMENT))


def last_of_segment(image: StoreImage) -> Placed:
    inside = (each for each in image.records if each.offset < image.blanks[0][0])
    return max(inside, key=lambda each: each.offset)


# By name: `one` ends in zeros, `following` is behind it, both in the middle of the first segment.
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
    end, damaged = 0, []
    for path in paths:
        with closing(Segment(path)) as segment:
            scan = scan_segment(segment, 0, followed=path is not paths[-1])
        end = segment.start + scan.end
        damaged += [(segment.start + each.at, each.bytes) for each in scan.damaged]
    return end, damaged


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
    log, _queues, report = open_store(image.root)
    log.close()
    by_start = report["log_end"], [(d["log_offset"], d["length"]) for d in report["damages"]]
    assert by_checker == by_backup == by_start
