"""Recovery: the ends of queues are not read from their files alone (rows A, Q9, Q10).

Goal: a queue file that was damaged at its ends loses nothing and gives no offset twice. Method: as
in test_recovery.py, with or without queueEnds (cext/store/queues/queue_ends.pxd), which its Python
twin writes.
"""

import logging
import os
import shutil

import pytest
from support.store_image import (
    PER_FILE,
    QUEUE_ENTRY,
    SEGMENT,
    StoreImage,
    open_store,
    read_entries,
)

from cext.store.log import log_progress
from cext.testing.store_probe import queues_flush, queues_snapshot
from rmq.format.queue_ends import decode_ends

BLANK = 0, 0, 0  # how an entry without a message is read


@pytest.fixture
def image(tmp_path):
    return StoreImage(tmp_path)


def data_of(image, topic, queue_id, number):
    entries = image.expected()[topic, queue_id]
    return b"".join(
        QUEUE_ENTRY.pack(*entries[i]) if i in entries else bytes(20)
        for i in range(number * PER_FILE, (number + 1) * PER_FILE)
    )


def zero(path, start, length):
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(length))


def flip(path, byte, bit):
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def copy_of(image, *_):
    """Garbage: entries of other records, like a page of another file."""
    return b"".join(QUEUE_ENTRY.pack(100 * i, 100, 7) for i in range(7))


DAMAGES = {
    "first page zeroed": lambda path: zero(path, 0, 400),
    "tail zeroed": lambda path: zero(path, 400, PER_FILE * 20 - 400),
    "all zeroed": lambda path: zero(path, 0, PER_FILE * 20),
    "cut": lambda path: os.truncate(path, 410),
    "cut to nothing": lambda path: os.truncate(path, 0),
    "deleted": lambda path: path.unlink(),
    "directory deleted": lambda path: shutil.rmtree(path.parent),
    "first entry flipped": lambda path: flip(path, 3, 0),
    "last entry flipped": lambda path: flip(path, 39 * 20 + 7, 4),
    "size of the last entry flipped": lambda path: flip(path, 39 * 20 + 10, 1),
    "ones": lambda path: path.write_bytes(b"\xff" * PER_FILE * 20),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("source", ["A1", "A1 synced", "A3", "killed"])
def test_q9_a_queue_whose_files_do_not_hold_what_is_known_is_rebuilt(image, damage, source):
    count = 240  # 40 entries in each of six queues
    image.add_many(count).write_log().write_queues()
    image.checkpoint_at(count, queue_count=6)
    if source == "killed":
        image.write_ends(200)
    elif source.startswith("A1"):
        other = {"boot_id": bytes(range(16))} if source == "A1 synced" else {}
        image.write_ends(count, name="queueEnds" + source[2:].replace(" ", "."), **other)
    path = image.queue_directory / "topic-1" / "2" / f"{0:020d}"
    DAMAGES[damage](path)
    _log, queues, report = open_store(image.root, clean=source != "killed")
    image.check(queues)
    # Above the log offset nothing is believed, so nothing can be found damaged there.
    found = not (source == "killed" and "last entry" in damage)
    assert report["queues_rebuilt"] == found or report["row"] == "S3"
    named = [note for note in report["notes"] if os.fspath(path.parent) in note]
    assert bool(named) == found or report["row"] == "S3", report
    queues_flush(queues, 5_000, 0)
    assert path.read_bytes() == data_of(image, b"topic-1", 2, 0)
    _log, queues, report = open_store(image.root, clean=True)
    assert (report["row"], report["queues_rebuilt"]) == ("S4", 0), report
    image.check(queues)


def test_a1_with_queue_ends_of_this_boot_nothing_is_searched_and_nothing_scanned(image):
    image.add_many(600).write_log().write_queues().checkpoint_at(10).write_ends(600)
    _log, queues, report = open_store(image.root, clean=True)
    assert (report["row"], report["records_scanned"], report["notes"]) == ("S4", 0, [])
    image.check(queues)


def test_a1_an_entry_may_know_more_than_its_log_offset(image):
    """The file of ends is written while the queues go on."""
    image.add_many(600).write_log().write_queues()
    later = decode_ends(image.write_ends(600).root.joinpath("queueEnds").read_bytes())
    mixed = {name: entry for name, entry in later.queues.items() if name[1] == 1}
    image.write_ends(400)
    earlier = decode_ends((image.root / "queueEnds").read_bytes())
    image.write_ends(400, queues={**earlier.queues, **mixed})
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["queues_rebuilt"]) == ("S4", 0)
    assert 0 < report["records_dispatched"] < 200
    image.check(queues)


def test_a1_queue_ends_of_another_boot_do_not_count_but_synced_ones_do(image):
    image.add_many(600).write_log().write_queues()
    image.write_ends(600, boot_id=bytes(range(16)))
    image.write_ends(300, name="queueEnds.synced", boot_id=bytes(range(16)))
    _log, queues, report = open_store(image.root)
    assert (report["row"], report["records_dispatched"]) == ("S5", 300)
    image.check(queues)


@pytest.mark.parametrize("bit", range(0, 8 * 40, 37))
def test_a1_damaged_queue_ends_are_not_believed(image, bit):
    image.add_many(600).write_log().write_queues().checkpoint_at(600, queue_count=6)
    image.write_ends(600)
    flip(image.root / "queueEnds", bit // 8, bit % 8)
    _log, queues, report = open_store(image.root, clean=True)
    assert any("queueEnds" in note for note in report["notes"])
    assert report["queues_rebuilt"] == 0
    image.check(queues)


def test_a1_what_another_broker_appended_since_is_dispatched(image):
    """RocketMQ's checkpoint does not mention queueEnds; what RocketMQ wrote lies above the log
    offset."""
    image.add_many(600).write_log().write_queues().write_checkpoint(physic_ms=1, boot_id=bytes(16))
    image.write_ends(500)
    _log, queues, report = open_store(image.root, clean=True)
    assert (report["row"], report["records_dispatched"]) == ("S4", 100)
    image.check(queues)


def test_a1_a_log_that_does_not_reach_so_far_leaves_queue_ends_unbelieved(image):
    image.add_many(600).write_log(image.records[:400]).write_queues().write_ends(600)
    _log, queues, report = open_store(image.root)
    assert any("queueEnds" in note for note in report["notes"])
    image.check(queues, image.records[:400])


def test_entries_behind_the_known_end_are_cut_however_far_they_are(image):
    image.add_many(240).write_log().write_queues().write_ends(240)
    path = image.queue_directory / "topic-0" / "0" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(43 * 20)
        file.write(copy_of(image))
    _log, queues, report = open_store(image.root, clean=True)
    assert report["queues_rebuilt"] == 0
    image.check(queues)
    assert path.read_bytes() == data_of(image, b"topic-0", 0, 0)


def test_a_file_that_is_too_long_gets_its_length_back(image):
    image.add_many(600).write_log().write_queues().write_ends(600)
    path = min((image.queue_directory / "topic-0" / "1").iterdir())
    path.write_bytes(path.read_bytes() + b"garbage")
    _log, queues, report = open_store(image.root, clean=True)
    assert report["queues_rebuilt"] == 0
    assert any(os.fspath(path.parent) in note for note in report["notes"])
    assert path.stat().st_size == PER_FILE * 20
    image.check(queues)


def test_q10_no_offset_is_given_twice_when_a_queues_messages_are_gone(image):
    """Retention has removed all messages of a queue, then its files are lost. 40 offsets were
    given."""
    quiet = [image.add(b"quiet") for _ in range(40)]
    image.add_many(900).write_log().write_queues().write_ends(940)
    for number in range(quiet[-1].offset // SEGMENT + 1):
        image.segment_path(number).unlink()
    log_min = (quiet[-1].offset // SEGMENT + 1) * SEGMENT
    shutil.rmtree(image.queue_directory / "quiet")
    _log, queues, report = open_store(image.root, clean=True)
    assert queues_snapshot(queues, b"quiet", 0)[:2] == (40, 40)
    image.check(queues, [r for r in image.records if r.offset >= log_min])
    queues_flush(queues, 5_000, 0)
    _log, queues, report = open_store(image.root, clean=True)
    assert queues_snapshot(queues, b"quiet", 0)[:2] == (40, 40)
    assert report["row"] == "S4"


def test_q10_no_offset_is_given_twice_when_the_log_lost_its_last_messages(image):
    image.add_many(600).write_log().write_queues().write_ends(600)
    last = [r for r in image.records if (r.topic, r.queue_id) == (b"topic-0", 1)][-1]
    zero(image.segment_path(last.offset // SEGMENT), last.offset % SEGMENT, len(last.data))
    shutil.rmtree(image.queue_directory / "topic-0" / "1")
    _log, queues, report = open_store(image.root, clean=True)
    assert queues_snapshot(queues, b"topic-0", 1)[1] == last.queue_offset + 1
    assert any("Q10" in note for note in report["notes"])


def ends_beyond_the_log(image, reach, name="queueEnds"):
    """A log of `reach` records. Some entries of queueEnds know of records beyond them. Returns the
    end that queueEnds has for each queue."""
    image.add_many(600)
    for _ in range(40):
        image.add(b"late")
    image.write_log(image.records[:reach]).write_queues()
    later = decode_ends(image.write_ends(640).root.joinpath("queueEnds").read_bytes())
    mixed = {each: entry for each, entry in later.queues.items() if each[1] != 1}
    earlier = decode_ends(image.write_ends(200).root.joinpath("queueEnds").read_bytes())
    (image.root / "queueEnds").unlink()
    boot = {} if name == "queueEnds" else {"boot_id": bytes(range(16))}
    image.write_ends(200, name=name, queues={**earlier.queues, **mixed}, **boot)
    return {each: entry.end_offset for each, entry in {**earlier.queues, **mixed}.items()}


def expect_blanks_behind(image, queues, reach, known):
    """Each queue has the entries of the log's records, then blanks, so that no offset is given
    twice."""
    expected = image.expected(image.records[:reach])
    for topic, queue_id in sorted(known):
        there = expected.get((topic, queue_id), {})
        low, high, *_ = queues_snapshot(queues, topic, queue_id)
        assert high == max(known[topic, queue_id], len(there))
        found = read_entries(queues, topic, queue_id, low, high)
        assert low == (0 if there else high)
        assert found == dict.fromkeys(range(low, high), BLANK) | there


@pytest.mark.parametrize("reach", [210, 299, 300, 301, 599])  # a file has 50 entries of a queue
@pytest.mark.parametrize("name", ["queueEnds", "queueEnds.synced"])
def test_q12_no_entries_are_left_of_records_that_the_log_has_lost(image, reach, name):
    """Log and queues are on different disks, and an entry of queueEnds knows more than the log has.
    New records come to the places of the lost ones, and consumers would stand still at such an
    entry."""
    known = ends_beyond_the_log(image, reach, name)
    assert (b"late", 0) in known
    for _ in range(2):  # the second time after the files were written
        log, queues, report = open_store(image.root)
        assert report["row"] in ("S4", "S5")
        last = image.records[reach - 1]
        assert report["log_end"] == last.offset + len(last.data)
        expect_blanks_behind(image, queues, reach, known)
        queues_flush(queues, 5_000, 0)
        del log, queues


@pytest.mark.parametrize(
    ("at", "bytes_"),
    [(35 * 20 + 8, b"\xff"), (36 * 20, (100).to_bytes(8, "big"))],
    ids=["negative size", "the next one lies below the end"],
)
def test_q12_queues_are_made_anew_where_the_entry_to_be_cut_at_is_garbled(image, at, bytes_):
    """The log has 35 entries of each queue. When the damage is seen, the files behind them are gone
    already."""
    known = ends_beyond_the_log(image, 210)
    path = image.queue_directory / "topic-0" / "0" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes_)
    log, queues, report = open_store(image.root)
    expect_blanks_behind(image, queues, 210, known)
    notes = [note for note in report["notes"] if note.startswith(("Q8", "S10"))]
    assert [note.split()[0] for note in notes] == ["Q8", "S10:"]
    assert f"{os.fspath(path)}:{35 * 20}: damaged at offset 35" in notes[0]
    queues_flush(queues, 5_000, 0)
    del log, queues
    _log, queues, _report = open_store(image.root)
    expect_blanks_behind(image, queues, 210, known)


def test_a_topic_made_anew_after_queue_ends_were_written_starts_at_zero(image):
    """Row Q6 counts more than Q10: the broker was killed before queueEnds was written again."""
    for _ in range(70):
        image.add(b"again")
    image.add_many(100).write_ends(170)
    image.next.pop((b"again", 0))
    second = [image.add(b"again") for _ in range(20)]
    image.write_log()
    left = [r for r in image.records if r.topic != b"again" or r in second]
    image.write_queues(left)
    _log, queues, _report = open_store(image.root)
    image.check(queues, left)


def test_a_topic_deleted_after_queue_ends_were_written_does_not_come_back_with_another(image):
    """To make a queue anew the log is read from its start; queues that nobody knows stay
    unknown."""
    for _ in range(10):
        image.add(b"deleted")
    image.add_many(100).write_log()
    left = [r for r in image.records if r.topic != b"deleted"]
    image.write_queues(left).write_ends(110)
    known = decode_ends((image.root / "queueEnds").read_bytes()).queues
    known.pop((b"deleted", 0))
    image.write_ends(110, queues=known)
    shutil.rmtree(image.queue_directory / "topic-0" / "1")
    _log, queues, report = open_store(image.root, clean=True)
    assert report["queues_rebuilt"] == 1
    image.check(queues, left)


def test_min_offsets_that_a_damaged_entry_would_move_are_found_out(image):
    """With a flipped bit in an entry the search for the first record that is kept would skip live
    messages."""
    image.add_many(2000).write_log().write_queues().write_ends(2000)
    for number in range(5):
        image.segment_path(number).unlink()
    left = [r for r in image.records if r.offset >= 5 * SEGMENT]
    path = image.queue_directory / "topic-0" / "0"
    mine = [r for r in left if (r.topic, r.queue_id) == (b"topic-0", 0)]
    first = mine[0].queue_offset
    file = path / f"{first // PER_FILE * PER_FILE * 20:020d}"
    for at in range(first % PER_FILE, min(first % PER_FILE + 20, PER_FILE)):
        data = bytearray(file.read_bytes())
        data[at * 20 : at * 20 + 8] = (at).to_bytes(8, "big")  # an offset below the log's start
        file.write_bytes(data)
        _log, queues, _report = open_store(image.root, clean=True)
        assert queues_snapshot(queues, b"topic-0", 0)[0] == first, at
        queues_flush(queues, 5_000, 0)
        image.write_queues().write_ends(2000)


@pytest.mark.parametrize("way", ["A3", "S2"])
def test_who_waits_for_a_large_log_is_told_how_far_it_is_read(image, monkeypatch, caplog, way):
    monkeypatch.setattr(log_progress, "PROGRESS_S", 0)
    monkeypatch.setattr(log_progress, "PROGRESS_BYTES", 50_000)
    image.add_many(1800).write_log()
    if way == "A3":
        image.write_queues().checkpoint_at(1800, queue_count=6)
    with caplog.at_level(logging.INFO):
        _log, queues, report = open_store(image.root, clean=True)
    lines = [record.message for record in caplog.records]
    assert len(lines) >= image.end // 50_000 - 1 and "MiB, at most" in lines[0], lines
    assert report["queues"] == 6
    image.check(queues)
