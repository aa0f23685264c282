"""Queue entries are read from memory and files, and searched by time. Oracle: a linear search."""

import random
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.fake_core import FakeCore

from rmq.broker.store.queue_reader import QueueReader, record_store_time
from rmq.format.message import Host
from rmq.format.store_files import QUEUE_ENTRY_BYTES

PER_FILE = 10


def reader_of(core: FakeCore, directory: Path) -> QueueReader:
    return QueueReader(core, directory, PER_FILE * QUEUE_ENTRY_BYTES + 7)


def to_files(core: FakeCore, directory: Path, topic: str, upto: int) -> None:
    """Writes entries [0, upto) to files; the core keeps the rest in memory."""
    entries = core.queues[topic.encode(), 0]
    folder = directory / topic / "0"
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, upto, PER_FILE):
        data = b"".join(entries[start : min(start + PER_FILE, upto)])
        path = folder / f"{start * QUEUE_ENTRY_BYTES:020d}"
        path.write_bytes(data.ljust(PER_FILE * QUEUE_ENTRY_BYTES, b"\0"))
    core.memory_from[topic.encode(), 0] = upto


def test_entries_come_from_files_and_memory_alike(tmp_path: Path) -> None:
    core = FakeCore()
    stored = [core.store("t", 0, b"x" * n) for n in range(1, 36)]
    reader = reader_of(core, tmp_path)
    for upto in (0, 1, 10, 25, 35):
        to_files(core, tmp_path, "t", upto)
        view = reader.view("t", 0)
        assert view is not None
        for offset, count in ((0, 35), (8, 4), (24, 3), (34, 9), (35, 1), (20, 0)):
            found = reader.entries(view, offset, count)
            expected = [m.physical_offset for m in stored[offset : offset + count]]
            assert [entry.physical_offset for entry in found] == expected


def test_what_was_never_written_or_is_gone_reads_as_nothing(tmp_path: Path) -> None:
    core = FakeCore()
    for _ in range(30):
        core.store("t", 0)
    to_files(core, tmp_path, "t", 30)
    (tmp_path / "t" / "0" / f"{10 * QUEUE_ENTRY_BYTES:020d}").unlink()
    path = tmp_path / "t" / "0" / f"{20 * QUEUE_ENTRY_BYTES:020d}"
    torn = bytearray(path.read_bytes())
    torn[3 * QUEUE_ENTRY_BYTES : 4 * QUEUE_ENTRY_BYTES] = struct.pack(">qiq", 0, 0, 0)
    path.write_bytes(torn)
    reader = reader_of(core, tmp_path)
    view = reader.view("t", 0)
    assert view is not None
    assert len(reader.entries(view, 0, 30)) == 10
    assert reader.entries(view, 12, 5) == []
    assert len(reader.entries(view, 20, 10)) == 3
    core.queue_minimum[b"t", 0] = 5
    view = reader.view("t", 0)
    assert view is not None
    assert reader.entries(view, 4, 1) == []
    assert reader.view("nowhere", 0) is None
    assert reader.range("nowhere", 0) == (0, 0)


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(-2, 33), st.integers(0, 10))
def test_search_agrees_with_a_walk(times: list[int], wanted: int, minimum: int) -> None:
    times.sort()
    minimum = min(minimum, len(times))
    core = FakeCore()
    for ms in times:
        core.store("t", 0, store_timestamp_ms=ms + 1)  # 0 would mean the present time
    core.queue_minimum[b"t", 0] = minimum
    reader = QueueReader(core, Path("/nowhere"), 6_000_000)
    wanted += 1
    kept = list(enumerate(times))[minimum:]
    lower = next((n for n, ms in kept if ms + 1 >= wanted), len(times))
    upper = max((n for n, ms in kept if ms + 1 <= wanted), default=minimum)
    if not times:
        lower = upper = 0
    assert reader.search("t", 0, wanted) == lower
    assert reader.search("t", 0, wanted, upper=True) == upper


def test_store_time_is_found_behind_both_kinds_of_born_host() -> None:
    core = FakeCore()
    four = core.store("t", 0, store_timestamp_ms=1234)
    six = core.store("t", 0, store_timestamp_ms=5678, sys_flag=0x10, born_host=Host("::1", 1))
    assert record_store_time(core.records[four.physical_offset]) == 1234
    assert record_store_time(core.records[six.physical_offset]) == 5678
    assert record_store_time(b"short") == -1


def test_a_search_of_many_messages_reads_few_records(tmp_path: Path) -> None:
    core = FakeCore()
    random.seed(5)
    for n in range(2000):
        core.store("t", 0, store_timestamp_ms=n + 1)
    reads = []
    plain = core.read_record
    core.read_record = lambda offset: reads.append(offset) or plain(offset)  # type: ignore
    assert reader_of(core, tmp_path).search("t", 0, 1501) == 1500
    assert len(reads) <= 12
