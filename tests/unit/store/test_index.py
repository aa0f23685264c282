"""Goal: the key index is byte for byte RocketMQ's, finds what was sent, and nothing else.

Method: small logs, small index files; the bytes are compared with those of the pure-Python twin.
Kills, damage and recovery are in test_index_recovery.py.
"""

import os
import random
import struct
import time

import pytest
from support.keyed_log import ENTRIES, FOREVER, SLOTS, KeyedLog
from support.logs import SEGMENT_BYTES
from support.shard import readable
from support.waiting import HANG_S, wait_until

from cext.store.index.indexer import Indexer
from cext.store.log.flusher import Flusher
from cext.testing.record_probe import index_hash, record_encode, record_has_key
from cext.testing.store_probe import (
    indexer_counters,
    indexer_lose,
    indexer_query,
    log_append,
    log_drop_first_segment,
    log_watermarks,
    log_write_out,
)
from rmq.errors import StoreError
from rmq.format.index_file import build, file_bytes, hashes_of, key_hash, read_header


@pytest.fixture
def keyed(tmp_path):
    with KeyedLog(tmp_path) as keyed:
        yield keyed


def java_hash_by_units(text):
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def test_hashes_are_javas_over_utf_16():
    texts = [
        "",
        "a",
        "t#a",
        "topic#7F0000010001ABCDEF",
        "t#schlüssel",
        "主题#键",
        "t#😀x",
        "x" * 999,
    ]
    numbers = random.Random(5)
    alphabet = "abcXYZ019#_-äß€中😀\u07ff\u0800\uffff"
    texts += ["".join(numbers.choices(alphabet, k=numbers.randrange(40))) for _ in range(500)]
    # Characters are hashed sixteen at a time, up to a character of more bytes, wherever it stands.
    texts += ["0123456789ABCDEF~"[:at] * 3 + "é" + "zyxwvutsrqponmlkji" for at in range(18)]
    texts += ["7F0000010A2B5D30946E" + "~" * length for length in range(40)]
    for text in texts:
        assert index_hash(text.encode()) == abs(java_hash_by_units(text))
    assert key_hash("t", "a") == index_hash(b"t#a") == 112658


def test_the_hash_without_a_positive_counterpart_is_0():
    # "polygenelubricants" is known to hash to Integer.MIN_VALUE.
    assert java_hash_by_units("polygenelubricants") == -(2**31)
    assert index_hash(b"polygenelubricants") == 0


def test_malformed_utf_8_is_hashed_within_its_bytes():
    for text in (b"\xff", b"a\xc3", b"\xe4\xb8", b"\xf0\x9f\x98", b"\x80\x80abcd"):
        assert 0 <= index_hash(text) < 2**31


@pytest.mark.parametrize(
    ("properties", "kind", "key", "hit"),
    [
        (b"KEYS\1a bb  c\2", 0, b"bb", True),
        (b"KEYS\1a bb  c\2", 0, b"b", False),
        (b"KEYS\1a bb  c\2", 0, b"a bb", False),
        (b"KEYS\1a bb  c\2", 0, b"", False),
        (b"UNIQ_KEY\1U1\2KEYS\1a\2", 0, b"U1", True),
        (b"UNIQ_KEY\1U1\2KEYS\1a\2", 0, b"a", True),
        (b"UNIQ_KEY\1U1", 0, b"U1", True),
        (b"XNIQ_KEY\1U1\2XEYS\1U1\2", 0, b"U1", False),
        (b"TAGS\1x\2KEYS\1k\2", 1, b"x", True),
        (b"TAGS\1x\2KEYS\1k\2", 1, b"k", False),
        (b"TAGS\1x\2KEYS\1k\2", 0, b"x", False),
        (b"KEYS\1old\2KEYS\1new\2", 0, b"new", True),
        (b"KEYS\1old\2KEYS\1new\2", 0, b"old", False),
        (b"", 0, b"", False),
    ],
)
def test_a_record_has_the_keys_of_its_properties(properties, kind, key, hit):
    record = record_encode(topic=b"t", body=b"b", properties=properties)
    assert record_has_key(record, kind, b"t", key) is hit
    assert record_has_key(record, kind, b"u", key) is False


def test_a_rolled_back_record_has_no_keys():
    record = record_encode(topic=b"t", body=b"b", properties=b"KEYS\1a\2", sys_flag=0xC)
    assert record_has_key(record, 0, b"t", b"a") is False
    assert hashes_of("t", {"KEYS": "a"}, rolled_back=True) == []


def test_the_file_has_the_bytes_of_the_twin(keyed):
    keyed.add_many(90, pass_ms=1234)
    keyed.add(b"t")  # no keys at all
    keyed.add(b"t", keys="gone", sys_flag=0xC)
    keyed.add(b"%RETRY%g", unique="schlüssel", keys=" a  😀 ", tags="标签")
    indexer = keyed.index()
    indexer.start()
    keyed.check(indexer)
    indexer.stop()
    (path,) = keyed.files()
    assert path.read_bytes() == build(keyed.puts(), SLOTS, ENTRIES)
    assert len(path.name) == 17
    assert abs(time.mktime(time.strptime(path.name[:14], "%Y%m%d%H%M%S")) - time.time()) < 100


def test_a_full_file_is_followed_by_one_that_goes_on_where_it_ends(keyed):
    keyed.add_many(400)
    indexer = keyed.index()
    indexer.start()
    keyed.check(indexer)
    indexer.stop()
    files = keyed.files()
    assert len(files) == 5
    puts, before = keyed.puts(), None
    for path in files:
        data = path.read_bytes()
        count = read_header(data).next_entry - 1
        assert data == build(puts[:count], SLOTS, ENTRIES, before)
        # No record is split over two files: with four keys each, 396 of the 399 places are used.
        assert path == files[-1] or count == 396
        puts, before = puts[count:], read_header(data)
    assert not puts


def test_a_record_with_more_keys_than_a_file_is_spread_over_files(keyed):
    keyed.add(b"t", unique="first")
    keyed.add(b"t", keys=" ".join(f"{n:x}" for n in range(1500)))
    keyed.add(b"t", unique="last")
    indexer = keyed.index()
    indexer.start()
    keyed.check(indexer)
    indexer.stop()
    assert len(keyed.files()) == 5


def test_more_keys_than_are_gathered_at_once_are_all_found(keyed):
    keyed.add(b"t", keys=" ".join("abcdefgh"[n % 8] for n in range(7000)), tags="x")
    indexer = keyed.index(entries=10_000)
    indexer.start()
    keyed.check(indexer)
    assert indexer_counters(indexer)["entries"] == 7001
    indexer.stop()


def test_a_message_is_found_as_soon_as_it_is_written(keyed):
    indexer = keyed.index()
    indexer.start()
    for n in range(50):
        record = keyed.add(b"t", unique=f"U{n}")
        assert keyed.ask(indexer, b"t", f"U{n}") == [record.offset]
    indexer.stop()


def test_newest_come_first_and_not_more_than_asked_for(keyed):
    offsets = [keyed.add(b"t", keys="k").offset for _ in range(30)]
    indexer = keyed.index()
    indexer.start()
    assert keyed.ask(indexer, b"t", "k", limit=7) == offsets[:-8:-1]
    assert keyed.ask(indexer, b"t", "k", limit=0) == offsets[:-2:-1]
    assert indexer_query(indexer, b"t", b"k", 0, 64, 0, FOREVER)[1:] == (keyed.now, offsets[-1])
    indexer.stop()


def test_both_ends_of_the_time_range_belong_to_it(keyed):
    keyed.add_many(300, pass_ms=337)
    indexer = keyed.index()
    indexer.start()
    times = [record.store_ms for record in keyed.records if "k3" in record.keys]
    for begin, end in ((times[3], times[9]), (times[3] + 1, times[9] - 1), (0, times[0]),
                       (times[-1], FOREVER), (times[-1] + 1, FOREVER), (0, times[0] - 1),
                       (times[9], times[3]), (-FOREVER, FOREVER)):  # fmt: skip
        found = keyed.ask(indexer, b"t", "k3", begin=begin, end=end)
        assert found == keyed.expected(b"t", "k3", begin_ms=begin, end_ms=end)
    indexer.stop()


def test_keys_of_the_same_hash_are_told_apart(keyed):
    # "Aa" and "BB" have the same hash, and so have all words that are made of them.
    assert key_hash("t", "AaAa") == key_hash("t", "BBBB")
    for n in range(40):
        keyed.add(b"t", keys=("AaAa", "BBBB", "AaBB")[n % 3])
    indexer = keyed.index()
    indexer.start()
    keyed.check(indexer)
    assert keyed.ask(indexer, b"t", "BBAa") == []
    assert keyed.ask(indexer, b"t", "AaAa", limit=5) == keyed.expected(b"t", "AaAa")[:5]
    assert indexer_counters(indexer)["false_hits"] > 0
    indexer.stop()


def test_one_slot_for_all_is_slow_but_right(keyed):
    keyed.add_many(60)
    indexer = keyed.index(slots=1, entries=1000)
    indexer.start()
    keyed.check(indexer)
    indexer.stop()
    assert keyed.files()[0].stat().st_size == file_bytes(1, 1000)


def test_questions_that_no_record_can_answer_find_nothing(keyed):
    keyed.add_many(5)
    indexer = keyed.index()
    indexer.start()
    for topic, key in ((b"t", b"x" * 40000), (b"t" * 256, b"k1"), (b"t", b""), (b"", b"")):
        assert indexer_query(indexer, topic, key, 0, 10, 0, FOREVER)[0] == []
    indexer.stop()


def oldest_end(keyed):
    """End offset of the oldest file. The indexer may remove the file meanwhile."""
    while True:
        try:
            return read_header(keyed.files()[0].read_bytes()).end_offset
        except FileNotFoundError:
            continue


def test_files_go_with_the_log(keyed):
    keyed.add_many(700, body=b"x" * 600)
    indexer = keyed.index(flush_ms=20, idle_max_ms=10)
    indexer.start()
    keyed.check(indexer)
    before = len(keyed.files())
    durable = log_watermarks(keyed.log)["written"]
    assert durable > 5 * SEGMENT_BYTES
    assert Flusher(keyed.log, sync_mode=True).flush() == durable
    for _ in range(4):
        assert log_drop_first_segment(keyed.log) == 0
    low = log_watermarks(keyed.log)["min"]
    wait_until(lambda: oldest_end(keyed) >= low)
    assert len(keyed.files()) < before
    keyed.check(indexer)
    indexer.stop()


def test_an_idle_index_takes_no_memory_to_speak_of(keyed):
    indexer = keyed.index(slots=5_000_000, entries=20_000_000)
    before = resident_kib()
    indexer.start()
    keyed.add(b"t", unique="one")
    assert keyed.ask(indexer, b"t", "one") == keyed.expected(b"t", "one")
    assert resident_kib() - before < 2048
    indexer.stop()
    (path,) = keyed.files()
    assert path.stat().st_size == 420_000_040
    assert path.stat().st_blocks * 512 < 1 << 20


def resident_kib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_shapes_that_java_could_not_open_are_refused(tmp_path):
    with KeyedLog(tmp_path) as keyed:
        for slots, entries in ((0, 10), (1, 1), (-1, 10), (5_000_000, 110_000_000)):
            with pytest.raises(ValueError, match="maxHashSlotNum"):
                keyed.index(slots=slots, entries=entries)


def test_a_query_without_a_thread_is_an_error(keyed):
    indexer = keyed.index()
    with pytest.raises(StoreError, match="not running"):
        indexer_query(indexer, b"t", b"k", 0, 1, 0, 1)
    indexer.start()
    with pytest.raises(StoreError):
        indexer.start()
    indexer.stop()
    indexer.stop()
    with pytest.raises(StoreError, match="not running"):
        indexer_query(indexer, b"t", b"k", 0, 1, 0, 1)


def answers_of(indexer: Indexer, count: int) -> dict[int, tuple]:
    """Waits for so many answers; returns them by the number of their question."""
    found = {}
    while len(found) < count:
        assert readable(indexer.answers_fd, HANG_S), "no answer"
        for number, *rest in indexer.answers():
            assert number not in found
            found[number] = tuple(rest)
    return found


def test_questions_that_nobody_waits_for_are_answered_with_the_records(tmp_path):
    with KeyedLog(tmp_path) as keyed:
        keyed.add_many(300)
        indexer = keyed.index()
        indexer.start()
        for number, record in enumerate(keyed.records[:50]):
            key = record.unique.encode()
            assert indexer.ask(number, record.topic, key, 0, 32, 0, FOREVER, 1 << 20)
        for number, answer in answers_of(indexer, 50).items():
            failure, records, last_ms, last_offset = answer
            assert failure == ""
            offset = keyed.records[number].offset
            assert records == [keyed.log.read_record(offset)]
            assert (last_ms, last_offset) == (keyed.now, keyed.records[-1].offset)
        assert indexer.answers() == []
        indexer.stop()


def test_an_answer_holds_as_many_records_as_it_may_newest_first_and_one_at_least(tmp_path):
    with KeyedLog(tmp_path) as keyed:
        for _ in range(20):
            keyed.add(keys="same", body=b"x" * 900)
        indexer = keyed.index()
        indexer.start()
        size = len(keyed.log.read_record(0))
        for number, room in enumerate((1, size, 5 * size, 6 * size - 1, 1 << 20)):
            assert indexer.ask(number, b"t", b"same", 0, 12, 0, FOREVER, room)
        found = answers_of(indexer, 5)
        newest = [keyed.log.read_record(record.offset) for record in reversed(keyed.records)]
        assert [len(found[number][1]) for number in range(5)] == [1, 1, 5, 5, 12]
        assert all(found[number][1] == newest[: len(found[number][1])] for number in range(5))
        indexer.stop()


def test_too_many_questions_are_refused_until_answers_are_taken(tmp_path):
    with KeyedLog(tmp_path) as keyed:
        keyed.add(unique="U")
        indexer = keyed.index()
        with pytest.raises(StoreError, match="not running"):
            indexer.ask(0, b"t", b"U", 0, 1, 0, FOREVER, 1)
        indexer.start()
        asked = 0
        while indexer.ask(asked, b"t", b"U", 0, 1, 0, FOREVER, 1):
            asked += 1
            assert asked <= 64
        assert asked == 64
        assert len(answers_of(indexer, 64)) == 64
        assert indexer.ask(99, b"t", b"x" * 40_000, 0, 1, 0, FOREVER, 1)
        assert answers_of(indexer, 1)[99][1] == []
        assert indexer.ask(100, b"t", b"U", 0, 1, 0, FOREVER, 1)  # nobody takes this answer
        indexer.stop()


def test_what_the_reactor_overwrote_is_indexed_from_the_file_and_once(keyed):
    keyed.add_many(40)
    indexer = keyed.index()
    indexer_lose(indexer)
    indexer.start()
    keyed.check(indexer)
    counters = indexer_counters(indexer)
    assert counters["entries"] == len(keyed.puts())
    assert counters["records"] == 40
    assert counters["log_bytes_skipped"] == 0
    indexer.stop()


def test_a_record_of_more_keys_than_are_gathered_is_read_from_a_copy(keyed):
    keyed.add_many(5)
    keyed.add(b"t", keys=" ".join("abcdefgh"[n % 8] for n in range(7000)), tags="x")
    keyed.add_many(5)
    indexer = keyed.index(entries=10_000)
    indexer.start()
    keyed.check(indexer)
    assert indexer_counters(indexer)["entries"] == len(keyed.puts())
    assert indexer_counters(indexer)["log_pieces_read"] == 1
    assert indexer_counters(indexer)["log_pieces_borrowed"] > 0
    indexer.stop()


@pytest.mark.parametrize("borrows", [True, False])
def test_every_key_is_found_while_the_reactor_laps_its_ring(keyed, borrows):
    indexer = keyed.index(borrows=borrows, slots=20_000, entries=20_000)
    indexer.start()
    for _ in range(40):  # each time two thirds of the ring
        keyed.add_many(20, body=bytes(2000))
        keyed.ask(indexer, b"t", "nothing")
    keyed.check(indexer)
    counters = indexer_counters(indexer)
    assert counters["entries"] == len(keyed.puts())
    assert (counters["log_pieces_borrowed"] > 0) == borrows
    indexer.stop()


def test_a_topic_longer_than_any_is_not_indexed_and_harms_nothing(keyed):
    """Only a damaged record of version 2 has a topic of this length."""
    data = bytearray(record_encode(topic=b"T" * 200, body=bytes(400), properties=b"KEYS\1a\2"))
    at = 88 + 400  # two bytes of the topic's length, and 200 bytes of the topic
    data[84:88] = (100).to_bytes(4, "big")
    data[188:190] = (500).to_bytes(2, "big")
    assert at + 202 + 2 + 7 == len(data)
    keyed.add_many(2)
    offset = keyed.end
    data[28:36] = offset.to_bytes(8, "big")
    assert log_append(keyed.log, bytes(data)) == offset
    assert log_write_out(keyed.log) == 0
    keyed.add_many(2)
    indexer = keyed.index()
    indexer.start()
    keyed.check(indexer)
    assert indexer_counters(indexer)["log_bytes_skipped"] == 0
    assert indexer_counters(indexer)["records"] == 5
    indexer.stop()
