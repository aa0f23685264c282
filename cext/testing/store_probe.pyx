"""Store probe: what only compiled callers do to a log, queues, windows, readers and checkpoint.

    offset = log_append(log, record); log_write_out(log)        a reactor's turn, by hand
    log_new_turn(log); log_view(log, offset, len(record))
    disk_read(readers, [(offset, len(record))], 4096)           (Status.OK, 1, record)

When the answer should be bytes and there are none, it is a status < 0.
"""
import select

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from cext.base.atomics cimport load_acquire_i64
from cext.base.status cimport Status
from cext.base.sysio cimport event_drain
from cext.store.index.indexer cimport Indexer
from cext.store.log.checkpoint cimport (
    CHECKPOINT_BYTES, CheckpointFields, checkpoint_decode, checkpoint_encode)
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.disk_reader cimport (
    READ_FILE, READ_LOG, READ_RECORD, READ_RECORDS_MAX, DiskReader, ReadJob)
from cext.store.log.log_window cimport LogWindow, window_at
from cext.store.log.raw_append cimport raw_append
from cext.store.log.segment_map cimport segment_map_pages_lost
from cext.store.queues.queue_store cimport QueueStore


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


# ------------------------------------------------------------------- queues

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
