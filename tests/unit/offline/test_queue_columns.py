"""A queue's columns have what the files say, wherever an entry may be, and however it is written.

Method: stores made byte by byte; each array is compared with the records that they were made of.
"""

import csv
import json
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet
from support.pages import BLOCK, DOCS
from support.store_image import PER_FILE, Placed, StoreImage

from rmq.cli.main import cli
from rmq.format.message import decode_message
from rmq.offline.queue_columns import NO_SIZE, QueueColumns, queue_columns

QUEUE_ENTRY = struct.Struct(">qiq")
V6, STORE_V6 = 0x10, 0x20  # the sender's address takes 20 bytes, and the broker's
NAT = np.datetime64("NaT", "ms")


@pytest.fixture
def image(tmp_path: Path) -> StoreImage:
    """1000 records in 6 queues, with 4 files for each queue and several segments."""
    made = StoreImage(tmp_path / "store")
    for number in range(1000):
        topic, queue_id = b"topic-%d" % (number % 2), number // 2 % 3
        made.add(topic, queue_id, b"%d" % number * (number % 37), tags_code=-(number % 5),
                 sys_flag=V6 * (number % 7 == 0) | STORE_V6 * (number % 5 == 0))  # fmt: skip
    return made.write_log().write_queues().checkpoint_at(1000, queue_count=6)


def records(image: StoreImage, topic: bytes = b"topic-0", queue_id: int = 0) -> list[Placed]:
    return [each for each in image.records if (each.topic, each.queue_id) == (topic, queue_id)]


def rows(columns: QueueColumns) -> list[tuple[int, ...]]:
    times = columns.store_time.astype(np.int64)
    arrays = (*columns[:4], times, columns.body_size)
    return list(zip(*(column.tolist() for column in arrays), strict=True))


def expected(placed: list[Placed]) -> list[tuple[int, ...]]:
    return [
        (r.queue_offset, r.offset, len(r.data), r.tags_code, r.store_ms,
         len(decode_message(r.data)[0].body))
        for r in placed
    ]  # fmt: skip


def dump(*words: object) -> Result:
    return CliRunner().invoke(cli, ["store", "dump", *map(str, words)])


def queue_file(image: StoreImage, number: int) -> Path:
    return image.queue_directory / "topic-0/0" / f"{number * PER_FILE * QUEUE_ENTRY.size:020d}"


def patch(path: Path, index: int, entry: tuple[int, int, int]) -> None:
    with path.open("r+b") as file:
        file.seek(index * QUEUE_ENTRY.size)
        file.write(QUEUE_ENTRY.pack(*entry))


def test_every_entry_of_every_queue_is_a_row(image: StoreImage) -> None:
    assert len({record.offset // image.segment for record in image.records}) > 3
    for topic in (b"topic-0", b"topic-1"):
        for queue_id in range(3):
            columns = queue_columns(image.root, topic.decode(), queue_id)
            assert rows(columns) == expected(records(image, topic, queue_id))


def test_arrays_are_in_the_machines_byte_order(image: StoreImage) -> None:
    columns = queue_columns(image.root, "topic-0", 0)
    assert [column.dtype.str for column in columns] == [
        np.dtype(kind).str for kind in ("i8", "i8", "i4", "i8", "datetime64[ms]", "i4")
    ]


@pytest.mark.parametrize(
    ("start", "count"), [(0, 0), (0, 7), (PER_FILE, 1), (PER_FILE - 1, 3), (120, None), (10**9, 5)]
)
def test_a_part_is_a_slice_of_the_whole(image: StoreImage, start: int, count: int | None) -> None:
    end = None if count is None else start + count
    columns = queue_columns(image.root, "topic-0", 0, start, count)
    assert rows(columns) == expected(records(image)[start:end])


def test_what_is_no_entry_is_no_row(image: StoreImage) -> None:
    """Whatever is no entry must become no row: the filler before a queue's first entry, zeros, a
    missing file, a torn end."""
    placed = records(image)
    for index in range(10):
        patch(queue_file(image, 0), index, (0, 0x7FFFFFFF, 0))
    patch(queue_file(image, 0), 20, (0, 0, 0))
    queue_file(image, 1).unlink()
    with queue_file(image, 2).open("r+b") as file:
        file.truncate(5 * QUEUE_ENTRY.size + 7)
    kept = placed[10:20] + placed[21:PER_FILE] + placed[2 * PER_FILE : 2 * PER_FILE + 5]
    kept += placed[3 * PER_FILE :]
    assert rows(queue_columns(image.root, "topic-0", 0)) == expected(kept)


def test_what_the_log_does_not_have_has_no_store_time(image: StoreImage) -> None:
    """Entries whose record is not in the log must have no store time: those of a segment that
    retention deleted, and those that point elsewhere."""
    placed = records(image)
    image.segment_path(0).unlink()
    # inside a record, at the record of another offset, before, behind and at the end of the log
    astray = [placed[60].offset + 4, placed[61].offset, -1, 1 << 50, image.segment * 2 - 1]
    first = placed[PER_FILE].offset
    for index, at in enumerate(astray):
        patch(queue_file(image, 1), index, (at, 100, 0))
    columns = queue_columns(image.root, "topic-0", 0)
    deleted = np.array([record.offset < image.segment for record in placed])
    deleted[PER_FILE : PER_FILE + len(astray)] = True
    assert first >= image.segment
    assert deleted.sum() > len(astray)
    assert (np.isnat(columns.store_time) == deleted).all()
    assert ((columns.body_size == NO_SIZE) == deleted).all()


@pytest.mark.parametrize(("sys_flag", "head_bytes"), [(0, 88), (V6, 100), (V6 | STORE_V6, 112)])
def test_a_head_may_end_with_its_file(tmp_path: Path, sys_flag: int, head_bytes: int) -> None:
    """A record's head may end together with its file: the shortest record of a copy with nothing
    behind it, and one that is cut off in its head."""
    made = StoreImage(tmp_path / "store")
    placed = made.add(b"T", 0, b"x", sys_flag=sys_flag)
    made.write_log().write_queues().checkpoint_at(1)
    for length, has_head in ((len(placed.data), True), (head_bytes, True), (head_bytes - 1, False)):
        with made.segment_path(0).open("r+b") as file:
            file.truncate(length)
        columns = queue_columns(made.root, "T", 0)
        assert columns.body_size.tolist() == [1 if has_head else NO_SIZE]
        assert np.isnat(columns.store_time).tolist() == [not has_head]


@pytest.mark.parametrize("size", [-5, 3, 2**31 - 1])
def test_a_body_that_its_record_has_no_room_for_has_no_size(tmp_path: Path, size: int) -> None:
    made = StoreImage(tmp_path / "store")
    made.add(b"T", 0, b"x")
    made.write_log().write_queues().checkpoint_at(1)
    with made.segment_path(0).open("r+b") as file:
        file.seek(84)
        file.write(struct.pack(">i", size))
    columns = queue_columns(made.root, "T", 0)
    has_room = 0 <= size <= columns.size[0] - 88
    assert columns.body_size.tolist() == [size if has_room else NO_SIZE]
    assert not np.isnat(columns.store_time).any()


def test_a_queue_without_a_log_has_no_times(image: StoreImage, tmp_path: Path) -> None:
    columns = queue_columns(image.root, "topic-0", 0, commit_log=tmp_path / "elsewhere")
    assert len(columns.offset) == len(records(image))
    assert np.isnat(columns.store_time).all()
    assert (columns.body_size == NO_SIZE).all()


def test_the_log_may_lie_elsewhere(image: StoreImage, tmp_path: Path) -> None:
    image.log_directory.rename(tmp_path / "log")
    config = tmp_path / "broker.conf"
    config.write_text(f"storePathCommitLog={tmp_path / 'log'}\n")
    out = tmp_path / "queue.npz"
    result = dump(image.root / "consumequeue/topic-0/0", "-c", config, "--columns", out)
    assert result.exit_code == 0, result.output
    with np.load(out) as found:
        assert found["store_time"].astype(np.int64).tolist() == [
            record.store_ms for record in records(image)
        ]


@pytest.fixture
def queue(image: StoreImage) -> Path:
    return image.root / "consumequeue/topic-0/0"


def test_npz_csv_and_parquet_hold_the_same(image: StoreImage, queue: Path, tmp_path: Path) -> None:
    image.segment_path(0).unlink()
    whole = queue_columns(image.root, "topic-0", 0)
    for form in ("npz", "csv", "parquet"):
        result = dump(queue, "--columns", tmp_path / f"q.{form}")
        assert result.output == f"{len(whole.offset)} rows written to {tmp_path / f'q.{form}'}\n"
    with np.load(tmp_path / "q.npz") as found:
        for name, column in whole._asdict().items():
            np.testing.assert_array_equal(found[name], column)
    table = parquet.read_table(tmp_path / "q.parquet")
    for name, column in whole._asdict().items():
        found = table[name].fill_null(NO_SIZE) if name == "body_size" else table[name]
        np.testing.assert_array_equal(found.to_numpy(), column)
    gone = int((whole.body_size == NO_SIZE).sum())
    assert 0 < gone == table["body_size"].null_count == table["store_time"].null_count
    assert str(table.schema.field("store_time").type) == "timestamp[ms, tz=UTC]"
    with (tmp_path / "q.csv").open() as file:
        head, *lines = csv.reader(file)
    assert tuple(head) == whole._fields
    assert [int(line[1]) for line in lines] == whole.physical_offset.tolist()
    times = [np.datetime64(line[4], "ms") if line[4] else NAT for line in lines]
    np.testing.assert_array_equal(np.array(times), whole.store_time)
    assert [int(line[5] or NO_SIZE) for line in lines] == whole.body_size.tolist()


def test_a_dash_prints_a_table_and_json_columns(image: StoreImage, queue: Path) -> None:
    first = records(image)[PER_FILE]
    output = dump(queue, "--columns", "-", "--from", PER_FILE, "--count", 1).output
    head, line = output.splitlines()
    assert head.split() == ["OFFSET", "PHYSICAL_OFFSET", "SIZE", "TAGS_CODE", "STORE_TIME",
                            "BODY_SIZE"]  # fmt: skip
    assert line.split()[:2] == [str(PER_FILE), str(first.offset)]
    assert line.split()[4].startswith("1970-01-01T00:16:")
    found = json.loads(dump(queue, "--columns", "-", "--json", "--count", 3).output)
    assert found["offset"] == [0, 1, 2]
    assert found["size"] == [len(record.data) for record in records(image)[:3]]
    none = json.loads(dump(queue, "--columns", "-", "--json", "--from", 10**9).output)
    assert none == {name: [] for name in found}


@pytest.mark.parametrize(
    ("path", "out", "message"),
    [
        ("consumequeue/topic-0/0", "q.xlsx", ".npz, .csv, .parquet"),
        ("consumequeue/topic-0", "q.csv", "STORE/consumequeue/TOPIC/QUEUE"),
        ("consumequeue/topic-0/17", "q.csv", "STORE/consumequeue/TOPIC/QUEUE"),
        ("commitlog", "q.csv", "STORE/consumequeue/TOPIC/QUEUE"),
        ("consumequeue/topic-0/0", "no/such/q.csv", "No such file or directory"),
    ],
)
def test_a_mistake_is_named(image: StoreImage, path: str, out: str, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rmq", "store", "dump", str(image.root / path), "--columns", out],
        capture_output=True, text=True, cwd=image.root.parent,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert message in done.stderr
    assert not (image.root.parent / out).exists()


def test_the_examples_of_the_operations_page_run(image: StoreImage) -> None:
    """The examples must run in a directory whose store has a topic `orders`, as the page
    assumes."""
    (image.queue_directory / "topic-0").rename(image.queue_directory / "orders")
    page = (DOCS / "operations.md").read_text().partition("\n## A queue as columns\n")[2]
    page = page.partition("\n## ")[0]
    found = BLOCK.findall(page)
    commands = [line for kind, text in found if kind == "text" for line in text.splitlines()]
    assert commands
    for line in commands:
        words = shlex.split(line.partition("   ")[0])
        result = subprocess.run(
            [sys.executable, "-m", *words], cwd=image.root.parent, capture_output=True, text=True
        )
        assert result.returncode == 0, result
    [code] = [text for kind, text in found if kind == "py"]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=image.root.parent, capture_output=True, text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    placed = records(image)
    assert done.stdout.splitlines()[0] == f"{len(placed)} messages"
