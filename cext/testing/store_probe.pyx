"""Store probe: what only compiled callers do to a log, its threads, queues, windows, readers and
checkpoint; and what the parts of a store have counted.

    offset = log_append(log, record); log_write_out(log)        a reactor's turn, by hand
    log_new_turn(log); log_view(log, offset, len(record))
    preparer_step(preparer)                                     a round of its thread, by hand
    queues_add(queues, b"T", 0, [(offset, len(record), 0)]); queues_flush(queues, now_ms, end)
    disk_read(readers, [(offset, len(record))], 4096)           (Status.OK, 1, record)
    indexer_query(indexer, b"T", b"key", 0, 32, 0, 2**63 - 1)   ([offset], last ms, last offset)

When the answer should be bytes and there are none, it is a status < 0.
"""
import select

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from cext.base.atomics cimport load_acquire_i32, load_acquire_i64
from cext.base.status cimport Status, raise_status
from cext.base.sysio cimport event_drain
from cext.store.index.indexer cimport Indexer
from cext.store.log.checkpoint cimport (
    CHECKPOINT_BYTES, CheckpointFields, checkpoint_decode, checkpoint_encode)
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.committer cimport Committer
from cext.store.log.disk_reader cimport (
    READ_FILE, READ_LOG, READ_RECORD, READ_RECORDS_MAX, DiskReader, ReadJob)
from cext.store.log.flusher cimport Flusher
from cext.store.log.log_window cimport LogWindow, window_at
from cext.store.log.preparer cimport Preparer, preparer_round
from cext.store.log.raw_append cimport raw_append
from cext.store.log.segment_map cimport segment_map_pages_lost
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, Queue, QueueEntry, queue_copy_entries)
from cext.store.queues.queue_store cimport QueueStore

cdef enum:
    READ_ENTRIES = 256              # of one queues_entries()
    QUERY_MS = 600_000              # what takes longer hangs


# ------------------------------------------------------------------- commit log

def log_append(CommitLog log not None, bytes data, int64_t max_bytes=-1) -> int:
    """Does reserve, copy and commit. The physical offset, or a status < 0."""
    cdef int status
    cdef int64_t room = len(data) if max_bytes < 0 else max_bytes
    cdef uint8_t* at = log.reserve(<uint32_t>room, &status)
    if at == NULL:
        return status
    offset = log.marks.appended
    memcpy(at, <const uint8_t*>data, len(data))
    log.commit(len(data))
    return offset


def log_raw_append(CommitLog log not None, int64_t offset, bytes data) -> tuple:
    """(status, RecordProblem, end of the log)"""
    cdef int32_t problem = 0
    cdef int status = raw_append(log, offset, <const uint8_t*> <char*> data,
                                 <uint64_t> len(data), &problem)
    return status, problem, log.marks.appended


def log_write_out(CommitLog log not None) -> int:
    return log.write_out()


def log_wait_for_commit(CommitLog log not None, int64_t timeout_us) -> bool:
    return log.wait_for_commit(timeout_us)


def log_new_turn(CommitLog log not None) -> None:
    log.new_turn()


def log_watermarks(CommitLog log not None) -> dict:
    """`appended` and `dispatched` may be out of date outside the thread that moves them."""
    return {
        "min": log.min_offset(), "appended": log.marks.appended,
        "written": load_acquire_i64(&log.marks.written), "durable": log.durable(),
        "dispatched": log.marks.dispatched,
    }


def log_notify_fd(CommitLog log not None) -> int:
    """An eventfd that becomes readable when `durable` has moved, the log was poisoned, or a segment
    is ready after a refusal."""
    return log.link.notify_event


def log_view(CommitLog log not None, int64_t offset, uint32_t size) -> "bytes | int":
    cdef const uint8_t* at
    cdef int status = log.view(offset, size, &at)
    return at[:size] if status == Status.OK else status


def log_read(CommitLog log not None, int64_t offset, uint64_t size) -> "bytes | int":
    cdef bytearray out = bytearray(size)
    cdef int64_t count = log.read_log(offset, out, size)
    return bytes(out[:count]) if count >= 0 else count


def log_map_segment(CommitLog log not None, int64_t index, uint64_t size) -> "bytes | None":
    cdef const uint8_t* base = log.map_segment(index)
    return base[:size] if base != NULL else None


def log_drop_first_segment(CommitLog log not None) -> int:
    return log.drop_first_segment()


def log_counters(CommitLog log not None) -> dict:
    return {"pages_lost": segment_map_pages_lost(), "maps": log.map.maps,
            "evictions": log.map.evictions, "rolls": log.rolls,
            "residency_calls": log.map.residency_calls, "writes": log.writes,
            "ring_bytes": log.ring.size, "first_modified_ms": log.first_segment_modified_ms(),
            "segments": log.segment_count()}


# ------------------------------------------------------------------- threads of the log

def log_sleepers(CommitLog log not None) -> tuple:
    """Whether the flusher and the committer are asleep, each until it is signalled: 0: no; 1: yes,
    as all is done; the committer 2: what was offered is not enough."""
    return (load_acquire_i32(&log.link.flusher_sleeping),
            load_acquire_i32(&log.link.committer_sleeping))


def flusher_counters(Flusher flusher not None) -> dict:
    """syncs: fdatasync calls; sync_us: time spent in them; next_check_us: when async mode looks
    again (0: nothing is waiting)."""
    return {"syncs": flusher.state.syncs, "sync_us": flusher.state.sync_us,
            "next_check_us": flusher.state.next_check_us}


def committer_counters(Committer committer not None) -> dict:
    """commits: write calls."""
    return {"commits": committer.state.commits}


def preparer_step(Preparer preparer not None) -> int:
    """Does one round of the thread, which must not run, in this one. Returns how many ms it would
    sleep; -1: until signalled."""
    cdef int wait_ms
    if preparer.thread.running:
        raise RuntimeError("the preparer is running")
    with nogil:
        wait_ms = preparer_round(&preparer.state)
    return wait_ms


def preparer_counters(Preparer preparer not None) -> dict:
    """Segments prepared (how many of them recycled) and removed, failed tries, the last errno;
    pieces of room given to the segment that a start continued, and how long the slowest took."""
    return {"prepared": preparer.state.prepared, "recycled": preparer.state.recycled,
            "removed": preparer.state.removed, "failures": preparer.state.failures,
            "pieces": preparer.state.pieces, "slowest_piece_us": preparer.state.slowest_piece_us,
            "room_status": load_acquire_i32(&preparer.state.link.room_status),
            "room_errno": preparer.state.link.room_error,
            "status": load_acquire_i32(&preparer.state.link.prepare_status),
            "errno": preparer.state.link.prepare_error}


# ------------------------------------------------------------------- queues

def queues_add(QueueStore queues not None, bytes topic, int queue_id, list entries) -> int:
    """Appends (physical offset, size, tags code) tuples; returns the queue's max offset."""
    cdef Queue* queue = queues.open_queue(topic, <int32_t> len(topic), queue_id)
    cdef int status
    if queue == NULL:
        raise ValueError(f"no queue can be called {topic!r}/{queue_id}")
    for physical, size, tags in entries:
        status = queues.append(queue, physical, size, tags)
        raise_status(status, f"append to {topic!r}/{queue_id}")
    queue.next_offset = queue.max_offset
    return queue.max_offset


cdef Queue* queue_named(QueueStore queues, bytes topic, int queue_id) except NULL:
    cdef Queue* queue = queues.find_queue(topic, <int32_t> len(topic), queue_id)
    if queue == NULL:
        raise KeyError(f"no queue {topic.decode('latin-1')}/{queue_id}")
    return queue


def queues_entries(QueueStore queues not None, bytes topic, int queue_id, int64_t offset,
                   int max_entries) -> "list | int":
    """Calls read(): a list of (physical offset, size, tags code), or a negative status."""
    cdef Queue* queue = queue_named(queues, topic, queue_id)
    cdef QueueEntry out[READ_ENTRIES]
    cdef int got = queues.read(queue, offset, min(max_entries, <int> READ_ENTRIES), out)
    cdef int i
    if got < 0:
        return got
    return [(out[i].physical_offset, out[i].size, out[i].tags_code) for i in range(got)]


def queues_snapshot(QueueStore queues not None, bytes topic, int queue_id) -> tuple:
    """(min, max, persisted, entries), where `entries` are those from persisted to max, in file
    form: they are not in a file yet."""
    cdef Queue* queue = queue_named(queues, topic, queue_id)
    cdef int64_t count = queue.max_offset - queue.persisted_offset
    cdef bytearray entries = bytearray(count * QUEUE_ENTRY_BYTES)
    if count > 0:
        queue_copy_entries(queue, queue.persisted_offset, count, <uint8_t*> entries)
    return queue.min_offset, queue.max_offset, queue.persisted_offset, bytes(entries)


def queues_flush(QueueStore queues not None, int64_t now_ms, int64_t log_durable,
                 int timeout_ms=60_000) -> None:
    """Writes everything into files, then the checkpoint. StoreError: that failed."""
    cdef int status
    with nogil:
        status = queues.flush_all(now_ms, log_durable, timeout_ms)
    raise_status(status, queues.failure() or f"queues are not in files after {timeout_ms} ms")


def queues_drop(QueueStore queues not None, int64_t log_min) -> None:
    """Tells the queues that the log now starts at log_min."""
    queues.drop_below(log_min)


def queues_remove_topic(QueueStore queues not None, bytes topic) -> int:
    """Deletes all queues of a topic; returns how many there were."""
    cdef bint _used = False
    return queues.delete_topic(topic, <int32_t> len(topic), INT64_MAX, &_used)


def queues_counters(QueueStore queues not None) -> dict:
    """All counters, the pool's filling and the marks."""
    return {
        "jobs_written": queues.counts.jobs_written,
        "entries_persisted": queues.counts.entries_persisted,
        "write_failures": queues.counts.write_failures, "last_errno": queues.counts.last_errno,
        "sync_writes": queues.counts.sync_writes,
        "chunks_reclaimed": queues.counts.chunks_reclaimed,
        "memory_reads": queues.counts.memory_reads, "file_reads": queues.counts.file_reads,
        "absent_reads": queues.counts.absent_reads, "corrupt_reads": queues.counts.corrupt_reads,
        "queues": queues.queue_count, "queues_with_files": queues.file_count,
        "chunks_free": queues.pool.capacity - queues.pool.touched + queues.pool.free_count,
        "chunks": queues.pool.capacity, "file_opens": queues.writer.files.opens,
        "file_writes": queues.writer.files.writes, "log_end": queues.log_end,
        "persisted_log_offset": queues.persisted_log_offset,
        "synced_log_offset": queues.synced_log_offset,
    }


def queues_run_turn(QueueStore queues not None, int64_t now_ms, int64_t log_durable) -> None:
    with nogil:
        queues.turn(now_ms, log_durable)


def queues_wait_for_writer(QueueStore queues not None, int timeout_ms) -> None:
    with nogil:
        queues.writer.wait_done(timeout_ms)


def queues_release_memory(QueueStore queues not None) -> int:
    """Gives back every chunk whose entries are persisted; returns how many."""
    return queues._reclaim(queues.pool.capacity)


# ------------------------------------------------------------------- readers of the log

def window_fill(LogWindow window not None, int64_t offset, int64_t wanted,
                int64_t limit) -> "bytes | int":
    cdef int status = window.fill(offset, wanted, limit)
    return window_at(window, offset)[:wanted] if status == Status.OK else status


def window_is_sound(LogWindow window not None) -> bool:
    return window.is_sound()


def window_copy_next_piece(LogWindow window not None) -> None:
    window.copy_next_piece()


def window_pieces(LogWindow window not None) -> tuple:
    """(read, borrowed, lost)"""
    return window.pieces_read, window.pieces_borrowed, window.pieces_lost


def indexer_lose(Indexer indexer not None) -> None:
    """Before start(): in its first step the reactor has overwritten what it looks at."""
    indexer.tail.window.lost = True


def indexer_query(Indexer indexer not None, bytes topic, bytes key, int32_t kind, int32_t hits_max,
                  int64_t begin_ms, int64_t end_ms) -> tuple:
    """Asks and waits: the log offsets of the messages, newest first; then store time and log offset
    of the newest indexed message. Nobody else may wait for answers meanwhile."""
    if not indexer.ask(0, topic, key, kind, hits_max, begin_ms, end_ms, <uint64_t> INT64_MAX):
        raise RuntimeError("too many questions wait")
    poll = select.poll()
    poll.register(indexer.answers_fd, select.POLLIN)
    if not poll.poll(QUERY_MS):
        raise TimeoutError("the indexer did not answer")
    ((_number, failure, records, last_ms, last_offset),) = indexer.answers()
    if failure:
        raise RuntimeError(failure)
    offsets = [int.from_bytes(record[28:36], "big") for record in records]
    return offsets, last_ms, last_offset


def indexer_counters(Indexer indexer not None) -> dict:
    """indexed: the log offset up to which the log is indexed; entries: put since the start;
    failures: of reading or writing; false_hits: hits whose record had another key; log_pieces:
    parts of the log read in its ring, copied, and overwritten in the ring meanwhile."""
    return {
        "indexed": load_acquire_i64(&indexer.indexed), "records": indexer.records,
        "entries": indexer.store.entries_put, "files": indexer.store.file_count,
        "failures": indexer.store.failures, "last_errno": indexer.store.last_errno,
        "files_removed": indexer.store.removed, "files_relinked": indexer.store.relinked,
        "false_hits": indexer.store.false_hits, "log_bytes_skipped": indexer.tail.skipped,
        "log_pieces_borrowed": indexer.tail.window.pieces_borrowed,
        "log_pieces_read": indexer.tail.window.pieces_read,
        "log_pieces_lost": indexer.tail.window.pieces_lost,
        "safe_ms": load_acquire_i64(&indexer.store.safe_ms),
    }


def disk_reader_counters(DiskReader readers not None) -> dict:
    """reads: pread calls of all threads; in_flight: jobs submitted and not collected."""
    return {"reads": sum([readers.readers[i].reads for i in range(readers.count)]),
            "in_flight": sum([readers.readers[i].in_flight for i in range(readers.count)])}


def disk_read(DiskReader readers not None, list wanted, uint32_t capacity, bint parse=True,
              bytes path=None, double timeout_s=10.0, bint unsized=False) -> tuple:
    """Submits one job [(offset, size), ...] and waits for it: (status, done_count, bytes)."""
    cdef ReadJob* job = <ReadJob*>calloc(1, sizeof(ReadJob))
    cdef uint8_t* buffer = <uint8_t*>calloc(1, capacity + 1)
    cdef ReadJob* done = NULL
    cdef int status
    job.kind = READ_RECORD if unsized else READ_LOG if path is None else READ_FILE
    job.count = len(wanted)
    for i, (offset, size) in enumerate(wanted[:READ_RECORDS_MAX]):
        job.offsets[i] = offset
        job.sizes[i] = size
    job.buffer = buffer
    job.capacity = capacity
    job.check = parse
    if path is not None:
        job.path = path
    status = readers.submit(job)
    if status == Status.OK:
        poll = select.poll()
        poll.register(readers.notify_event, select.POLLIN)
        while done == NULL:
            if not poll.poll(timeout_s * 1000):
                raise TimeoutError("the disk reader did not answer")   # both leak: it has them
            event_drain(readers.notify_event)
            done = readers.completed()
        status = done.status
    result = (status, job.done_count, buffer[:job.done_bytes])
    free(buffer)
    free(job)
    return result


# ------------------------------------------------------------------- checkpoint

def checkpoint_page(dict values) -> bytes:
    """The page for a dict of field names (see CheckpointFields) and values; missing ones are 0."""
    cdef CheckpointFields fields
    cdef uint8_t page[CHECKPOINT_BYTES]
    cdef bytes boot = values.get("boot_id", bytes(16))
    memset(&fields, 0, sizeof(fields))
    fields.physic_ms = values.get("physic_ms", 0)
    fields.logics_ms = values.get("logics_ms", 0)
    fields.index_ms = values.get("index_ms", 0)
    fields.master_flushed_offset = values.get("master_flushed_offset", 0)
    fields.confirm_offset = values.get("confirm_offset", 0)
    fields.persisted_offset = values.get("persisted_offset", 0)
    fields.synced_offset = values.get("synced_offset", 0)
    fields.queue_count = values.get("queue_count", 0)
    fields.persisted_anchor = values.get("persisted_anchor", -1)
    fields.synced_anchor = values.get("synced_anchor", -1)
    if len(boot) != 16:
        raise ValueError(f"boot id of {len(boot)} bytes")
    memcpy(fields.boot_id, <const uint8_t*> boot, 16)
    checkpoint_encode(&fields, page)
    return page[:CHECKPOINT_BYTES]


def checkpoint_values(bytes page) -> dict:
    """The values in a checkpoint file; a short page is read as if zeros followed."""
    cdef CheckpointFields fields
    cdef bytes whole = page[:CHECKPOINT_BYTES].ljust(CHECKPOINT_BYTES, b"\0")
    checkpoint_decode(<const uint8_t*> whole, &fields)
    return {
        "physic_ms": fields.physic_ms, "logics_ms": fields.logics_ms, "index_ms": fields.index_ms,
        "master_flushed_offset": fields.master_flushed_offset,
        "confirm_offset": fields.confirm_offset,
        "persisted_offset": fields.persisted_offset, "synced_offset": fields.synced_offset,
        "queue_count": fields.queue_count, "persisted_anchor": fields.persisted_anchor,
        "synced_anchor": fields.synced_anchor, "boot_id": fields.boot_id[:16],
        "own_valid": bool(fields.own_valid),
    }
