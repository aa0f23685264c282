"""Goal: a key index that the indexer wrote is sound, and every change in it is named with its
place.

Method: a small log with keys, indexed by the compiled indexer; then one thing is broken. The
checker shares no code with the indexer. A damage that leaves every chain, slot and hash right is no
damage, so that none can be missed.
"""

import struct

import pytest
from support.keyed_log import ENTRIES, SLOTS, KeyedLog

from rmq.format.index_file import HEAD, build
from rmq.offline.checker import check_store
from rmq.offline.dump import dump_file
from rmq.offline.index_check import INT64_MAX, Shape

SHAPE = Shape(SLOTS, ENTRIES)
ENTRIES_AT = HEAD.size + 4 * SLOTS


@pytest.fixture
def store(tmp_path):
    """300 records, with about 1,000 entries in three files; the log's files are unchanged."""
    with KeyedLog(tmp_path) as keyed:
        keyed.add_many(300)
        indexer = keyed.index()
        indexer.start()
        indexer.stop()
        yield keyed


def check(keyed, strict=True):
    """The problems of the index alone, and the report; queues are not written here."""
    report = check_store(keyed.root, strict=strict, shape=SHAPE)
    return [problem for problem in report.problems if "/index/" in problem.file], report


def patch(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def entry_place(number):
    return ENTRIES_AT + 20 * number


def test_what_the_indexer_writes_is_sound(store):
    problems, report = check(store)
    assert problems == []
    assert report.counts["index_files"] == len(store.files()) >= 3
    assert report.counts["index_entries"] == len(store.puts())
    assert "records_not_indexed_yet" not in report.counts


def test_what_the_twin_builds_is_sound(store):
    """An index in RocketMQ's format that was made without the indexer must be sound."""
    for path in store.files():
        path.unlink()
    puts = store.puts()
    (store.index_directory / f"{20260101000000000}").write_bytes(
        build(puts[: ENTRIES - 1], SLOTS, ENTRIES)
    )
    problems, report = check(store)
    assert [problem for problem in problems if "is not in" not in problem.what] == []
    assert report.counts["records_not_indexed_yet"] > 0


@pytest.mark.parametrize("at", [0, 4, 11, 14, 19])
def test_a_changed_byte_of_an_entry_is_named(store, at):
    path = store.files()[1]
    place = entry_place(50)
    byte = path.read_bytes()[place + at]
    patch(path, place + at, bytes([byte ^ 0x11]))
    problems, _ = check(store)
    assert (str(path), place) in {(problem.file, problem.offset) for problem in problems}


def test_a_changed_slot_is_named(store):
    path = store.files()[0]
    data = path.read_bytes()
    slot = next(
        n for n in range(SLOTS) if data[HEAD.size + 4 * n : HEAD.size + 4 * n + 4] != bytes(4)
    )
    patch(path, HEAD.size + 4 * slot, bytes(4))
    problems, _ = check(store)
    assert [(problem.file, problem.offset) for problem in problems] == [
        (str(path), HEAD.size + 4 * slot)
    ]
    assert problems[0].what.startswith(f"slot {slot}: 0, ")


@pytest.mark.parametrize(
    "at, form, value", [(32, ">i", 3), (36, ">i", 0x7FFFFFFF), (24, ">q", 5), (0, ">q", -1)]
)
def test_a_wrong_header_is_named(store, at, form, value):
    path = store.files()[0]
    patch(path, at, struct.pack(form, value))
    problems, _ = check(store)
    assert str(path) in {problem.file for problem in problems}


def test_keys_that_are_missing_are_named_with_their_record(store):
    """With a lower count of entries, the newest record of the file has lost a key, which must be
    named."""
    path = store.files()[-1]
    count = struct.unpack_from(">i", path.read_bytes(), 36)[0]
    patch(path, 36, struct.pack(">i", count - 4))
    problems, _ = check(store)
    last = store.records[-1]
    assert any(f"record at log offset {last.offset} is not in" in each.what for each in problems)


def test_a_file_that_is_missing_leaves_keys_missing(store):
    store.files()[1].unlink()
    problems, _ = check(store)
    assert problems
    assert all("is not in" in problem.what for problem in problems)


def test_entries_that_lead_to_no_record_are_named(store):
    """Keys of a record that the log has lost must be named. Here it is the first one."""
    segment = sorted((store.root / "commitlog").iterdir())[0]
    patch(segment, 4, bytes(4))
    problems, _ = check(store)
    assert any("where no record starts" in problem.what for problem in problems)


def test_after_a_kill_the_last_file_may_be_unfinished(store):
    path = store.files()[-1]
    patch(path, 8, struct.pack(">q", INT64_MAX))
    patch(path, HEAD.size, bytes(4 * SLOTS))
    problems, report = check(store, strict=False)
    assert problems == []
    assert any("slots were being written" in note for note in report.notes)


def test_a_file_of_another_shape_is_left_alone_and_told(store):
    report = check_store(store.root, shape=Shape(SLOTS, ENTRIES + 1))
    assert report.counts["index_files_of_another_shape"] == len(store.files())
    assert not any("/index/" in problem.file for problem in report.problems)


def test_a_dump_shows_header_and_entries(store):
    rows = list(dump_file(store.files()[0], shape=SHAPE))
    puts = store.puts()
    assert rows[0]["next_entry"] == len(rows)
    assert [(row["hash"], row["log_offset"]) for row in rows[1:4]] == [
        (put.hash, put.offset) for put in puts[:3]
    ]
