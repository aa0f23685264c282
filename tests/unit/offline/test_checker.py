"""The offline checker: a sound store is sound, and each planted damage is named with its place.

Method: StoreImage writes a store, one thing is broken, and the checker must name file and offset.
The checker shares no code with the store it judges. Not shown here: that every conceivable damage
is found; one bit is flipped in every kind of field.
"""

import os

import pytest
from support.store_image import PER_FILE, QUEUE_ENTRY, SEGMENT, StoreImage, open_store

from cext.testing.store_probe import queues_flush
from rmq.format import store_files
from rmq.format.store_files import (
    QUEUE_ENTRY_BYTES,
    Record,
    Segment,
    next_record,
    scan_segment,
)
from rmq.offline.checker import check_store
from rmq.offline.dump import dump_file


@pytest.fixture
def image(tmp_path):
    return StoreImage(tmp_path).add_many(600)


@pytest.fixture
def whole(image):
    return image.write_log().write_queues().checkpoint_at(600, queue_count=6)


def only_problem(root, **options):
    report = check_store(root, **options)
    assert len(report.problems) == 1, "\n".join(map(str, report.problems))
    return report.problems[0]


def patch(path, at, data):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def entry_place(image, record):
    number, index = divmod(record.queue_offset, PER_FILE)
    directory = image.queue_directory / os.fsdecode(record.topic) / str(record.queue_id)
    return directory / f"{number * PER_FILE * 20:020d}", index * 20


def test_a_sound_store_is_sound(whole):
    report = check_store(whole.root)
    assert report.problems == []
    assert (report.counts["records"], report.counts["queue_entries"], report.counts["queues"]) == (
        600,
        600,
        6,
    )


def test_what_recovery_and_the_queue_store_write_is_sound(image):
    image.write_log()
    log, queues, _report = open_store(image.root)
    queues_flush(queues, 1_000, 1 << 60)
    log.close()
    assert check_store(image.root).problems == []


def test_queues_behind_the_log_are_counted_after_a_crash_and_named_after_a_stop(image):
    image.write_log().write_queues(image.records[:590]).checkpoint_at(590)
    (image.root / "abort").write_text("1")
    report = check_store(image.root)
    assert (report.problems, report.counts["behind"]) == ([], 10)
    report = check_store(image.root, strict=True)
    assert len(report.problems) == 10
    (image.root / "abort").unlink()
    assert len(check_store(image.root).problems) == 10


def test_entries_that_the_checkpoint_vouches_for_must_be_there(image):
    image.write_log().write_queues(image.records[:590]).checkpoint_at(595)
    (image.root / "abort").write_text("1")
    report = check_store(image.root)
    assert (len(report.problems), report.counts["behind"]) == (5, 5)


@pytest.mark.parametrize("at", [2, 5, 8, 13, 30, 36, 60, 84, 90])
def test_a_flipped_bit_in_a_record_is_named(whole, at):
    bad = whole.records[112]
    assert len(bad.data) > 100
    whole.patch_log(bad.offset + at, bytes([bad.data[at] ^ 0x10]))
    report = check_store(whole.root)
    place = (str(whole.segment_path(bad.offset // SEGMENT)), bad.offset % SEGMENT)
    entry = tuple(map(str, entry_place(whole, bad)))
    if at == 60:  # the store time: no checksum covers it, and nothing else repeats it
        assert report.problems == []
        assert report.counts["store_times_going_back"] > 0
    elif at == 13:  # no queue has this id, except in the entry that points here
        assert [(p.file, str(p.offset)) for p in report.problems] == [entry]
        assert report.counts["records_without_queue"] == 1
    else:
        assert (report.problems[0].file, report.problems[0].offset) == place
        assert [(p.file, str(p.offset)) for p in report.problems[1:]] == [entry]


@pytest.mark.parametrize("at, bit", [(0, 0x40), (5, 1), (7, 1), (9, 1), (11, 4), (13, 1), (19, 1)])
def test_a_flipped_bit_in_an_entry_is_named(whole, at, bit):
    bad = whole.records[300]
    path, start = entry_place(whole, bad)
    byte = path.read_bytes()[start + at]
    patch(path, start + at, bytes([byte ^ bit]))
    problems = check_store(whole.root).problems
    assert (problems[0].file, problems[0].offset) == (str(path), start)


def test_an_entry_overwritten_with_zeros_is_named(whole):
    path, start = entry_place(whole, whole.records[200])
    patch(path, start, bytes(20))
    problems = check_store(whole.root).problems
    assert {(p.file, p.offset) for p in problems} == {(str(path), start)}
    assert "zeros before others" in problems[0].what
    assert f"no entry for the record at log offset {whole.records[200].offset}" in problems[1].what


def test_two_swapped_entries_are_named(whole):
    path, _start = entry_place(whole, whole.records[0])
    data = path.read_bytes()
    patch(path, 0, data[20:40] + data[:20])
    problems = check_store(whole.root).problems
    assert {p.offset for p in problems} == {0, 20}


def test_missing_short_and_misnamed_files_are_named(whole):
    whole.segment_path(1).unlink()
    files = sorted((whole.queue_directory / "topic-0" / "0").iterdir())
    patch(files[0], PER_FILE * 20, b"x")
    found = {(p.file, p.what.split(",")[0]) for p in check_store(whole.root).problems}
    assert (str(whole.segment_path(2)), f"no segment at {SEGMENT}") in found
    assert any(file == str(files[1]) and "length" in what for file, what in found)


def test_a_missing_queue_file_in_between_is_named(tmp_path):
    image = StoreImage(tmp_path)
    image.add_many(2000).write_log().write_queues().checkpoint_at(2000)
    files = sorted((image.queue_directory / "topic-1" / "1").iterdir())
    files[2].unlink()
    problems = check_store(image.root).problems
    assert (problems[0].file, problems[0].what) == (str(files[2]), "file is missing")


def test_a_last_record_that_ends_in_zeros_is_one_where_a_queue_of_apaches_names_it(tmp_path):
    """A last record that ends in zeros must count as a record if an entry of an Apache queue points
    to it. The store was stopped cleanly, and its log is elsewhere."""
    image = StoreImage(tmp_path / "store").add_many(600)
    image.add(b"topic-0", 0, b"body", b"A\x01\x00")
    image.write_log().write_queues()
    log = image.log_directory.rename(tmp_path / "log")
    report = check_store(image.root, log)
    assert report.problems == []
    assert report.counts["records"] == 601
    (image.root / "abort").touch()
    assert check_store(image.root, log).counts["records"] == 600


def test_a_lost_end_of_an_earlier_segment_is_damage(whole):
    first = next(r for r in whole.records if r.offset > SEGMENT - 3000)
    whole.patch_log(first.offset, bytes(SEGMENT - first.offset))
    problems = check_store(whole.root).problems
    assert (problems[0].file, problems[0].offset) == (str(whole.segment_path(0)), first.offset)
    assert f"{SEGMENT - first.offset} bytes that are no record" in problems[0].what


def test_zeros_in_the_last_segment_do_not_hide_what_is_behind_them(whole):
    last = [each for each in whole.records if each.offset >= whole.end // SEGMENT * SEGMENT]
    bad = last[5]
    assert len(last) > 10
    whole.patch_log(bad.offset, bytes(len(bad.data)))
    report = check_store(whole.root)
    assert [(p.file, p.offset) for p in report.problems] == [
        (str(whole.segment_path(bad.offset // SEGMENT)), bad.offset % SEGMENT),
        (str(entry_place(whole, bad)[0]), entry_place(whole, bad)[1]),
    ]
    assert report.problems[0].what == f"{len(bad.data)} bytes that are no record: zeros"
    assert report.counts["records"] == 599


def test_what_is_written_between_two_looks_is_no_damage(image, monkeypatch):
    """What a serving broker writes between two looks must not count as damage: the place was empty
    at the first look, and then there is a record behind it."""
    late = image.records[-3:]
    assert late[0].offset // SEGMENT == late[-1].offset // SEGMENT == image.end // SEGMENT
    image.write_log(image.records[:-3])
    look_behind = store_files.next_record

    def next_record(segment, at):
        for each in late:
            image.patch_log(each.offset, each.data)
        return look_behind(segment, at)

    monkeypatch.setattr(store_files, "next_record", next_record)
    segment = Segment(image.segment_path(image.end // SEGMENT))
    *found, end = scan_segment(segment)
    segment.close()
    assert {type(each) for each in found} == {Record}
    assert end.offset == image.end


def test_a_search_for_a_record_leaves_the_byte_behind_the_file_alone(whole):
    """The search for a record must not go beyond the file's end. mmap.find() of Python before
    3.11.5 looks at the byte after its range, which ended the process of `rmq store check` on Debian
    12."""
    ends = []

    class Searched(bytes):
        def find(self, wanted, start, end):
            ends.append(end)
            return super().find(wanted, start, end)

    last = whole.records[-1].offset
    segment = Segment(whole.segment_path(last // SEGMENT))
    data = segment.data[:]
    segment.close()
    segment.data = Searched(data)
    at = last - segment.start
    assert (next_record(segment, at), next_record(segment, at + 1)) == (at, -1)
    assert max(ends) < len(data) == SEGMENT


def test_files_of_no_or_of_few_bytes_are_named(whole):
    file = sorted((whole.queue_directory / "topic-0" / "0").iterdir())[0]
    os.truncate(file, 7)
    first = whole.segment_path(0)
    os.truncate(first, 0)
    found = {(p.file, p.what) for p in check_store(whole.root).problems}
    assert (str(file), f"length 7, others have {PER_FILE * QUEUE_ENTRY_BYTES}") in found
    assert (str(first), f"length 0, not {SEGMENT}") in found


def test_a_log_whose_files_are_all_empty_is_one_without_files(image):
    image.write_log()
    for path in image.log_directory.iterdir():
        os.truncate(path, 0)
    report = check_store(image.root)
    assert report.problems == []
    assert [note.split(":")[0] for note in report.notes[:2]] == ["empty last segment"] * 2


def test_a_torn_end_is_a_note_after_a_crash_and_a_problem_after_a_stop(whole):
    last = whole.records[-1]
    whole.patch_log(last.offset + last.data.__len__(), last.data[:40])
    whole.patch_log(last.offset + len(last.data) + 28, bytes(8))
    assert only_problem(whole.root).offset == (last.offset + len(last.data)) % SEGMENT
    report = check_store(whole.root, strict=False)
    assert report.problems == []
    assert any("torn write" in note for note in report.notes)


def test_a_wrong_blank_is_named(whole):
    at, left = whole.blanks[0]
    whole.patch_log(at, (left - 1).to_bytes(4, "big"))
    assert only_problem(whole.root).offset == at % SEGMENT


def test_a_flipped_bit_in_the_checkpoint_is_named(whole):
    path = whole.root / "checkpoint"
    patch(path, 1024 + 30, b"\x55")
    assert (only_problem(whole.root).file, only_problem(whole.root).offset) == (str(path), 1024)


def test_a_checkpoint_ahead_of_the_log_is_named(image):
    image.write_log(image.records[:500]).write_queues(image.records[:500]).checkpoint_at(600)
    problem = only_problem(image.root)
    assert problem.file.endswith("checkpoint")


def test_a_last_record_that_ends_in_zeros_is_sound_where_the_store_says_that_it_has_it(image):
    """If the store's checkpoint says that it has a last record that ends in zeros, the record must
    be sound: a start keeps it, too, and goes on behind it."""
    last = image.add(b"topic-0", 0, b"body", b"A\x01\x00")
    image.write_log().write_queues().checkpoint_at(601, queue_count=6)
    report = check_store(image.root, strict=True)
    assert (report.problems, report.counts["records"]) == ([], 601)
    rows = list(dump_file(image.segment_path(last.offset // SEGMENT)))
    assert [row["offset"] for row in rows[-2:]] == [last.offset, image.end]
    image.checkpoint_at(600, queue_count=6)
    (image.root / "abort").write_text("1")
    report = check_store(image.root)
    assert (report.problems, report.counts["records"]) == ([], 600)
    rows = list(dump_file(image.segment_path(last.offset // SEGMENT)))
    assert rows[-1]["offset"] == last.offset and "end" in rows[-1]


def test_queues_that_start_with_blanks_and_expired_entries_are_sound(image):
    image.write_log().write_queues()
    image.segment_path(0).unlink()
    log, queues, _report = open_store(image.root)
    queues_flush(queues, 1_000, 1 << 60)
    log.close()
    report = check_store(image.root)
    assert report.problems == []
    assert report.counts["queue_entries_expired"] > 0


def test_a_topic_made_anew_leaves_a_sound_store(tmp_path):
    image = StoreImage(tmp_path)
    for _ in range(70):
        image.add(b"again")
    image.next.clear()
    for _ in range(20):
        image.add(b"again")
    image.write_log()
    log, queues, _report = open_store(image.root)
    queues_flush(queues, 1_000, 1 << 60)
    log.close()
    report = check_store(image.root)
    assert report.problems == []
    assert (report.counts["records_of_older_topic"], report.counts["records"]) == (70, 90)


def test_a_topic_made_anew_may_be_shorter_than_the_older_one(tmp_path):
    image = StoreImage(tmp_path)
    older = [image.add(b"again") for _ in range(30)]
    image.next.clear()
    newer = [image.add(b"again") for _ in range(20)]
    image.write_log().write_queues(newer)
    report = check_store(image.root, strict=True)
    assert (report.problems, report.counts["records_of_older_topic"]) == ([], len(older))
    image.write_queues(newer[:19])  # a missing entry at the end does not belong to an older topic
    assert "again/0 offset 19" in only_problem(image.root, strict=True).what


def test_the_entry_of_the_image_is_the_entry_of_the_checker():
    assert QUEUE_ENTRY.size == QUEUE_ENTRY_BYTES == 20


def test_progress_is_told_from_start_to_end(whole):
    told = []
    check_store(whole.root, progress=lambda *row: told.append(row))
    assert {stage for stage, _, _ in told} == {
        "commit log", "consume queues", "records in queues and index",
    }  # fmt: skip
    assert all(0 <= done <= total for _, done, total in told)
