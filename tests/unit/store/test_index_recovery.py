"""Goal: after any end of the process and any damage to its files, the key index finds every message
that the log has, and no other.

Method: each row of cext/store/index/index_store.pxd as a test; a worker process behind the fault
shim is killed at chosen writes to the index; bits of files are flipped.
Cannot prove: which pages a real disk keeps over a power cut (zeros stand for lost pages).
"""

import errno
import json
import random
import shutil
import tempfile

import pytest
from support.faults import fault_shim, faults  # noqa: F401 (fixtures)
from support.keyed_log import ENTRIES, SLOTS, Keyed, KeyedLog
from support.rmq_process import start_worker
from support.waiting import HANG_S

from cext.testing.store_probe import indexer_counters
from rmq.format.index_file import ENTRY, HEAD, build, read_header

ENTRIES_AT = HEAD.size + SLOTS * 4


@pytest.fixture
def keyed(tmp_path):
    with KeyedLog(tmp_path) as keyed:
        yield keyed


def run_once(keyed, **options):
    """Indexes everything that is there; returns the row and the counters."""
    indexer = keyed.index(**options)
    indexer.start()
    keyed.check(indexer)
    counters = indexer_counters(indexer)
    indexer.stop()
    return indexer.row(), counters


def is_as_if_built_at_once(keyed):
    """The files are the same as those of the twin, which is given everything at once."""
    puts, before = keyed.puts(), None
    for path in keyed.files():
        data = path.read_bytes()
        count = read_header(data).next_entry - 1
        assert (
            data[: ENTRIES_AT + (count + 1) * ENTRY.size]
            == (
                build(puts[:count], SLOTS, ENTRIES, before)[: ENTRIES_AT + (count + 1) * ENTRY.size]
            )
        )
        puts, before = puts[count:], read_header(data)
    assert not puts


def change(path, at, data):
    with path.open("r+b") as f:
        f.seek(at)
        f.write(data)


def test_i1_without_files_the_whole_log_is_indexed(keyed):
    keyed.add_many(250)
    assert run_once(keyed)[0] == "I1"
    shutil.rmtree(keyed.index_directory)
    assert run_once(keyed)[0] == "I1"
    is_as_if_built_at_once(keyed)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    "damage", ["shorter", "longer", "count", "slots", "times", "offsets", "begin"]
)
def test_i2_a_file_that_cannot_be_goes_with_all_younger_ones(keyed, which, damage):
    keyed.add_many(250)
    run_once(keyed)
    path = keyed.files()[which]
    if damage in ("shorter", "longer"):
        with path.open("r+b") as f:
            f.truncate(path.stat().st_size + (1 if damage == "longer" else -1))
    else:
        at, value = {
            "count": (36, (ENTRIES + 1).to_bytes(4, "big")), "slots": (32, b"\xff" * 4),
            "times": (0, b"\x7f" * 8), "offsets": (16, b"\x7f" * 8), "begin": (16, b"\xff" * 8),
        }[damage]  # fmt: skip
        change(path, at, value)
    row, counters = run_once(keyed)
    assert (row, counters["files_removed"]) == ("I2", 3 - which)
    is_as_if_built_at_once(keyed)


@pytest.mark.parametrize("which", [0, 1])
def test_i2_a_file_before_which_keys_are_missing_goes_too(keyed, which):
    """Apache RocketMQ leaves this behind: after a kill it indexes only as far back as it
    recovers."""
    keyed.add_many(250)
    run_once(keyed)
    keyed.files()[which].unlink()
    row, counters = run_once(keyed)
    assert (row, counters["files_removed"]) == ("I2", 2 - which)
    is_as_if_built_at_once(keyed)


def test_other_settings_make_the_index_anew(keyed):
    keyed.add_many(250)
    run_once(keyed)
    row, counters = run_once(keyed, entries=2000)
    assert (row, counters["files_removed"], counters["files"]) == ("I2", 3, 1)


def test_i3_indexing_goes_on_behind_the_newest_record(keyed):
    for count in (1, 98, 1, 60, 3):
        keyed.add_many(count)
        _, counters = run_once(keyed)
        assert counters["entries"] == 4 * count
    is_as_if_built_at_once(keyed)


def test_i3_a_stop_without_a_record_changes_nothing(keyed):
    keyed.add_many(50)
    run_once(keyed)
    before = keyed.files()[0].read_bytes()
    row, counters = run_once(keyed)
    assert (row, counters["entries"]) == ("I3", 0)
    assert keyed.files()[0].read_bytes() == before


def test_i3_full_last_file(keyed):
    keyed.add_many(99)
    keyed.add(b"t", keys="one two three")
    run_once(keyed)
    (path,) = keyed.files()
    assert read_header(path.read_bytes()).next_entry == ENTRIES
    keyed.add_many(1)
    assert run_once(keyed)[0] == "I3"
    assert len(keyed.files()) == 2
    is_as_if_built_at_once(keyed)


def test_i4_slots_that_were_going_out_are_linked_anew(keyed):
    keyed.add_many(150)
    run_once(keyed)
    path = keyed.files()[1]
    change(path, 8, (2**63 - 1).to_bytes(8, "big"))
    change(path, HEAD.size, random.Random(1).randbytes(SLOTS * 2))
    row, counters = run_once(keyed)
    assert (row, counters["files_relinked"], counters["files_removed"]) == ("I4", 1, 0)
    is_as_if_built_at_once(keyed)


def test_i4_a_slot_that_points_behind_the_count(keyed):
    keyed.add_many(150)
    run_once(keyed)
    path = keyed.files()[1]
    count = read_header(path.read_bytes()).next_entry
    change(path, HEAD.size + 77 * 4, count.to_bytes(4, "big"))
    assert run_once(keyed)[0] == "I4"
    is_as_if_built_at_once(keyed)


@pytest.mark.parametrize("index_ms", [0, 2**62])
def test_i5_untrusted_files_are_linked_anew(keyed, index_ms):
    keyed.add_many(150)
    run_once(keyed)
    row, counters = run_once(keyed, trusted=False, index_ms=index_ms)
    assert row in ("I5", "I6")
    assert counters["files_relinked"] == 1
    assert counters["files_removed"] == (1 if index_ms == 0 else 0)
    is_as_if_built_at_once(keyed)


@pytest.mark.parametrize("lost", ["entries", "slots", "header", "all"])
def test_i6_pages_that_a_power_cut_took(keyed, lost):
    keyed.add_many(150)
    run_once(keyed)
    path = keyed.files()[1]
    size = path.stat().st_size
    start, end = {
        "entries": (ENTRIES_AT + 50 * ENTRY.size, ENTRIES_AT + 130 * ENTRY.size),
        "slots": (HEAD.size, ENTRIES_AT), "header": (0, HEAD.size), "all": (0, size),
    }[lost]  # fmt: skip
    change(path, start, bytes(end - start))
    run_once(keyed, trusted=False, index_ms=keyed.records[100].store_ms)
    is_as_if_built_at_once(keyed)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("kept", [0, 1, 50, 99, 100, 149])
def test_i6_what_is_beyond_the_logs_end_is_cut(keyed, kept, trusted):
    keyed.add_many(150)
    run_once(keyed)
    keyed.log.close()
    end = keyed.records[kept].offset
    again = KeyedLog(keyed.root, end, keyed.records[:kept])
    again.now = keyed.now
    with again:
        again.add(b"t", keys="n3 replaced", body=b"y" * 77)
        again.add_many(20)
        # At the start `end` was the end of the log.
        indexer = again.index(trusted=trusted, index_ms=2**62, log_end=end)
        indexer.start()
        again.check(indexer)
        indexer.stop()
        is_as_if_built_at_once(again)


def test_a_log_shorter_than_its_first_index_file_begins_anew(keyed):
    keyed.add_many(150)
    run_once(keyed)
    keyed.log.close()
    shutil.rmtree(keyed.root / "commitlog")
    with KeyedLog(keyed.root) as again:
        again.add_many(30)
        indexer = again.index(log_end=0)
        indexer.start()
        again.check(indexer)
        indexer.stop()
        is_as_if_built_at_once(again)


def test_flipped_bits_never_give_a_wrong_answer(keyed):
    keyed.add_many(150)
    run_once(keyed)
    pristine = [(path, path.read_bytes()) for path in keyed.files()]
    numbers = random.Random(11)
    for round_number in range(60):
        for path, data in pristine:
            used = ENTRIES_AT + read_header(data).next_entry * ENTRY.size
            damaged = bytearray(data)
            for _ in range(numbers.choice((1, 5, 50))):
                damaged[numbers.randrange(used)] ^= 1 << numbers.randrange(8)
            path.write_bytes(damaged)
        indexer = keyed.index(trusted=round_number % 2 == 0)
        indexer.start()
        keyed.check(indexer, subset=True)
        indexer.stop()
        for path in keyed.files():
            path.unlink()


def test_damage_of_the_log_is_skipped_and_the_rest_is_indexed(keyed):
    keyed.add_many(900)
    hurt = keyed.records[100]
    start = keyed.root / "commitlog" / f"{0:020d}"
    with start.open("r+b") as f:
        f.seek(hurt.offset)
        f.write(b"\xda" * 50)
    del keyed.records[100]
    _, counters = run_once(keyed)
    assert 0 < counters["log_bytes_skipped"] < 1000


def test_a_disk_that_fails_is_tried_again(keyed, monkeypatch):
    """A directory instead of the next file stands for a disk that refuses the file."""
    keyed.add_many(90)
    indexer = keyed.index(idle_max_ms=10)
    indexer.start()
    keyed.check(indexer)
    keyed.index_directory.rename(keyed.root / "away")
    keyed.add_many(30)
    found = keyed.ask(indexer, b"t", "n1")
    assert found == keyed.expected(b"t", "n1")
    assert keyed.ask(indexer, b"t", f"n{len(keyed.records) - 2}") == []
    counters = indexer_counters(indexer)
    assert counters["failures"] > 0
    assert counters["last_errno"] == errno.ENOENT
    (keyed.root / "away").rename(keyed.index_directory)
    while indexer_counters(indexer)["indexed"] < keyed.end:
        keyed.ask(indexer, b"t", "n1")
    keyed.check(indexer)
    indexer.stop()
    is_as_if_built_at_once(keyed)


class Worker:
    def __init__(self, root, count, first, end, faults):  # noqa: F811
        with tempfile.TemporaryFile("w+") as log:
            process = start_worker(
                "support.index_worker", root, count, first, end,
                environment=faults.environment(), stderr=log,
            )  # fmt: skip
            with process.stdin, process.stdout:
                lines = [json.loads(line) for line in process.stdout]
            self.code = process.wait(HANG_S)
            log.seek(0)
            self.said = log.read()
        self.records = [Keyed(line[0].encode(), *line[1:-1]) for line in lines]
        self.end = lines[-1][-1] if lines else end


@pytest.mark.parametrize("trusted", [True, False])
def test_killed_at_any_write_it_comes_up_whole(tmp_path, faults, trusted):  # noqa: F811
    """An index lives several times, and is killed at another write each time; the last life is
    checked."""
    numbers = random.Random(7 + trusted)
    records, end, kills = [], 0, 0
    for _ in range(14):
        faults.clear()
        first = numbers.choice((1, 2, 3, 5, 9, 20, 60, 200))
        if numbers.random() < 0.5:
            faults.kill("pwrite", path="/index/", first=first)
        else:
            faults.kill_after_part(numbers.choice((1, 21, 39, 4095)), path="/index/", first=first)
        worker = Worker(tmp_path, 60, len(records), end, faults)
        assert worker.code in (0, -9), worker.said
        kills += worker.code == -9
        records += worker.records
        end = worker.end
        with KeyedLog(tmp_path, end, records) as keyed:
            keyed.now = records[-1].store_ms if records else keyed.now
            indexer = keyed.index(trusted=trusted, index_ms=0)
            indexer.start()
            keyed.check(indexer)
            indexer.stop()
            is_as_if_built_at_once(keyed)
    assert kills > 5


def test_a_full_disk_costs_no_key(tmp_path, faults):  # noqa: F811
    faults.fail("pwrite", errno.ENOSPC, path="/index/", first=5, count=3)
    worker = Worker(tmp_path, 80, 0, 0, faults)
    assert worker.code == 0, worker.said
    assert faults.hits(0) > 0
    with KeyedLog(tmp_path, worker.end, worker.records) as keyed:
        run_once(keyed)
        is_as_if_built_at_once(keyed)
