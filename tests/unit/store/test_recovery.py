"""Recovery: one test for each row of the tables in recovery.pxd and log_scan.pxd.

Goal: whatever is on the disk, the log ends behind its last good record, and the queues have exactly
the entries of the log's records. Method: StoreImage writes the state that a crash leaves, byte by
byte; recover() runs; every entry is read back. Segments (16 KiB) and files (50 entries) are small.
Cannot prove: what a real power cut leaves behind; stale and missing pages stand for it.
"""

import os
import random
import shutil
import time

import pytest
from support.queue_reads import queue_entries
from support.store_image import PER_FILE, QUEUE_ENTRY, SEGMENT, StoreImage, open_store

from cext.testing.record_probe import tags_hash
from cext.testing.store_probe import (
    checkpoint_values,
    log_append,
    log_write_out,
    queues_add,
    queues_flush,
    queues_snapshot,
)
from rmq.format.message import java_hash


@pytest.fixture
def image(tmp_path):
    return StoreImage(tmp_path)


def end_of(record):
    return record.offset + len(record.data)


# ---- where dispatch starts --------


def test_s1_an_empty_directory_is_a_new_store(image):
    _log, queues, report = open_store(image.root, clean=True)
    assert (report["row"], report["log_end"], report["records_scanned"]) == ("S1", 0, 0)
    assert queues.queue_names() == []


def test_s1_queue_files_without_a_log_are_removed(image):
    image.add_many(50).write_queues()
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["log_end"]) == ("S1", 0)
    assert os.listdir(image.queue_directory) == []
    assert all(queues_snapshot(queues, *name)[1] == 0 for name in queues.queue_names())


@pytest.mark.parametrize("clean", [False, True])
def test_s2_a_deleted_queue_directory_is_rebuilt_from_the_log(image, clean):
    image.add_many(600).write_log().checkpoint_at(600, queue_count=6)
    _log, queues, report = open_store(image.root, clean)
    assert (report["row"], report["records_dispatched"]) == ("S2", 600)
    image.check(queues)


def test_s3_one_deleted_queue_is_rebuilt_and_the_others_are_left_alone(image):
    image.add_many(600).write_log().write_queues().checkpoint_at(580, queue_count=6)
    shutil.rmtree(image.queue_directory / "topic-1" / "2")
    kept = image.queue_directory / "topic-0" / "0" / f"{0:020d}"
    before = kept.stat().st_mtime_ns
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S3"
    assert report["records_dispatched"] < 600
    assert kept.stat().st_mtime_ns == before
    image.check(queues)


def test_s4_after_kill_only_what_the_files_lack_is_dispatched(image):
    image.add_many(600).write_log().write_queues(image.records[:590]).checkpoint_at(580)
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["records_dispatched"]) == ("S4", 20)
    assert report["records_scanned"] == 20
    assert report["entries_cut"] == 10
    assert report["log_end"] == end_of(image.records[-1])
    assert report["last_store_ms"] == image.records[-1].store_ms
    image.check(queues)


@pytest.mark.parametrize("clean", [False, True])
def test_s4_a_clean_stop_or_a_missing_abort_file_scans_nothing(image, clean):
    image.add_many(600).write_log().write_queues().checkpoint_at(600, queue_count=6)
    _log, queues, report = open_store(image.root, clean)
    assert (report["row"], report["records_scanned"]) == ("S4", 0)
    assert report["log_end"] == end_of(image.records[-1])
    image.check(queues)


def test_s5_after_a_power_cut_only_synced_entries_are_believed(image):
    image.add_many(600).write_log().write_queues()
    image.checkpoint_at(590, synced=300, boot_id=b"another boot id!")
    # Two pages of a queue file that were written after the sync: one is lost, one is older.
    path = image.queue_directory / "topic-0" / "0" / f"{PER_FILE * 20:020d}"
    data = bytearray(path.read_bytes())
    data[5 * 20 : 9 * 20] = bytes(80)
    data[12 * 20 : 13 * 20] = QUEUE_ENTRY.pack(77, 1, 1)
    path.write_bytes(data)
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["records_dispatched"]) == ("S5", 300)
    image.check(queues)
    queues_flush(queues, 5_000, 0)
    assert path.read_bytes() == data_of(image, b"topic-0", 0, 1)


def data_of(image, topic, queue_id, number):
    entries = image.expected()[topic, queue_id]
    return b"".join(
        QUEUE_ENTRY.pack(*entries[i]) if i in entries else bytes(20)
        for i in range(number * PER_FILE, (number + 1) * PER_FILE)
    )


def test_s6_a_store_apache_stopped_cleanly_is_taken_as_it_is(image):
    image.add_many(600).write_log().write_queues()
    image.write_checkpoint(boot_id=bytes(16))
    own = (image.root / "checkpoint").read_bytes()
    (image.root / "checkpoint").write_bytes(own[:1024].ljust(4096, b"\0"))
    _log, queues, report = open_store(image.root, clean=True)
    assert (report["row"], report["records_dispatched"]) == ("S6", 0)
    assert report["scan_from"] == end_of(image.records[-1]) // SEGMENT * SEGMENT
    image.check(queues)


def test_s6_queues_behind_the_log_get_what_they_lack(image):
    image.add_many(600).write_log().write_queues(image.records[:550])
    _log, queues, report = open_store(image.root, clean=True)
    assert (report["row"], report["records_dispatched"]) == ("S6", 50)
    image.check(queues)


def test_s7_a_store_apache_left_when_killed_starts_at_an_old_enough_segment(image):
    image.add_many(600).write_log().write_queues(image.records[:400])
    image.write_checkpoint(
        physic_ms=image.records[420].store_ms + 3_000, logics_ms=image.records[300].store_ms + 3_000
    )
    page = (image.root / "checkpoint").read_bytes()
    (image.root / "checkpoint").write_bytes(page[:1024].ljust(4096, b"\0"))
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S7"
    assert report["dispatch_from"] == image.records[300].offset // SEGMENT * SEGMENT
    assert report["dispatch_from"] > 0
    image.check(queues)


@pytest.mark.parametrize(
    "page", [None, b"", b"\xff" * 4096, bytes(4096), b"junk", random.Random(7).randbytes(4096)]
)
def test_s8_a_missing_or_garbled_checkpoint_means_all_of_the_log(image, page):
    image.add_many(600).write_log().write_queues(image.records[:500])
    if page is not None:
        (image.root / "checkpoint").write_bytes(page)
    _log, queues, report = open_store(image.root)
    # S10: a time in the future starts too late; the gap that shows then has everything rebuilt.
    assert report["row"] in ("S7", "S8", "S10")
    if report["row"] == "S8":
        assert report["records_dispatched"] == 600
    image.check(queues)


def test_s8_a_checkpoint_of_the_future_vouches_for_nothing(image):
    """Even for a queue without a record in the newest segment, whose gap would not be seen."""
    image.add_many(300)
    forgotten = [image.add(b"quiet") for _ in range(3)]
    image.add_many(600).write_log()
    image.write_queues([record for record in image.records if record not in forgotten])
    future_ms = int(time.time() * 1000) + 30 * 86_400_000
    image.write_checkpoint(physic_ms=future_ms, logics_ms=future_ms)
    page = (image.root / "checkpoint").read_bytes()
    (image.root / "checkpoint").write_bytes(page[:1024].ljust(4096, b"\0"))
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S8"
    image.check(queues)


def test_an_entry_that_names_a_record_of_another_queue_does_not_take_its_own_with_it(image):
    """The record that the entry stood for lies before the start, so it would not be dispatched
    again."""
    own = [image.add(b"quiet", 0) for _ in range(3)]
    image.add_many(100)
    start = len(image.records)
    other = [image.add(b"quiet", 1) for _ in range(3)]
    image.add_many(20).write_log().write_queues().checkpoint_at(start)
    entry = QUEUE_ENTRY.pack(other[2].offset, len(other[2].data), other[2].tags_code)
    with (image.queue_directory / "quiet" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(own[2].queue_offset * QUEUE_ENTRY.size)
        file.write(entry)
    _log, queues, _report = open_store(image.root)
    image.check(queues)


@pytest.mark.parametrize("at", range(1024, 1024 + 76, 5))
def test_a_flipped_bit_in_the_own_part_makes_it_unbelieved(image, at):
    image.add_many(100).write_log().write_queues(image.records[:90]).checkpoint_at(80)
    page = bytearray((image.root / "checkpoint").read_bytes())
    page[at] ^= 0x10
    (image.root / "checkpoint").write_bytes(page)
    _log, queues, report = open_store(image.root)
    assert report["row"] in ("S7", "S8")
    image.check(queues)


def test_the_own_part_is_not_believed_after_another_broker_wrote(image):
    image.add_many(100).write_log().write_queues(image.records[:90]).checkpoint_at(100)
    page = bytearray((image.root / "checkpoint").read_bytes())
    page[7] ^= 1
    (image.root / "checkpoint").write_bytes(page)
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S8"
    image.check(queues)


def test_s9_a_log_shorter_than_the_checkpoint_says(image):
    image.add_many(600).write_log(image.records[:400]).write_queues().checkpoint_at(600)
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S9"
    assert report["log_end"] == end_of(image.records[399])
    assert report["known_end"] == end_of(image.records[599])
    image.check(queues, image.records[:400])
    # It stays so until the reader of this report removes the file: the checkpoint now has the
    # shorter end.
    assert open_store(image.root)[2]["known_end"] == end_of(image.records[599])
    (image.root / "rmqKnownEnd").unlink()
    assert open_store(image.root)[2]["known_end"] <= report["log_end"]


def test_s9_an_offset_inside_a_record(image):
    image.add_many(600).write_log().write_queues()
    image.checkpoint_at(600, persisted_offset=image.records[500].offset + 10, synced_offset=0)
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S9"
    image.check(queues)


def test_s9_an_entry_that_lies_far_beyond_the_log(image):
    image.add_many(300).write_log().write_queues()
    path = next((image.queue_directory / "topic-0" / "0").iterdir())
    with path.open("r+b") as file:
        file.seek(PER_FILE * 20 - 20)
        file.write(QUEUE_ENTRY.pack(1 << 40, 100, 0))
    _log, queues, report = open_store(image.root, clean=True)
    assert report["row"] == "S9"
    image.check(queues)


def test_queue_files_older_than_the_checkpoint_are_made_anew(image):
    image.add_many(600).write_log().write_queues(image.records[:300]).checkpoint_at(590)
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["records_dispatched"]) == ("S4", 600)
    assert report["queues_rebuilt"] == 6
    image.check(queues)
    queues_flush(queues, 5_000, 0)
    image.check(queues)


@pytest.mark.parametrize("table", [False, True])
def test_s10_a_record_beyond_the_end_of_its_queue_has_everything_made_anew(image, table):
    """Nothing is damaged, but a queue lacks entries below a record, so other queues may lack some,
    too."""
    image.add_many(300)
    image.add(b"topic-0", 0, queue_offset=image.next[b"topic-0", 0] + 3)
    image.add_many(20).write_log().write_queues(image.records[:300]).checkpoint_at(300)
    if table:
        image.write_ends(300)
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["records_dispatched"], report["gaps"]) == ("S10", 321, 1)
    low, high, _persisted, _entries = queues_snapshot(queues, b"topic-0", 0)
    assert (low, high) == (0, image.next[b"topic-0", 0])
    assert len(image.expected()[b"topic-0", 0]) == high - 3


# ---- single queues --------


def test_q1_entries_beyond_the_log_are_cut(image):
    image.add_many(600).write_log(image.records[:550]).write_queues().checkpoint_at(540)
    _log, queues, report = open_store(image.root)
    assert report["log_end"] == end_of(image.records[549])
    image.check(queues, image.records[:550])
    queues_flush(queues, 5_000, 0)
    for record in image.records[550:]:
        path = (
            image.queue_directory
            / os.fsdecode(record.topic)
            / str(record.queue_id)
            / f"{record.queue_offset // PER_FILE * PER_FILE * 20:020d}"
        )
        if path.exists():
            at = record.queue_offset % PER_FILE * 20
            assert path.read_bytes()[at : at + 20] == bytes(20)


@pytest.mark.parametrize("length", [0, 1, 20, 70, 999])
def test_q3_q4_an_empty_or_short_last_file_is_mended(image, length):
    image.add_many(600).write_log().write_queues().checkpoint_at(600, queue_count=6)
    path = max((image.queue_directory / "topic-0" / "1").iterdir())
    number = int(path.name) // 20
    entries = number + min(length // 20, 100 - number)
    data = path.read_bytes()
    path.write_bytes(data[:length])
    keep = [
        r
        for r in image.records
        if (r.topic, r.queue_id) != (b"topic-0", 1) or r.queue_offset < entries
    ]
    lost = min((r.offset for r in image.records if r not in keep), default=image.end)
    count = sum(r.offset < lost for r in image.records)
    image.checkpoint_at(count, queue_count=6)
    _log, queues, report = open_store(image.root)
    assert any("Q3/Q4" in note for note in report["notes"])
    image.check(queues)
    queues_flush(queues, 5_000, 0)
    assert {p.stat().st_size for p in path.parent.iterdir()} == {PER_FILE * 20}


@pytest.mark.parametrize("damage", ["missing", "long", "short first", "first gone", "last gone"])
def test_q5_files_missing_or_too_long_are_rebuilt_for_this_queue_only(image, damage):
    image.add_many(2000).write_log().write_queues().checkpoint_at(1990, queue_count=6)
    files = sorted((image.queue_directory / "topic-0" / "1").iterdir())
    assert len(files) > 3
    if damage == "missing":
        files[2].unlink()
    elif damage == "long":
        files[-1].write_bytes(files[-1].read_bytes() + b"x")
    elif "gone" in damage:  # it is listed in its folder, but cannot be opened
        file = files[0 if "first" in damage else -1]
        file.unlink()
        file.symlink_to("nowhere")
    else:
        files[0].write_bytes(files[0].read_bytes()[:-1])
    _log, queues, report = open_store(image.root)
    assert report["queues_rebuilt"] == 1
    assert report["records_dispatched"] < 400
    assert any("Q5" in note and "topic-0/1" in note for note in report["notes"])
    image.check(queues)


def test_q6_a_topic_made_anew_starts_again(image):
    for _ in range(70):
        image.add(b"again")
    image.add_many(100)
    image.next.pop((b"again", 0))
    second = [image.add(b"again") for _ in range(20)]
    image.write_log()
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S2"
    image.check(queues, [r for r in image.records if r.topic != b"again" or r in second])
    queues_flush(queues, 5_000, 0)
    image.check(queues, [r for r in image.records if r.topic != b"again" or r in second])


def test_q7_strange_names_are_left_alone_and_named(image):
    image.add_many(60).write_log().write_queues().checkpoint_at(60)
    (image.queue_directory / "a.b").mkdir()
    (image.queue_directory / "topic-0" / "x").mkdir()
    (image.queue_directory / "topic-0" / "007").mkdir()
    (image.queue_directory / "topic-0" / "0" / "note.txt").write_text("hello")
    (image.queue_directory / "file").write_text("hello")
    _log, queues, report = open_store(image.root)
    assert len([n for n in report["notes"] if n.startswith("not a")]) == 4
    assert (image.queue_directory / "a.b").exists()
    image.check(queues)


def test_a_queue_whose_older_records_are_gone_starts_with_blanks(image):
    image.add_many(600).write_log()
    image.segment_path(0).unlink()
    image.segment_path(1).unlink()
    left = [r for r in image.records if r.offset >= 2 * SEGMENT]
    _log, queues, report = open_store(image.root)
    assert report["log_min"] == 2 * SEGMENT
    image.check(queues, left)
    queues_flush(queues, 5_000, 0)
    for (topic, queue_id), entries in image.expected(left).items():
        first = min(entries)
        path = (
            image.queue_directory
            / os.fsdecode(topic)
            / str(queue_id)
            / f"{first // PER_FILE * PER_FILE * 20:020d}"
        )
        got = list(QUEUE_ENTRY.iter_unpack(path.read_bytes()))
        assert got[: first % PER_FILE] == [(0, 0x7FFFFFFF, 0)] * (first % PER_FILE)
        assert got[first % PER_FILE] == entries[first]
    again = open_store(image.root)
    image.check(again[1], left)


def test_min_offsets_follow_the_log_and_old_files_go(image):
    image.add_many(2000).write_log().write_queues().checkpoint_at(2000)
    for number in range(5):
        image.segment_path(number).unlink()
    left = [r for r in image.records if r.offset >= 5 * SEGMENT]
    _log, queues, report = open_store(image.root)
    assert report["row"] == "S4"
    image.check(queues, left)
    for (topic, queue_id), entries in image.expected(left).items():
        names = sorted(os.listdir(image.queue_directory / os.fsdecode(topic) / str(queue_id)))
        assert int(names[0]) // 20 == min(entries) // PER_FILE * PER_FILE


def test_a_queue_without_living_messages_keeps_its_next_offset(image):
    for _ in range(30):
        image.add(b"old")
    image.add_many(900).write_log().write_queues().checkpoint_at(930)
    image.segment_path(0).unlink()
    _log, queues, _report = open_store(image.root)
    assert queues_snapshot(queues, b"old", 0)[:2] == (30, 30)


def test_prepared_and_rolled_back_records_are_not_queued(image):
    image.add_many(20)
    image.add(b"tx", sys_flag=0x4)
    image.add(b"tx", sys_flag=0xC)
    image.add(b"tx", sys_flag=0x8)
    image.write_log()
    _log, queues, report = open_store(image.root)
    assert report["records_dispatched"] == 21
    assert queues_snapshot(queues, b"tx", 0)[:2] == (0, 1)


def test_tag_codes_and_deliver_times_are_made_as_the_broker_makes_them(image):
    image.add(b"T", properties=b"KEYS\x01k\x02TAGS\x01TagA\x02", tags_code=java_hash("TagA"))
    image.add(b"T", properties="TAGS\x01标签😀".encode(), tags_code=java_hash("标签😀"))
    image.add(b"T", properties=b"TAGS\x01\x02")
    image.add(b"T", properties=b"TAGS\x01x\x02TAGS\x01y\x02TAGS\x01\x02", tags_code=java_hash("y"))
    image.add(b"T", properties=b"XTAGS\x01TagA\x02A\x01TAGS\x02")
    image.add(
        b"SCHEDULE_TOPIC_XXXX",
        2,
        properties=b"DELAY\x013\x02TAGS\x01x\x02",
        tags_code=image.now + 10_000,
    )
    image.add(
        b"SCHEDULE_TOPIC_XXXX", 17, properties=b"DELAY\x0199\x02", tags_code=image.now + 7_200_000
    )
    image.add(b"T", properties=b"DELAY\x013\x02")
    image.write_log()
    _log, queues, _report = open_store(image.root)
    image.check(queues)


@pytest.mark.parametrize(
    "text", ["", "a", "TagA", "ü", "标签", "😀😀", "a" * 300, "\u07ff\u0800\uffff"]
)
def test_the_hash_is_that_of_the_python_twin(text):
    assert tags_hash(text.encode()) == java_hash(text)


# ---- where the log ends --------


def test_e4_a_write_torn_at_every_byte_of_the_last_record(tmp_path):
    image = StoreImage(tmp_path / "whole")
    image.add_many(10)
    last = image.add(
        b"topic-0", 0, b"the last body", b"TAGS\x01a\x02UNIQ_KEY\x01k\x02", tags_code=java_hash("a")
    )
    for cut in range(len(last.data)):
        image.root = tmp_path / str(cut)
        image.root.mkdir()
        image.write_log().write_queues(image.records[:-1]).checkpoint_at(8)
        image.patch_log(last.offset + cut, bytes(len(last.data) - cut))
        _log, queues, report = open_store(image.root)
        assert report["row"] == "S4"
        assert report["damage_count"] == 0
        assert report["log_end"] == last.offset, cut
        image.check(queues, image.records[:-1])
        shutil.rmtree(image.root)


def test_e4_a_torn_record_on_stale_bytes_is_cut_and_cannot_come_back(image):
    image.add_many(150).write_log().write_queues(image.records[:100]).checkpoint_at(90)
    torn = image.records[120]
    image.patch_log(torn.offset, os.urandom(60))
    # An earlier use of the file left records that are gone from the log.
    for record in image.records[121:]:
        image.patch_log(record.offset + 28, (record.offset + 7).to_bytes(8, "big"))
    log, queues, report = open_store(image.root)
    assert report["log_end"] == torn.offset
    assert report["damage_count"] == 0
    image.check(queues, image.records[:120])
    log.close()
    rest = image.segment_path(torn.offset // SEGMENT).read_bytes()[torn.offset % SEGMENT :]
    assert rest == bytes(len(rest))


def test_e2_e3_the_end_may_be_a_segment_boundary(image):
    image.add_many(400)
    last = max(i for i, r in enumerate(image.records) if end_of(r) <= image.blanks[0][0])
    image.write_log(image.records[: last + 1])
    _log, queues, report = open_store(image.root)
    assert report["log_end"] == end_of(image.records[last])
    image.patch_log(image.blanks[0][0], image.blanks[0][1].to_bytes(4, "big") + b"\xcb\xd4\x31\x94")
    _log, queues, report = open_store(image.root)
    assert report["log_end"] == SEGMENT
    image.check(queues, image.records[: last + 1])


@pytest.mark.parametrize("where", ["head", "body", "zeros"])
def test_e5_damage_with_good_records_behind_it_is_skipped_and_named(image, where):
    image.add_many(600)
    bad = image.records[112]  # 111 % 37 == 0, so record 111 has no body
    assert bad.offset // SEGMENT == image.records[113].offset // SEGMENT
    image.write_log()
    if where == "head":
        image.patch_log(bad.offset + 2, b"\xff")
    elif where == "body":
        image.patch_log(bad.offset + 90, bytes([bad.data[90] ^ 0x40]))
    else:
        image.patch_log(bad.offset, bytes(len(bad.data)))
    _log, queues, report = open_store(image.root)
    assert report["damage_count"] == 1
    damage = report["damages"][0]
    assert (damage["log_offset"], damage["length"]) == (bad.offset, len(bad.data))
    assert damage["file"].endswith(f"{bad.offset // SEGMENT * SEGMENT:020d}")
    assert damage["offset"] == bad.offset % SEGMENT
    assert report["log_end"] == end_of(image.records[-1])
    entries = {**image.expected([r for r in image.records if r is not bad])}
    low, high, _, _ = queues_snapshot(queues, bad.topic, bad.queue_id)
    assert (low, high) == (0, len(entries[bad.topic, bad.queue_id]) + 1)
    assert queue_entries(queues, bad.topic, bad.queue_id, bad.queue_offset, 2) == [
        (0, 0, 0),
        entries[bad.topic, bad.queue_id][bad.queue_offset + 1],
    ]


def test_e5_zeros_in_the_newest_segment_do_not_hide_what_is_behind_them(image):
    """The disk has lost a page, and no later segment shows that the log goes on."""
    image.add_many(100).write_log()
    bad = image.records[50]
    assert image.records[-1].offset < SEGMENT
    image.patch_log(bad.offset, bytes(len(bad.data)))
    _log, _queues, report = open_store(image.root)
    assert [(each["log_offset"], each["length"]) for each in report["damages"]] == [
        (bad.offset, len(bad.data))
    ]
    assert report["log_end"] == end_of(image.records[-1])


def test_e5_a_segment_that_lost_its_end_does_not_hide_the_next_one(image):
    image.add_many(600).write_log()
    first = next(r for r in image.records if r.offset > SEGMENT - 3000)
    image.patch_log(first.offset, bytes(SEGMENT - first.offset))
    _log, _queues, report = open_store(image.root)
    assert report["damage_count"] == 1
    assert report["damages"][0]["length"] == SEGMENT - first.offset
    assert report["log_end"] == end_of(image.records[-1])


def test_e6_damage_behind_a_record_that_ends_in_zeros_does_not_end_the_log(image):
    """A property may end in such a zero. The flipped bit is in the record after it."""
    whole = image.add_many(20).add(b"topic-0", 0, b"body", b"A\x01\x00")
    bad = image.add(b"topic-0", 0, b"a body")
    image.add_many(20).write_log()
    image.patch_log(bad.offset + 2, b"\xff")
    _log, queues, report = open_store(image.root)
    assert [(each["log_offset"], each["length"]) for each in report["damages"]] == [
        (bad.offset, len(bad.data))
    ]
    assert report["log_end"] == end_of(image.records[-1])
    entry = queue_entries(queues, whole.topic, whole.queue_id, whole.queue_offset, 1)
    assert entry == [(whole.offset, len(whole.data), 0)]


def test_e6_a_damaged_blank_behind_a_record_that_ends_in_zeros_does_not_end_the_log(image):
    while len(image.blanks) < 2:
        image.add(b"topic-0", 0, b"x" * 500, b"A\x01\x00")
    at, left = image.blanks[0]
    image.add(b"topic-0", 0, b"last")
    image.write_log()
    image.patch_log(at + 5, b"\xff")
    _log, _queues, report = open_store(image.root)
    assert [(each["log_offset"], each["length"]) for each in report["damages"]] == [(at, left)]
    assert report["log_end"] == end_of(image.records[-1])


def test_e5_a_lost_page_takes_the_record_whose_end_is_in_it(image):
    torn = image.add_many(20).add(b"topic-0", 0, b"body", b"A\x01" + b"a" * 40)
    lost = image.add(b"topic-0", 0, b"a body")
    image.add_many(20).write_log()
    image.patch_log(end_of(torn) - 30, bytes(30 + len(lost.data)))
    _log, _queues, report = open_store(image.root)
    assert [(each["log_offset"], each["length"]) for each in report["damages"]] == [
        (torn.offset, len(torn.data) + len(lost.data))
    ]
    assert report["log_end"] == end_of(image.records[-1])


def test_e7_a_last_record_that_ends_in_zeros_is_one_where_the_store_says_that_it_has_it(image):
    """Besides the log, which is read from its start, only the checkpoint is left."""
    last = image.add_many(20).add(b"topic-0", 0, b"body", b"A\x01\x00")
    image.write_log().checkpoint_at(21)
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["log_end"]) == ("S2", end_of(last))
    image.check(queues)


@pytest.mark.parametrize(
    ("case", "row"), [("apache alone", "S6"), ("rmq before", "S4"), ("killed", ""), ("body", "")]
)
def test_e7_apaches_last_record_that_ends_in_zeros_is_one_by_its_queue(image, case, row):
    """Apache's broker was the last to write the store: after a clean stop its queues name every
    record."""
    last = image.add_many(20).add(b"topic-0", 0, b"body", b"A\x01\x00")
    image.write_log().write_queues()
    if case == "rmq before":
        image.write_ends(15)
    if case == "body":
        image.patch_log(last.offset + 88, b"X")
    _log, queues, report = open_store(image.root, clean=case != "killed")
    assert report["log_end"] == (end_of(last) if row else last.offset)
    if row:
        assert report["row"] == row
        image.check(queues)


# ---- afterwards --------


def test_recovery_twice_finds_the_same_and_writes_a_checkpoint_at_once(image):
    image.add_many(600).write_log().write_queues(image.records[:590]).checkpoint_at(580)
    log, queues, first = open_store(image.root)
    log.close()
    values = checkpoint_values((image.root / "checkpoint").read_bytes())
    assert values["own_valid"]
    assert values["persisted_offset"] == end_of(image.records[579])
    _log, again, second = open_store(image.root)
    assert second["row"] == "S4"
    assert second["log_end"] == first["log_end"]
    image.check(queues)
    image.check(again)


def test_after_a_flush_the_next_start_scans_nothing(image):
    image.add_many(600).write_log()
    log, queues, _report = open_store(image.root)
    queues_flush(queues, 9_000, 1 << 60)
    log.close()
    _log, again, report = open_store(image.root, clean=True)
    assert (report["row"], report["records_scanned"]) == ("S4", 0)
    image.check(again)


def test_new_records_continue_the_queues(image):
    image.add_many(60).write_log().write_queues(image.records[:50]).checkpoint_at(40)
    log, queues, report = open_store(image.root)
    more = image.add(b"topic-0", 0, b"new")
    assert log_append(log, more.data) == more.offset == report["log_end"]
    assert log_write_out(log) == 0
    queues_add(queues, more.topic, more.queue_id, [(more.offset, len(more.data), 0)])
    image.check(queues)
    log.close()
    _log, again, report = open_store(image.root)
    assert report["log_end"] == end_of(more)
    image.check(again)


def test_a_large_rebuild_fits_a_small_pool(image):
    image.add_many(3000, topics=3, queues=40).write_log()
    _log, queues, report = open_store(image.root, pool_chunks=50)
    assert report["records_dispatched"] == 3000
    image.check(queues)


# ---- flipped bits


@pytest.mark.parametrize("boot", ["same boot", "other boot"])
def test_q8_no_flipped_bit_of_an_entry_moves_a_queues_end_or_leads_elsewhere(tmp_path, boot):
    image = StoreImage(tmp_path)
    for number in range(PER_FILE + 40):
        image.add(b"T", 0, b"%d" % number * 5)
    image.write_log()
    expected = image.expected()[b"T", 0]
    other = {"boot_id": bytes(range(16))} if boot == "other boot" else {}
    for entry in (0, 49, 60, PER_FILE + 39):
        if entry == PER_FILE + 39 and boot == "other boot":
            continue  # after a power cut entries beyond the log's end are usual, and are cut off
        for bit in range(12 * 8):  # offset and size in the log; the tag code decides about no end
            image.write_queues().checkpoint_at(len(image.records), queue_count=1, **other)
            path = image.queue_directory / "T" / "0" / f"{entry // PER_FILE * PER_FILE * 20:020d}"
            data = bytearray(path.read_bytes())
            data[entry % PER_FILE * 20 + bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            log, queues, report = open_store(tmp_path)
            low, high, _persisted, _entries = queues_snapshot(queues, b"T", 0)
            assert (low, high) == (0, len(expected)), (entry, bit, report)
            wrong = {}
            for offset in range(low, high):
                found = queue_entries(queues, b"T", 0, offset, 1)
                if found != [expected[offset]]:
                    wrong[offset] = found
            assert wrong.keys() <= {entry}, (entry, bit, wrong)
            log.close()
