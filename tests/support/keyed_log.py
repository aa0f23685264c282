"""Keyed log: a small commit log whose records have keys, and what the key index must find.

with KeyedLog(tmp_path) as keyed:
    keyed.add(b"t", unique="U1", keys="a b", tags="x")
    indexer = keyed.index(); indexer.start()
    keyed.check(indexer)        every key finds exactly its messages
"""

from pathlib import Path
from typing import NamedTuple

from support.logs import SEGMENT_BYTES

from cext.store.index.indexer import Indexer
from cext.store.log.commit_log import CommitLog
from cext.store.log.preparer import Preparer
from cext.testing.record_probe import record_encode
from cext.testing.store_probe import (
    indexer_query,
    log_append,
    log_new_turn,
    log_watermarks,
    log_write_out,
    preparer_step,
)
from rmq.format.index_file import Put, hashes_of

SLOTS, ENTRIES = 1500, 400  # more slots than a page of the table
FOREVER = 2**63 - 1
ROLLBACK = 0xC


class Keyed(NamedTuple):
    topic: bytes
    unique: str | None
    keys: str
    tags: str | None
    offset: int
    store_ms: int
    sys_flag: int


class KeyedLog:
    def __init__(self, root: Path, end: int = 0, records: tuple[Keyed, ...] = ()) -> None:
        self.root = Path(root)
        self.records = list(records)
        self.now = 1_700_000_000_000
        self.log = CommitLog(
            str(self.root / "commitlog"),
            segment_bytes=SEGMENT_BYTES, ring_bytes=1 << 16, max_record_bytes=16384,
        )  # fmt: skip
        self.log.load()
        self.log.set_end(end)
        self.preparer = Preparer(self.log)

    def __enter__(self) -> "KeyedLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()

    @property
    def index_directory(self) -> Path:
        return self.root / "index"

    @property
    def end(self) -> int:
        return log_watermarks(self.log)["appended"]

    def files(self) -> list[Path]:
        return sorted(self.index_directory.iterdir())

    def add(
        self, topic=b"t", unique=None, keys="", tags=None, body=b"x" * 60, sys_flag=0, pass_ms=7
    ) -> Keyed:
        """Adds a record and writes it out."""
        pairs = {"KEYS": keys, "UNIQ_KEY": unique, "WAIT": "true", "TAGS": tags}
        properties = "".join(f"{name}\1{value}\2" for name, value in pairs.items() if value)
        self.now += pass_ms
        log_new_turn(self.log)
        while True:
            offset = self.end
            data = record_encode(
                topic=topic, body=body, properties=properties.encode(), physical_offset=offset,
                store_timestamp_ms=self.now, sys_flag=sys_flag,
            )  # fmt: skip
            left = SEGMENT_BYTES - offset % SEGMENT_BYTES
            if len(data) + 8 <= left:
                assert log_append(self.log, data) == offset
                break
            if log_append(self.log, b"", len(data)) < 0:  # rolls, once there is a next one
                preparer_step(self.preparer)
        assert log_write_out(self.log) == 0
        record = Keyed(topic, unique, keys, tags, offset, self.now, sys_flag)
        self.records.append(record)
        return record

    def add_many(self, count: int, **more) -> None:
        for _ in range(count):
            n = len(self.records)
            self.add(
                (b"t", b"other")[n % 3 == 0], f"U{n:08X}", f"k{n % 11} n{n}", f"tag{n % 4}", **more
            )

    def index(
        self, *, trusted=True, index_ms=FOREVER, log_end=-1, slots=SLOTS, entries=ENTRIES, **more
    ):
        """An indexer that is open but not started."""
        indexer = Indexer(self.log, str(self.index_directory), slots=slots, entries=entries, **more)
        indexer.open(trusted, index_ms, log_end)
        return indexer

    def puts(self) -> list[Put]:
        """What must be put into the index, in this order."""
        return [
            Put(value, record.offset, record.store_ms)
            for record in self.records
            for value in hashes_of(record.topic.decode(), self.properties(record),
                                   record.sys_flag & ROLLBACK == ROLLBACK)
        ]  # fmt: skip

    @staticmethod
    def properties(record: Keyed) -> dict[str, str]:
        pairs = {"UNIQ_KEY": record.unique, "KEYS": record.keys, "TAGS": record.tags}
        return {name: value for name, value in pairs.items() if value}

    def expected(self, topic: bytes, key: str, tag=False, begin_ms=0, end_ms=FOREVER) -> list[int]:
        """The log offsets that a query must find, newest first."""
        low = log_watermarks(self.log)["min"]
        return [
            record.offset
            for record in reversed(self.records)
            if record.topic == topic
            and record.offset >= low
            and record.sys_flag & ROLLBACK != ROLLBACK
            and begin_ms <= record.store_ms <= end_ms
            and (record.tags == key if tag else key in (record.unique, *record.keys.split(" ")))
        ]

    def ask(self, indexer, topic: bytes, key: str, tag=False, limit=1024, begin=0, end=FOREVER):
        return indexer_query(indexer, topic, key.encode(), int(tag), limit, begin, end)[0]

    def check(self, indexer: Indexer, subset: bool = False) -> None:
        """Checks that every key and tag finds exactly its messages; with `subset` some of them."""
        for (topic, key, tag), wanted in sorted(self.answers().items()):
            found = self.ask(indexer, topic, key, tag)
            if subset:
                assert set(found) <= set(wanted), (topic, key)
            else:
                assert found == wanted, (topic, key)

    def answers(self) -> dict[tuple[bytes, str, bool], list[int]]:
        """The results of expected() by (topic, key, whether it is a tag), in one pass over the
        log."""
        low = log_watermarks(self.log)["min"]
        found: dict[tuple[bytes, str, bool], list[int]] = {}
        for record in reversed(self.records):
            names = {(key, False) for key in (record.unique, *record.keys.split(" ")) if key}
            if record.tags:
                names.add((record.tags, True))
            seen = record.offset >= low and record.sys_flag & ROLLBACK != ROLLBACK
            for name in names:
                found.setdefault((record.topic, *name), []).extend([record.offset] * seen)
        return found
