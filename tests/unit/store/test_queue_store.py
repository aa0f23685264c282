"""Queue store: entries appended, read, handed to the writer, persisted, trimmed, deleted.

Method: the compiled QueueStore with small files (1000 entries) and small pools, compared with a
plain list of what was appended. Files are read back with struct. Cannot prove: how it behaves on a
slow or failing disk beyond what an unwritable directory shows, and in which order a power cut finds
things.
"""

import gc
import os
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.queue_reads import queue_entries
from support.waiting import HANG_S

from cext.base.status import Status
from cext.store.queues.queue_store import QueueStore
from cext.testing.store_probe import (
    checkpoint_values,
    queues_add,
    queues_counters,
    queues_drop,
    queues_entries,
    queues_flush,
    queues_release_memory,
    queues_remove_topic,
    queues_run_turn,
    queues_snapshot,
    queues_wait_for_writer,
)
from rmq.errors import StoreError
from rmq.format.queue_ends import decode_ends

QUEUE_ENTRY = struct.Struct(">qiq")
PER_FILE = 1000
RECORD = 100
NEVER = 1 << 50  # ms, bytes


@pytest.fixture
def root(tmp_path):
    return tmp_path / "consumequeue"


def make(root, pool_chunks=4096, **more):
    return QueueStore(os.fspath(root), entries_per_file=PER_FILE, pool_chunks=pool_chunks, **more)


@contextmanager
def running(store):
    store.start()
    try:
        yield
    finally:
        store.stop()


def records(first, count, start=0, tag=7):
    """Entries of `count` records of RECORD bytes; the first one is record number `first` of the
    log."""
    return [(start + (first + i) * RECORD, RECORD, tag + first + i) for i in range(count)]


def file_entries(root, topic, queue_id):
    """All entries in the files of a queue, zeros included."""
    entries = []
    for path in sorted((root / topic / str(queue_id)).iterdir()):
        data = path.read_bytes()
        assert len(data) == PER_FILE * 20, path
        assert int(path.name) % (PER_FILE * 20) == 0
        entries += list(QUEUE_ENTRY.iter_unpack(data))
    return entries


def read_all(store, topic, queue_id, start, stop):
    found = []
    while start + len(found) < stop:
        got = queue_entries(store, topic, queue_id, start + len(found), 200)
        assert isinstance(got, list) and got, (start + len(found), got)
        found += got
    return found[: stop - start]


def wait_until(store, condition, log_durable=1 << 60):
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, queues_counters(store)
        queues_run_turn(store, int(time.time() * 1000), log_durable)
        queues_wait_for_writer(store, 5)


def test_what_is_appended_is_read_back_from_memory(root):
    store = make(root)
    entries = records(0, 333)
    assert queues_add(store, b"T", 0, entries) == 333
    assert read_all(store, b"T", 0, 0, 333) == entries
    assert queues_entries(store, b"T", 0, 49, 3) == entries[49:52]
    assert queues_entries(store, b"T", 0, 333, 10) == []
    assert queues_entries(store, b"T", 0, -1, 10) == []
    assert not (root / "T").exists()


def test_flush_writes_entries_as_rocketmq_does_into_files_of_exact_length(root):
    store = make(root)
    entries = records(0, 2345)
    queues_add(store, b"T", 3, entries)
    queues_flush(store, 1000, 0)
    written = file_entries(root, "T", 3)
    assert written[:2345] == entries
    assert set(written[2345:]) == {(0, 0, 0)}
    assert sorted(p.name for p in (root / "T" / "3").iterdir()) == [
        f"{n * PER_FILE * 20:020d}" for n in range(3)
    ]


def test_threads_persist_everything_and_the_mark_follows(root):
    store = make(root)
    with running(store):
        everything = {}
        for number in range(50):
            key = (b"T%d" % (number % 5), number // 5)
            entries = records(number * 1000, 500 + number)
            everything[key] = entries
            queues_add(store, *key, entries)
        store.run_interval_ms = 0
        wait_until(store, lambda: store.persisted_log_offset == store.log_end)
        for (topic, queue_id), entries in everything.items():
            assert file_entries(root, topic.decode(), queue_id)[: len(entries)] == entries
        assert queues_counters(store)["write_failures"] == 0
        assert queues_counters(store)["queues_with_files"] == 50


def test_partial_tails_are_handed_over_again_when_they_grow(root):
    store = make(root)
    with running(store):
        store.run_interval_ms = 0
        entries = []
        for step in range(40):
            more = records(len(entries), step + 1)
            queues_add(store, b"T", 0, more)
            entries += more
            wait_until(store, lambda: store.persisted_log_offset == store.log_end)
            assert file_entries(root, "T", 0)[: len(entries)] == entries


def test_reads_below_memory_come_from_the_file(root):
    store = make(root)
    entries = records(0, 2500)
    queues_add(store, b"T", 0, entries)
    queues_flush(store, 1000, 0)
    assert queues_release_memory(store) > 0
    assert queues_counters(store)["chunks_free"] == queues_counters(store)["chunks"]
    # One read goes only to the end of the file.
    assert queue_entries(store, b"T", 0, 990, 100) == entries[990:1000]
    assert read_all(store, b"T", 0, 0, 2500) == entries
    queues_add(store, b"T", 0, records(2500, 10))
    assert read_all(store, b"T", 0, 2490, 2510) == entries[2490:] + records(2500, 10)


@pytest.mark.parametrize(
    "entry",
    [
        (-1, 100, 0),
        (100, 0, 0),
        (100, -5, 0),
        (1 << 50, 100, 0),
        (0, 0, 0),
        (0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF, 0),
    ],
)
def test_an_entry_that_cannot_be_right_is_corrupt_and_never_handed_out(root, entry):
    store = make(root)
    entries = records(0, 200)
    queues_add(store, b"T", 0, entries)
    queues_flush(store, 1000, 0)
    queues_release_memory(store)
    with (root / "T" / "0" / ("0" * 20)).open("r+b") as file:
        file.seek(100 * 20)
        file.write(QUEUE_ENTRY.pack(*entry))
    assert queue_entries(store, b"T", 0, 95, 10) == entries[95:100]
    assert queue_entries(store, b"T", 0, 100, 10) == Status.CORRUPT
    assert queues_counters(store)["corrupt_reads"] == 2


def test_a_small_pool_reuses_persisted_chunks_of_other_queues(root):
    store = make(root, pool_chunks=64)
    entries = {n: [] for n in range(200)}
    log = 0
    for _round in range(12):
        for number in range(200):
            more = records(log, 17)
            log += 17
            entries[number] += more
            queues_add(store, b"T", number, more)
        store.run_interval_ms = 0
        if number % 50 == 0:
            queues_run_turn(store, _round, 0)
    queues_flush(store, 1000, 0)
    queues_add(store, b"U", 0, records(log, 64 * 50))
    counters = queues_counters(store)
    assert counters["chunks_reclaimed"] >= 60
    assert counters["sync_writes"] > 0
    assert counters["write_failures"] == 0
    queues_flush(store, 1000, 0)
    for number in range(200):
        assert file_entries(root, "T", number)[: len(entries[number])] == entries[number]


def test_without_a_disk_a_full_pool_refuses_and_goes_on_when_it_is_back(root):
    store = make(root, pool_chunks=8)
    queues_add(store, b"T", 0, records(0, 10))
    root.rmdir()
    root.write_text("not a directory")
    with pytest.raises(Exception, match=r"IO_ERROR|NO_SPACE"):
        queues_add(store, b"T", 0, records(10, 1000))
    held = queues_snapshot(store, b"T", 0)[1]
    assert held == 8 * 50
    assert queues_counters(store)["write_failures"] > 0
    assert "Not a directory" in store.failure()
    root.unlink()
    queues_add(store, b"T", 0, records(held, 1000))
    queues_flush(store, 1000, 0)
    assert file_entries(root, "T", 0)[: held + 1000] == records(0, held + 1000)
    assert store.failure() == ""


def test_a_failed_write_is_tried_again_and_the_mark_waits_for_it(root):
    store = make(root)
    with running(store):
        store.run_interval_ms = 0
        (root / "T").write_text("in the way")
        queues_add(store, b"T", 0, records(0, 120))
        queues_add(store, b"U", 0, records(120, 120))
        wait_until(store, lambda: queues_counters(store)["write_failures"] >= 3)
        assert store.persisted_log_offset == 0
        assert read_all(store, b"T", 0, 0, 120) == records(0, 120)
        (root / "T").unlink()
        wait_until(store, lambda: store.persisted_log_offset == store.log_end)
        assert file_entries(root, "T", 0)[:120] == records(0, 120)
        assert file_entries(root, "U", 0)[:120] == records(120, 120)


def test_a_write_that_failed_beside_another_job_is_tried_again_too(root):
    store = make(root)
    with running(store):
        store.run_interval_ms = 0
        (root / "T").write_text("in the way")
        queues_add(store, b"T", 0, records(0, 120))
        queues_drop(store, 50 * RECORD)
        # This hands the write and the trim over.
        queues_run_turn(store, int(time.time() * 1000), 1 << 60)
        wait_until(store, lambda: queues_counters(store)["write_failures"] > 0)
        assert store.persisted_log_offset == 0
        (root / "T").unlink()
        wait_until(store, lambda: store.persisted_log_offset == store.log_end)
        assert file_entries(root, "T", 0)[50:120] == records(50, 70)


def test_trims_beside_a_failed_write_do_not_hide_it(root):
    store = make(root)
    with running(store):
        store.run_interval_ms = 0
        (root / "T").write_text("in the way")
        queues_add(store, b"T", 0, records(0, 120))
        for number in range(300):
            queues_drop(store, number // 10 * RECORD)
            queues_run_turn(store, int(time.time() * 1000), 1 << 60)
            queues_wait_for_writer(store, 1)
            assert store.persisted_log_offset == 0
        assert queues_counters(store)["write_failures"] > 1
        (root / "T").unlink()
        wait_until(store, lambda: store.persisted_log_offset == store.log_end)
        assert file_entries(root, "T", 0)[29:120] == records(29, 91)


def test_no_checkpoint_passes_a_write_that_failed(root, tmp_path):
    path = tmp_path / "checkpoint"
    store = make(root, checkpoint_path=os.fspath(path))
    with running(store):
        store.run_interval_ms = store.sync_interval_ms = 0
        queues_add(store, b"T", 0, records(0, 120))
        wait_until(store, lambda: store.persisted_log_offset == 120 * RECORD)
        (root / "U").write_text("in the way")
        queues_add(store, b"T", 0, records(120, 120))
        queues_add(store, b"U", 0, records(240, 1))
        failures = queues_counters(store)["write_failures"]
        wait_until(store, lambda: queues_counters(store)["write_failures"] >= failures + 3)
        with pytest.raises(StoreError):
            queues_flush(store, 2000, 1 << 60, 100)
    values = checkpoint_values(path.read_bytes())
    assert values["persisted_offset"] == 120 * RECORD
    assert values["synced_offset"] <= 120 * RECORD


def test_tens_of_thousands_of_queues_hold_few_descriptors(root):
    store = make(root, pool_chunks=40_000)
    gc.collect()  # collects what earlier tests left
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20_000):
        queues_add(store, b"T%d" % (number % 10), number // 10, records(number, 1))
    assert queues_counters(store)["file_opens"] == 0
    assert len(os.listdir("/proc/self/fd")) <= before
    assert queues_counters(store)["queues"] == 20_000


def test_the_writer_keeps_its_descriptors_below_the_limit(root):
    before = len(os.listdir("/proc/self/fd"))
    store = make(root)
    for number in range(1500):
        queues_add(store, b"T", number, records(number, 1))
    queues_flush(store, 1000, 0)
    assert len(os.listdir("/proc/self/fd")) < before + 1024 + 100
    for number in (0, 700, 1499):
        assert file_entries(root, "T", number)[0] == records(number, 1)[0]


@pytest.mark.parametrize("name", [b"", b"..", b"a/b", b"a\0b", b"a b", b"x" * 256, "主题".encode()])
def test_illegal_names_never_become_a_queue(root, name):
    store = make(root)
    with pytest.raises(ValueError):
        queues_add(store, name, 0, [])
    with pytest.raises(ValueError):
        queues_add(store, b"T", -1, [])
    assert list(root.iterdir()) == []


def test_retry_and_long_names_are_legal(root):
    store = make(root)
    for name in (b"%RETRY%group-1", b"a|b_c-d%", b"x" * 255):
        queues_add(store, name, 0, records(0, 1))
    queues_flush(store, 1000, 0)
    assert sorted(os.listdir(root)) == sorted(["%RETRY%group-1", "a|b_c-d%", "x" * 255])


def test_dropping_the_start_of_the_log_moves_min_and_deletes_files(root):
    store = make(root)
    queues_add(store, b"T", 0, records(0, 3500))
    queues_add(store, b"OLD", 0, records(0, 10))
    queues_flush(store, 1000, 0)
    queues_add(store, b"T", 0, records(3500, 100))
    queues_drop(store, 2200 * RECORD)
    queues_run_turn(store, 2000, 0)
    assert queues_snapshot(store, b"T", 0)[:2] == (2200, 3600)
    assert sorted(int(p.name) // 20 for p in (root / "T" / "0").iterdir()) == [2000, 3000]
    # Nothing of OLD is left, but its last file says which offset comes next.
    assert queues_snapshot(store, b"OLD", 0)[:2] == (10, 10)
    assert len(list((root / "OLD" / "0").iterdir())) == 1
    assert queues_entries(store, b"T", 0, 2199, 10) == []
    queues_drop(store, 3550 * RECORD)
    queues_run_turn(store, 9000, 0)
    assert queues_snapshot(store, b"T", 0)[:2] == (3550, 3600)
    assert queues_entries(store, b"T", 0, 3550, 1) == records(3550, 1)


def test_dropping_works_while_the_writer_runs(root):
    store = make(root)
    with running(store):
        for number in range(300):
            queues_add(store, b"T", number, records(number * 10, 10))
        queues_flush(store, 1000, 1 << 60)
        queues_drop(store, 1505 * RECORD)
        wait_until(
            store,
            lambda: (
                queues_snapshot(store, b"T", 149)[0] == 10
                and queues_snapshot(store, b"T", 150)[0] == 5
            ),
        )
        assert queues_snapshot(store, b"T", 151)[0] == 0


def test_a_deleted_topic_leaves_no_file_and_may_come_back(root):
    store = make(root)
    with running(store):
        for number in range(4):
            queues_add(store, b"T", number, records(number * 10, 10))
        queues_add(store, b"TT", 0, records(40, 10))
        queues_flush(store, 1000, 1 << 60)
        queues_add(store, b"T", 0, records(50, 5))
        assert queues_remove_topic(store, b"T") == 4
        queues_add(store, b"T", 0, records(60, 3))
        queues_flush(store, 2000, 1 << 60)
        wait_until(store, lambda: queues_counters(store)["queues_with_files"] == 2)
        assert file_entries(root, "T", 0)[:4] == [*records(60, 3), (0, 0, 0)]
        assert not (root / "T" / "1").exists()
        assert queues_remove_topic(store, b"T") == 1
        wait_until(store, lambda: not (root / "T").exists())
        assert queues_remove_topic(store, b"NONE") == 0
        assert read_all(store, b"TT", 0, 0, 10) == records(40, 10)
        assert sorted(store.queue_names()) == [(b"TT", 0)]


def test_deleting_in_the_middle_of_a_run_is_harmless(root):
    store = make(root)
    with running(store):
        for number in range(1000):
            queues_add(store, b"T%d" % (number % 2), number // 2, records(number, 1))
        store.run_interval_ms = 0
        queues_run_turn(store, 10_000, 0)  # hands over only the first part of the run
        assert queues_remove_topic(store, b"T1") == 500
        wait_until(store, lambda: store.persisted_log_offset == store.log_end)
        wait_until(store, lambda: not (root / "T1").exists())
        assert len(list((root / "T0").iterdir())) == 500


def test_snapshot_has_the_entries_that_no_file_has(root):
    store = make(root)
    queues_add(store, b"T", 0, records(0, 70))
    queues_flush(store, 1000, 0)
    queues_add(store, b"T", 0, records(70, 60))
    low, high, persisted, entries = queues_snapshot(store, b"T", 0)
    assert (low, high, persisted) == (0, 130, 70)
    assert list(QUEUE_ENTRY.iter_unpack(entries)) == records(70, 60)
    with pytest.raises(KeyError):
        queues_snapshot(store, b"T", 1)


def test_the_checkpoint_carries_the_marks(root, tmp_path):
    path = tmp_path / "checkpoint"
    store = make(root, checkpoint_path=os.fspath(path))
    with running(store):
        queues_add(store, b"T", 0, records(0, 100))
        queues_flush(store, 123_456, 1 << 60)
    page = path.read_bytes()
    assert len(page) == 4096
    values = checkpoint_values(page)
    assert values["own_valid"]
    assert values["persisted_offset"] == 100 * RECORD
    assert values["queue_count"] == 1
    if values["synced_offset"]:  # a second has passed, so there was a sync
        assert values["synced_offset"] == 100 * RECORD
        assert values["physic_ms"] == values["logics_ms"] == 123_456


def test_the_log_must_be_durable_before_the_checkpoint_says_synced(root, tmp_path):
    path = tmp_path / "checkpoint"
    store = make(root, checkpoint_path=os.fspath(path))
    with running(store):
        store.sync_interval_ms = 0
        store.run_interval_ms = 0
        queues_add(store, b"T", 0, records(0, 100))
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            queues_run_turn(store, 50_000, 99 * RECORD)
            queues_wait_for_writer(store, 20)
        assert store.synced_log_offset == 0
        wait_until(store, lambda: store.synced_log_offset == 100 * RECORD, 100 * RECORD)


def test_synced_ends_know_no_record_that_the_log_may_lose(root, tmp_path):
    """The pinned entries belong to records above the barrier: the log must have these records,
    too."""
    store = make(root, checkpoint_path=os.fspath(tmp_path / "checkpoint"))
    with running(store):
        store.run_interval_ms = 0
        store.sync_interval_ms = NEVER
        queues_add(store, b"T", 0, records(0, 100))
        wait_until(store, lambda: store.persisted_log_offset == 100 * RECORD)
        store.run_interval_ms = store.run_log_bytes = NEVER
        queues_add(store, b"T", 0, records(100, 900))  # more than are handed over without a run
        wait_until(store, lambda: queues_counters(store)["entries_persisted"] > 100)
        assert store.persisted_log_offset == 100 * RECORD
        store.sync_interval_ms = 0
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            queues_run_turn(store, 50_000, 999 * RECORD)
            queues_wait_for_writer(store, 20)
        assert store.synced_log_offset == 0
        assert not (tmp_path / "queueEnds.synced").exists()
        wait_until(store, lambda: store.synced_log_offset == 100 * RECORD, 1000 * RECORD)
        queues_wait_for_writer(store, 20)
        wait_until(store, (tmp_path / "queueEnds.synced").exists)
    ends = decode_ends((tmp_path / "queueEnds.synced").read_bytes())
    assert ends.log_offset == 100 * RECORD
    assert ends.queues[b"T", 0].last_physical > 100 * RECORD


def test_a_fuller_model_run_agrees_with_plain_lists(root):
    import random

    choice = random.Random(20261121)
    store = make(root, pool_chunks=300)
    model: dict[tuple[bytes, int], list] = {}
    log = 0
    with running(store):
        store.run_interval_ms = 0
        for step in range(3000):
            key = (b"T%d" % choice.randrange(4), choice.randrange(12))
            what = choice.random()
            if what < 0.6:
                more = records(log, choice.randrange(1, 120))
                log += len(more)
                queues_add(store, *key, more)
                model.setdefault(key, []).extend(more)
            elif what < 0.9 and key in model:
                at = choice.randrange(len(model[key]))
                got = queues_entries(store, *key, at, 32)
                if got != Status.ABSENT:
                    assert got and got == model[key][at : at + len(got)], (step, key, at)
            elif what < 0.99:
                queues_run_turn(store, step, 0)
            else:
                queues_remove_topic(store, key[0])
                model = {k: v for k, v in model.items() if k[0] != key[0]}
        queues_flush(store, 1 << 40, 1 << 60)
    for (topic, queue_id), entries in model.items():
        assert file_entries(root, topic.decode(), queue_id)[: len(entries)] == entries
    assert {Path(root, t.decode(), str(q)).exists() for t, q in model} == {True}


def test_a_store_that_cannot_be_made_closes_nothing_of_others(root):
    with pytest.raises(MemoryError, match="no address space for 1 queue chunks"):
        make(root, pool_chunks=1)
    os.fstat(0)  # still open: a field that was never set would name it


def test_more_queues_than_the_first_lists_hold_are_all_kept_and_persisted(root):
    store = make(root)
    for number in range(1100):
        queues_add(store, b"T%d" % (number % 3), number, records(number, 1))
    assert len(store.queue_names()) == queues_counters(store)["queues"] == 1100
    queues_flush(store, 1000, 0)
    assert queues_counters(store)["queues_with_files"] == 1100
    assert queues_entries(store, b"T1", 1099, 0, 5) == records(1099, 1)
