"""Store image: a store directory made byte by byte, as rmq or RocketMQ may have left it.

The image knows all of its records, so that a test can say which entries the queues must have. It is
written without the code under test, except for the record encoder, which has tests of its own.

Example:
    image = StoreImage(root); image.add_many(100); image.write_log(); image.write_queues(60)
    log, queues, report = open_store(root); image.check(queues)
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple

from support.queue_reads import queue_entries

from cext.store.log.checkpoint import boot_id
from cext.store.log.commit_log import CommitLog
from cext.store.queues.queue_store import QueueStore
from cext.store.recovery import recover
from cext.testing.record_probe import record_encode
from cext.testing.store_probe import checkpoint_page, queues_snapshot
from rmq.codes import BORNHOST_V6_FLAG, STOREHOSTADDRESS_V6_FLAG
from rmq.format.queue_ends import EndsFile, QueueEnds, encode_ends

SEGMENT = 16_384
PER_FILE = 50
QUEUE_ENTRY = struct.Struct(">qiq")
BLANK = struct.pack(">II", 0, 0xCBD43194)[4:]


class Placed(NamedTuple):
    topic: bytes
    queue_id: int
    queue_offset: int
    offset: int
    data: bytes
    tags_code: int
    store_ms: int


class StoreImage:
    def __init__(self, root: Path, segment: int = SEGMENT, first_ms: int = 1_000_000):
        self.root = Path(root)
        self.segment = segment
        self.end = 0
        self.now = first_ms
        self.records: list[Placed] = []
        self.next: dict[tuple[bytes, int], int] = {}
        self.blanks: list[tuple[int, int]] = []

    @property
    def log_directory(self) -> Path:
        return self.root / "commitlog"

    @property
    def queue_directory(self) -> Path:
        return self.root / "consumequeue"

    def add(
        self,
        topic=b"T",
        queue_id=0,
        body=b"hello",
        properties=b"",
        tags_code=0,
        sys_flag=0,
        queue_offset=None,
    ):
        offset_in_queue = self.next.get((topic, queue_id), 0)
        if queue_offset is not None:
            offset_in_queue = queue_offset
        queued = sys_flag & 0xC in (0, 8)
        fields = dict(
            topic=topic,
            body=body,
            properties=properties,
            queue_id=queue_id,
            queue_offset=offset_in_queue,
            sys_flag=sys_flag,
            store_timestamp_ms=self.now,
            born_host=bytes(20 if sys_flag & BORNHOST_V6_FLAG else 8),  # the encoder goes by these
            store_host=bytes(20 if sys_flag & STOREHOSTADDRESS_V6_FLAG else 8),
        )
        size = len(record_encode(physical_offset=0, **fields))
        left = self.segment - self.end % self.segment
        if size + 8 > left:
            self.blanks.append((self.end, left))
            self.end += left
        data = record_encode(physical_offset=self.end, **fields)
        self.records.append(
            Placed(
                topic,
                queue_id if queued else -1,
                offset_in_queue,
                self.end,
                data,
                tags_code,
                self.now,
            )
        )
        if queued:
            self.next[topic, queue_id] = offset_in_queue + 1
        self.end += size
        self.now += 10
        return self.records[-1]

    def add_many(self, count, topics=2, queues=3):
        for _ in range(count):
            n = len(self.records)
            self.add(b"topic-%d" % (n % topics), n // topics % queues, b"%d" % n * (n % 37))
        return self

    # ---- writing

    def write_log(self, records=None):
        """Writes segments with these records (default: all). The last segment always exists."""
        chosen = self.records if records is None else records
        end = max([r.offset + len(r.data) for r in chosen], default=0)
        self.log_directory.mkdir(parents=True, exist_ok=True)
        files = {n: bytearray(self.segment) for n in range(end // self.segment + 1)}
        for at, left in self.blanks:
            if at < end:
                files[at // self.segment][at % self.segment :][:8] = b""
                files[at // self.segment][at % self.segment : at % self.segment + 8] = struct.pack(
                    ">II", left, 0xCBD43194
                )
        for record in chosen:
            at = record.offset % self.segment
            files[record.offset // self.segment][at : at + len(record.data)] = record.data
        for number, data in files.items():
            self.segment_path(number).write_bytes(bytes(data))
        return self

    def segment_path(self, number) -> Path:
        return self.log_directory / f"{number * self.segment:020d}"

    def patch_log(self, offset, data):
        with self.segment_path(offset // self.segment).open("r+b") as file:
            file.seek(offset % self.segment)
            file.write(data)

    def write_queues(self, records=None):
        """Writes queue files as RocketMQ does, with entries of these records (default: all)."""
        entries: dict[tuple[bytes, int], dict[int, bytes]] = {}
        for r in self.records if records is None else records:
            if r.queue_id >= 0:
                entries.setdefault((r.topic, r.queue_id), {})[r.queue_offset] = QUEUE_ENTRY.pack(
                    r.offset, len(r.data), r.tags_code
                )
        for (topic, queue_id), by_offset in entries.items():
            directory = self.queue_directory / os.fsdecode(topic) / str(queue_id)
            directory.mkdir(parents=True, exist_ok=True)
            for number in range(min(by_offset) // PER_FILE, max(by_offset) // PER_FILE + 1):
                data = b"".join(
                    by_offset.get(i, bytes(20))
                    for i in range(number * PER_FILE, (number + 1) * PER_FILE)
                )
                (directory / f"{number * PER_FILE * 20:020d}").write_bytes(data)
        return self

    def write_checkpoint(self, **values):
        """Writes a checkpoint. rmq's own part is of now and of this boot, unless values differ."""
        values = {"boot_id": boot_id(), "physic_ms": self.now, "logics_ms": self.now, **values}
        (self.root / "checkpoint").write_bytes(checkpoint_page(values))
        return self

    def checkpoint_at(self, count, synced=None, **values):
        """Writes a checkpoint that covers the first `count` records, `synced` of them on the
        disk."""

        def mark(n):
            return (
                (0, -1)
                if not n
                else (
                    self.records[n - 1].offset + len(self.records[n - 1].data),
                    self.records[n - 1].offset,
                )
            )

        persisted, anchor = mark(count)
        durable, durable_anchor = mark(count if synced is None else synced)
        return self.write_checkpoint(
            **{
                "persisted_offset": persisted,
                "persisted_anchor": anchor,
                "synced_offset": durable,
                "synced_anchor": durable_anchor,
                **values,
            }
        )

    def write_ends(self, count, name="queueEnds", **values):
        """Writes queueEnds as of the first `count` records, whose entries are all in the files."""
        queues: dict[tuple[bytes, int], QueueEnds] = {}
        for r in self.records[:count]:
            if r.queue_id >= 0:
                entry = (r.queue_offset + 1, r.offset, len(r.data))
                known = queues.get((r.topic, r.queue_id))
                begin = known[:2] if known else (r.queue_offset, r.offset)
                queues[r.topic, r.queue_id] = QueueEnds(*begin, *entry)
        last = self.records[count - 1] if count else None
        values = {
            "boot_id": boot_id(),
            "log_offset": last.offset + len(last.data) if last else 0,
            "anchor": last.offset if last else -1,
            "queues": queues,
            **values,
        }
        (self.root / name).write_bytes(encode_ends(EndsFile(**values)))
        return self

    # ---- checking

    def expected(self, records=None):
        queues: dict[tuple[bytes, int], dict[int, tuple[int, int, int]]] = {}
        for r in self.records if records is None else records:
            if r.queue_id >= 0:
                queues.setdefault((r.topic, r.queue_id), {})[r.queue_offset] = (
                    r.offset,
                    len(r.data),
                    r.tags_code,
                )
        return queues

    def check(self, queues, records=None):
        """Checks that the queues hold exactly the entries of these records (default: all)."""
        expected = self.expected(records)
        found = {}
        for topic, queue_id in queues.queue_names():
            low, high, _persisted, _entries = queues_snapshot(queues, topic, queue_id)
            if low < high:
                found[topic, queue_id] = read_entries(queues, topic, queue_id, low, high)
        assert found == expected


def read_entries(queues, topic, queue_id, low, high):
    entries = {}
    at = low
    while at < high:
        got = queue_entries(queues, topic, queue_id, at, 100)
        assert isinstance(got, list) and got, (topic, queue_id, at, got)
        entries.update({at + i: entry for i, entry in enumerate(got)})
        at += len(got)
    return entries


def open_store(root, clean=False, segment=SEGMENT, pool_chunks=4096, **more):
    """Recovers a store; returns log, queues and the report of recovery. Starts no threads."""
    log = CommitLog(
        str(Path(root) / "commitlog"),
        segment_bytes=segment,
        ring_bytes=1 << 16,
        max_record_bytes=8192,
    )
    log.load()
    queues = QueueStore(
        str(Path(root) / "consumequeue"), entries_per_file=PER_FILE, pool_chunks=pool_chunks
    )
    return log, queues, recover(log, queues, root, clean, **more)
