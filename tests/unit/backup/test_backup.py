"""Goal: a backup has what the store had, whatever is wrong with either.

Method: stores made byte by byte, the commands as users call them, files damaged by hand. Not shown
here: what a broker writes meanwhile (tests/process/test_backup.py).
"""

import json
import os
import shutil
import threading
import zlib
from pathlib import Path

import pytest
from support.backups import back_up, copy, image, refused, run, segments
from support.store_copies import copy_store
from support.store_image import SEGMENT, Placed, StoreImage, open_store

from cext.testing.store_probe import queues_snapshot
from rmq.backup.state_copy import read_state
from rmq.backup.verification import verify
from rmq.base.json_file import JsonFile
from rmq.format.queue_ends import QueueEnds, decode_ends

__all__ = ["copy", "image"]


def test_a_backup_restored_is_the_same_log_and_configuration(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    result = back_up(image, copy)
    assert (result["log_end"], result["copied_records"]) == (image.end, 600)
    assert run("backup", "--check", copy).output.endswith("sound\n")
    assert run("restore", "--from", copy, "--store", tmp_path / "new").exit_code == 0
    assert segments(tmp_path / "new") == segments(image.root) == segments(copy)
    for name in ("topics.json", "topics.json.bak"):
        path = Path("config") / name
        found = [(root / path).exists() and (root / path).read_bytes() for root in
                 (image.root, copy, tmp_path / "new")]  # fmt: skip
        assert len(set(found)) == 1
    _, queues, report = open_store(tmp_path / "new", clean=True)
    image.check(queues)
    assert report["damage_count"] == 0 and not report["notes"]


def test_a_second_backup_copies_what_is_new_and_touches_nothing_else(
    image: StoreImage, copy: Path
) -> None:
    back_up(image, copy)
    before = {path: path.stat() for path in sorted((copy / "commitlog").iterdir())}
    end = image.end
    assert back_up(image, copy)["copied_bytes"] == 0
    image.add_many(200).write_log()
    result = back_up(image, copy)
    assert (result["copied_bytes"], result["copied_records"]) == (image.end - end, 200)
    complete = [path for path in before if int(path.name) + SEGMENT <= end]
    assert len(complete) >= 5
    for path in complete:
        assert path.stat().st_mtime_ns == before[path].st_mtime_ns
        assert path.stat().st_ino == before[path].st_ino
    assert segments(copy) == segments(image.root)
    assert sorted(path.name for path in copy.iterdir()) == [
        "commitlog", "config", "rmqBackup.json", "rmqBackup.lock", "state-3"
    ]  # fmt: skip


def test_of_a_record_that_is_being_written_nothing_is_copied(image: StoreImage, copy: Path) -> None:
    whole = image.end
    record = image.add(b"topic-0", 0, b"body", b"KEYS\1key\2")
    for length in sorted({1, 8, 50, 91, 100, *range(101, len(record.data), 3)}):
        image.write_log(image.records[:-1])
        image.patch_log(record.offset, record.data[:length])
        shutil.rmtree(copy, ignore_errors=True)
        assert back_up(image, copy)["log_end"] == whole, length
    image.write_log()
    assert back_up(image, copy)["copied_bytes"] == len(record.data)
    assert segments(copy) == segments(image.root)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_records_that_end_in_zeros_at_the_end_are_sound_and_restored(
    tmp_path: Path, copy: Path, is_stopped: bool
) -> None:
    """A last record that ends in zeros may be torn, unless the store's checkpoint says that the
    store has it. The record before it must be sound, although in the copy only zeros follow it."""
    image = StoreImage(tmp_path / "store").add_many(20)
    for _ in range(2):
        image.add(b"topic-0", 0, b"body", b"A\x01\x00")
    image.write_log()
    if is_stopped:
        image.checkpoint_at(len(image.records))
    kept = image.records if is_stopped else image.records[:-1]
    end = kept[-1].offset + len(kept[-1].data)
    assert back_up(image, copy)["log_end"] == end
    assert verify(copy).problems == []
    assert run("backup", "--check", copy).exit_code == 0
    assert run("restore", "--from", copy, "--store", tmp_path / "new").exit_code == 0
    _, queues, report = open_store(tmp_path / "new", clean=True)
    image.check(queues, kept)
    assert (report["log_end"], report["known_end"]) == (end, end)


def test_what_the_store_deletes_goes_unless_it_is_kept(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    back_up(image, copy)
    back_up(image, kept)
    whole = segments(copy)
    image.segment_path(0).unlink()
    image.segment_path(1).unlink()
    assert back_up(image, copy)["log_begin"] == 2 * SEGMENT
    assert segments(copy) == segments(image.root)
    assert back_up(image, kept, "--keep")["log_begin"] == 0
    assert segments(kept) == whole
    assert run("backup", "--check", kept).exit_code == 0


def test_a_gap_between_what_is_kept_and_the_store_is_refused(image: StoreImage, copy: Path) -> None:
    back_up(image, copy)
    image.add_many(400).write_log()
    for number in range(image.end // SEGMENT):
        image.segment_path(number).unlink()
    before = segments(copy)
    words = ("backup", "--store", image.root, "--to", copy)
    assert "a log has no gaps" in refused(*words, "--keep")
    assert segments(copy) == before
    assert run(*words).exit_code == 0
    assert segments(copy) == segments(image.root)


def test_a_queue_whose_messages_are_deleted_goes_on_where_it_was(
    tmp_path: Path, copy: Path
) -> None:
    image = StoreImage(tmp_path / "store")
    for _ in range(70):
        image.add(b"gone", 1)
    while image.end < 2 * SEGMENT:
        image.add(b"stays", 0, b"x" * 500)
    image.write_log().write_ends(len(image.records))
    image.segment_path(0).unlink()
    back_up(image, copy)
    assert run("restore", "--from", copy, "--store", tmp_path / "new").exit_code == 0
    _, queues, _ = open_store(tmp_path / "new", clean=True)
    assert queues_snapshot(queues, b"gone", 1)[:2] == (70, 70)
    left = [each.queue_offset for each in image.records if each.topic == b"stays" and
            each.offset >= SEGMENT]  # fmt: skip
    assert queues_snapshot(queues, b"stays", 0)[:2] == (left[0], left[-1] + 1)


def test_queues_end_where_rmq_has_noted_it_or_their_files_say_more(
    image: StoreImage,
) -> None:
    state = read_state(image.root)["queueEnds.synced"]
    ends = {queue: entry.end_offset for queue, entry in decode_ends(state).queues.items()}
    assert ends == image.next
    noted = {
        (b"topic-0", 0): QueueEnds(0, 0, 7, 0, 100),
        (b"topic-1", 0): QueueEnds(0, 0, 999, 0, 1),
    }
    image.write_ends(600, queues=noted)
    found = decode_ends(read_state(image.root)["queueEnds.synced"]).queues
    assert found[b"topic-0", 0].end_offset == image.next[b"topic-0", 0]  # the queue has grown since
    assert found[b"topic-1", 0] == QueueEnds(999, -1, 999, -1, 0)


def test_damage_in_the_store_is_copied_named_and_ends_with_1(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    bad = image.records[5]
    image.patch_log(bad.offset + 4, b"\0")
    result = run("backup", "--store", image.root, "--to", copy)
    assert result.exit_code == 1
    assert f"damage in the store: {image.segment_path(0)}:{bad.offset}: " in result.output
    # The damage is reported once: it is in the manifest now.
    assert back_up(image, copy)["copied_bytes"] == 0
    checked = run("backup", "--check", copy)
    assert checked.exit_code == 0 and "were no record in the store" in checked.output
    assert run("restore", "--from", copy, "--store", tmp_path / "new").exit_code == 0
    _, _, report = open_store(tmp_path / "new", clean=True)
    assert report["damage_count"] == 1 and report["records_scanned"] == 599


@pytest.mark.parametrize("number", [0, 5], ids=["first", "sixth"])
def test_zeros_in_the_newest_segment_do_not_hide_what_is_behind_them(
    image: StoreImage, copy: Path, tmp_path: Path, number: int
) -> None:
    """Records behind a page that the disk has lost must be copied, because a start finds them."""
    newest = [each for each in image.records if each.offset >= image.end // SEGMENT * SEGMENT]
    bad = newest[number]
    assert len(newest) > number + 2
    image.patch_log(bad.offset, bytes(len(bad.data)))
    result = run("backup", "--store", image.root, "--to", copy)
    assert result.exit_code == 1
    place = f"{image.segment_path(bad.offset // SEGMENT)}:{bad.offset % SEGMENT}"
    assert f"damage in the store: {place}: {len(bad.data)} bytes" in result.output
    assert back_up(image, copy)["log_end"] == image.end
    assert segments(copy) == segments(image.root)
    assert run("backup", "--check", copy).exit_code == 0
    assert run("restore", "--from", copy, "--store", tmp_path / "new").exit_code == 0
    _, _, report = open_store(tmp_path / "new", clean=True)
    assert (report["damage_count"], report["log_end"]) == (1, image.end)


def test_a_record_that_the_copy_has_and_the_store_has_lost_is_kept(
    image: StoreImage, copy: Path
) -> None:
    back_up(image, copy)
    bad = image.records[-1]
    image.add_many(3).write_log()
    assert image.records[-1].offset // SEGMENT == bad.offset // SEGMENT
    whole = segments(image.root)
    image.patch_log(bad.offset, bytes(len(bad.data)))
    result = run("backup", "--store", image.root, "--to", copy)
    assert result.exit_code == 1
    assert "no record: zeros; the copy has it whole" in result.output
    assert segments(copy) == whole


@pytest.mark.parametrize("at", [4, 90, 100], ids=["magic", "body", "topic or properties"])
def test_damage_in_a_backup_is_named_and_not_restored(
    image: StoreImage, copy: Path, tmp_path: Path, at: int
) -> None:
    back_up(image, copy)
    bad = image.records[300]
    path = copy / "commitlog" / image.segment_path(bad.offset // SEGMENT).name
    with path.open("r+b") as file:
        file.seek(bad.offset % SEGMENT + at)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x11]))
    checked = run("backup", "--check", copy)
    assert checked.exit_code == 1 and str(path) in checked.output
    assert str(path) in refused("restore", "--from", copy, "--store", tmp_path / "new")
    assert {each.name for each in (tmp_path / "new").iterdir()} <= {"lock"}


@pytest.mark.parametrize("what", ["shorter", "missing", "config", "manifest"])
def test_a_backup_that_lacks_something_is_not_restored(
    image: StoreImage, copy: Path, tmp_path: Path, what: str
) -> None:
    back_up(image, copy)
    path = copy / "commitlog" / image.segment_path(2).name
    if what == "shorter":
        os.truncate(path, SEGMENT - 1)
    elif what == "missing":
        path.unlink()
    elif what == "config":
        path = copy / "state-1" / "config" / "topics.json"
        path.write_bytes(path.read_bytes().replace(b"topic-0", b"topic-1"))
    else:
        path = copy / "rmqBackup.json"
        path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":2'))
    assert str(path) in refused("restore", "--from", copy, "--store", tmp_path / "new")
    if what != "manifest":
        result = run("backup", "--check", copy)
        assert result.exit_code == 1 and str(path) in result.output
    if what in ("shorter", "missing", "manifest"):
        assert str(path) in refused("backup", "--store", image.root, "--to", copy)


@pytest.mark.parametrize("path", ["../../etc/passwd", "config/../x", "/etc/passwd", "lock"])
def test_no_name_of_a_manifest_leads_out_of_the_backup(
    image: StoreImage, copy: Path, tmp_path: Path, path: str
) -> None:
    back_up(image, copy)
    text = json.loads((copy / "rmqBackup.json").read_bytes())["manifest"]
    text["stores"][0]["files"][0]["path"] = path
    inner = json.dumps(text)
    (copy / "rmqBackup.json").write_text(
        f'{{"crc32":"{zlib.crc32(inner.encode()):08x}","manifest":{inner}}}'
    )
    assert "is no file of a state" in refused(
        "restore", "--from", copy, "--store", tmp_path / "new"
    )


def test_another_log_is_refused_and_the_backup_left_as_it_is(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    back_up(image, copy)
    before = segments(copy)
    words = ("backup", "--store", image.root, "--to", copy)
    image.write_log(image.records[:590])
    assert "ends before log offset" in refused(*words)
    image.write_log(image.records[:10])
    for number in range(1, image.end // SEGMENT + 1):
        image.segment_path(number).unlink()
    assert "ends before log offset" in refused(*words)
    other = StoreImage(tmp_path / "store", first_ms=2_000_000).add_many(700)
    other.write_log()
    assert "has another record at" in refused(*words)
    assert segments(copy) == before
    assert run("backup", "--check", copy).exit_code == 0


def gone_on(image: StoreImage, first: Placed) -> StoreImage:
    """The store with other, longer records from this one on."""
    other = StoreImage(image.root).add_many(image.records.index(first))
    assert other.end == first.offset
    while other.end // SEGMENT < image.end // SEGMENT or other.end % SEGMENT < SEGMENT // 2:
        other.add(b"topic-0", 0, b"other" * 600)
    return other.write_log()


def test_what_a_start_throws_away_ends_no_segment(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    """After a power cut that took the end of a segment and the first page of the next one, the
    backup must end where a start does. A start does not reach what lies behind, and goes on writing
    in the first of the two segments."""
    last = [each for each in image.records if each.offset < 3 * SEGMENT][-1]
    image.patch_log(last.offset, bytes(3 * SEGMENT - last.offset))
    image.patch_log(3 * SEGMENT, bytes(4096))
    copy_store(image.log_directory, tmp_path / "started" / "commitlog")
    assert open_store(tmp_path / "started")[2]["log_end"] == last.offset
    assert back_up(image, copy)["log_end"] == last.offset
    other = gone_on(image, last)
    assert back_up(image, copy)["log_end"] == other.end
    assert segments(copy) == segments(image.root)
    assert run("backup", "--check", copy).exit_code == 0


def test_a_segment_without_a_record_is_passed_as_by_a_start(image: StoreImage, copy: Path) -> None:
    image.segment_path(3).write_bytes(bytes(SEGMENT))
    result = run("backup", "--store", image.root, "--to", copy)
    assert result.exit_code == 1
    assert f"damage in the store: {image.segment_path(3)}:0: {SEGMENT} bytes" in result.output
    assert back_up(image, copy)["log_end"] == image.end
    assert segments(copy) == segments(image.root)


def test_other_records_across_the_last_one_of_the_copy_are_another_log(
    image: StoreImage, copy: Path
) -> None:
    back_up(image, copy)
    before = segments(copy)
    gone_on(image, [each for each in image.records if each.offset < 4 * SEGMENT][-20])
    text = refused("backup", "--store", image.root, "--to", copy)
    assert "has another record at" in text
    assert segments(copy) == before


def test_directories_that_are_not_what_they_should_be_end_with_2(
    image: StoreImage, copy: Path, tmp_path: Path
) -> None:
    def text(*words: object) -> str:
        result = run(*words)
        assert getattr(result.exception, "__class__", None).__name__ in (
            "ConfigError",
            "SystemExit",
        )
        return f"{result.output}{result.exception}"

    assert "not a store" in text("backup", "--store", tmp_path / "no", "--to", copy)
    assert "in one another" in text("backup", "--store", image.root, "--to", image.root / "copy")
    assert "in one another" in text("backup", "--store", image.root, "--to", image.root)
    assert "give --to" in text("backup", "--store", image.root)
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter.txt").write_text("dear")
    assert "neither empty nor a backup" in text("backup", "--store", image.root, "--to", full)
    assert "no backup" in text("backup", "--check", full)
    assert "no backup" in text("restore", "--from", full, "--store", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    back_up(image, copy)
    assert "is not empty (letter.txt)" in text("restore", "--from", copy, "--store", full)
    (copy / "lock").write_text("lock")
    assert "has been used as a store" in text("backup", "--store", image.root, "--to", copy)


def test_shards_are_backed_up_together(image: StoreImage, copy: Path, tmp_path: Path) -> None:
    shard = StoreImage(image.root / "shard-1").add_many(300)
    shard.write_log()
    JsonFile(shard.root / "config" / "topics.json").save({"topicConfigTable": {"topic-1": {}}})
    back_up(image, copy)
    assert run("restore", "--from", copy, "--store", tmp_path / "new").exit_code == 0
    for path in (".", "shard-1"):
        assert segments(tmp_path / "new" / path) == segments(image.root / path)
        config = Path(path, "config", "topics.json")
        assert (tmp_path / "new" / config).read_bytes() == (image.root / config).read_bytes()


def test_files_and_journals_are_of_one_moment(tmp_path: Path) -> None:
    """The saved JSON file and journal must belong together. The writer replaces one after the
    other: JSON number n belongs to the journal with number n."""
    config = tmp_path / "config"
    config.mkdir()
    over = threading.Event()
    number = 0

    def put(name: str, text: str) -> None:
        (config / f"{name}.tmp").write_text(text)
        (config / f"{name}.tmp").replace(config / name)

    def write() -> None:
        nonlocal number
        while not over.is_set():
            number += 1
            put("topics.json", f"{number} ")
            put("rmqMetadata.journal", f"{number} ")
            with (config / "rmqMetadata.journal").open("a") as file:
                file.write("more ")
            over.wait(0.002)

    put("topics.json", "0 ")
    put("rmqMetadata.journal", "0 ")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        pairs = []
        # They are replaced so often that many readings must be repeated.
        while number < 300 or len(pairs) <= 10:
            pairs.append(read_state(tmp_path))
    finally:
        over.set()
        writer.join()
    for state in pairs:
        json_number = int(state["config/topics.json"].split()[0])
        journal_number = int(state["config/rmqMetadata.journal"].split()[0])
        # Between two replacements the JSON is one ahead, as a crash may leave it, but never behind.
        assert json_number - journal_number in (0, 1)
