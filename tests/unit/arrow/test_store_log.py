"""The files of a store as a table: what a disk has lost in them, and what retention removes while
they are read, in files made for that."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from support.store_image import SEGMENT, Placed, StoreImage

pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

import rmq
from rmq.arrow.queues import DataLossError
from rmq.arrow.read_plan import DamagedMessageError

LARGE = 6 << 20


@pytest.fixture
def image(tmp_path: Path) -> StoreImage:
    """Three log files with records, and two that are made ahead."""
    image = StoreImage(tmp_path).add_many(250)
    assert image.end // SEGMENT == 2
    image.write_log()
    for number in (3, 4):
        image.segment_path(number).write_bytes(bytes(SEGMENT))
    return image


def offsets(image: StoreImage, **given: Any) -> list[int]:
    reader = rmq.scan_store(image.root, threads=1, columns=["physicalOffset"], **given)
    return [int(each) for each in reader.read_all()["physicalOffset"].to_pylist()]


def first_of(image: StoreImage, segment: int) -> Placed:
    return next(each for each in image.records if each.offset >= segment * SEGMENT)


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_a_file_that_has_lost_its_first_record_ends_no_log(image: StoreImage, segment: int) -> None:
    bad = first_of(image, segment)
    image.patch_log(bad.offset, bytes(len(bad.data)))
    wanted = [each.offset for each in image.records if each is not bad]
    with pytest.raises(DamagedMessageError, match=f"log offset {bad.offset}: bytes of the commit"):
        offsets(image)
    assert offsets(image, mode="dropmalformed") == wanted
    rows = rmq.scan_store(image.root, threads=1, mode="permissive").read_all()
    assert rows.num_rows == len(wanted) + 1
    assert rows["_corrupt"].null_count == len(wanted)


def lose(image: StoreImage, what: str) -> int:
    """Takes something from the second of three files. Returns where the loss begins."""
    path = image.segment_path(1)
    last = [each for each in image.records if each.offset < 2 * SEGMENT][-1].offset
    if what == "its end":  # the last record, and the BLANK behind it
        image.patch_log(last, bytes(2 * SEGMENT - last))
        return last
    if what == "some of its length":
        os.truncate(path, last - SEGMENT)
        return last
    if what == "all records":
        path.write_bytes(bytes(SEGMENT))
    elif what == "its length":
        os.truncate(path, 0)
    else:
        path.unlink()
    return SEGMENT


@pytest.mark.parametrize(
    "what", ["its end", "some of its length", "all records", "its length", "the file"]
)
def test_what_is_lost_before_the_last_file_is_damage(image: StoreImage, what: str) -> None:
    at = lose(image, what)
    wanted = [each.offset for each in image.records if not at <= each.offset < 2 * SEGMENT]
    with pytest.raises(DamagedMessageError, match=f"{image.log_directory}.*, log offset {at}: "):
        offsets(image)
    assert offsets(image, mode="dropmalformed") == wanted
    rows = rmq.scan_store(image.root, threads=1, mode="permissive").read_all()
    assert rows.num_rows == len(wanted) + 1
    assert rows["_corrupt"].null_count == len(wanted)


def test_files_behind_the_last_record_are_not_read(image: StoreImage) -> None:
    assert offsets(image) == [each.offset for each in image.records]
    for number in (1, 2):
        image.segment_path(number).write_bytes(bytes(SEGMENT))
    assert offsets(image) == [each.offset for each in image.records if each.offset < SEGMENT]


def test_the_log_ends_behind_a_record_that_the_store_says_it_has(tmp_path: Path) -> None:
    """A last record that ends in zeros, as its sender wrote it, must be read if the store's
    checkpoint says that the store has it."""
    image = StoreImage(tmp_path).add_many(20)
    image.add(b"topic-0", 0, b"body", b"A\x01\x00")
    image.write_log()
    wanted = [each.offset for each in image.records]
    assert offsets(image) == wanted[:-1]
    image.checkpoint_at(20)
    assert offsets(image) == wanted[:-1]
    image.checkpoint_at(21)
    assert offsets(image) == wanted


def test_a_time_ends_the_read_in_the_file_that_has_it(image: StoreImage) -> None:
    until = first_of(image, 1)
    wanted = [each.offset for each in image.records if each.store_ms < until.store_ms]
    assert offsets(image, ending_timestamp=until.store_ms) == wanted


def test_what_retention_deletes_since_the_plan_is_lost(
    image: StoreImage, caplog: pytest.LogCaptureFixture
) -> None:
    lost = f"log offsets 0 to {SEGMENT - 1} are gone; "
    reader = rmq.scan_store(image.root, threads=1)
    others = rmq.scan_store(
        image.root, threads=1, columns=["physicalOffset"], fail_on_data_loss=False
    )
    image.segment_path(0).unlink()
    with pytest.raises(DataLossError, match=f"{lost}fail_on_data_loss=false reads what is left"):
        reader.read_all()
    with caplog.at_level(logging.WARNING, "rmq.arrow"):
        found = others.read_all()["physicalOffset"].to_pylist()
    assert found == [each.offset for each in image.records if each.offset >= SEGMENT]
    assert f"{lost}going on without them" in caplog.text


def test_a_file_that_is_deleted_while_it_is_read_is_read_to_its_end(image: StoreImage) -> None:
    reader = rmq.scan_store(image.root, threads=1, batch_rows=5, columns=["physicalOffset"])
    found = reader.read_next_batch()["physicalOffset"].to_pylist()
    assert len(found) == 5
    image.segment_path(0).unlink()
    found += reader.read_all()["physicalOffset"].to_pylist()
    assert found == [each.offset for each in image.records]


@pytest.mark.parametrize("mode", ["failfast", "dropmalformed"])
def test_a_file_that_is_used_anew_while_it_is_read_is_lost(tmp_path: Path, mode: str) -> None:
    image = StoreImage(tmp_path, segment=LARGE)
    for _ in range(70):
        image.add(body=bytes(100_000))
    image.write_log()
    reader = rmq.scan_store(image.root, threads=1, batch_rows=5, mode=mode)
    first = reader.read_next_batch()
    assert first["queueOffset"].to_pylist() == [0, 1, 2, 3, 4]
    ahead = image.segment_path(2)
    image.segment_path(0).rename(ahead)
    with ahead.open("r+b") as file:  # it is used again, with other records
        file.write(os.urandom(LARGE))
    with pytest.raises(DataLossError, match=f"to {LARGE - 1} are gone"):
        reader.read_all()
