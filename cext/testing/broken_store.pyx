"""Broken store: its invariants, broken on purpose: log, queues, key index, timers, disk readers.

    PLANTS["log_order"]()       does not return (broken_invariant.pyx)

Each opens the real object in a folder of its own, changes a field as no caller may, and goes on.
"""
cdef extern from *:
    """
    #ifndef RMQ_DEBUG
    #define RMQ_DEBUG 1
    #endif
    """

from libc.string cimport memset

from cext.base.atomics cimport load_acquire_i64
from cext.memory.arena cimport SharedArena
from cext.memory.spsc_ring cimport spsc_put
from cext.store.index.indexer cimport Indexer
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.disk_reader cimport DiskReader, ReadJob
from cext.store.log.log_link cimport (
    LogLink, log_offer, log_own, log_push_drop, log_push_handle, log_want_room, log_want_segment)
from cext.store.queues.consume_queue cimport (
    Chunk, ChunkPool, Queue, chunk_give, chunk_pool_open, chunk_pool_arena_bytes, chunk_take,
    queue_add_chunk)
from cext.store.queues.queue_files cimport QueueFiles
from cext.store.queues.queue_repair cimport REPAIR_OVER, Repair, repair_move
from cext.store.queues.queue_store cimport QueueStore
from cext.store.queues.queue_writer cimport JOB_WRITE, QueueJob, QueueWriter
from cext.store.timers.keeper_state cimport BATCH_ENTRIES, SEAL_FULL
from cext.store.timers.timer_heap cimport TimerHeap
from cext.store.timers.timer_keeper cimport TimerKeeper, keeper_round

import tempfile
import threading

from cext.testing.store_probe import log_append


cdef CommitLog open_log(bint pooled=False):
    cdef CommitLog log = CommitLog(tempfile.mkdtemp(prefix="rmq-planted-"), 1 << 20, 1 << 20,
                                   max_record_bytes=4096, pooled=pooled)
    log.load()
    log.set_end(0)
    return log


cdef LogLink new_link():
    cdef LogLink link
    memset(&link, 0, sizeof(link))
    link.segment_bytes = 1000
    return link


# ------------------------------------------------------------------- what threads share

def _committable():
    """Bytes that were offered to the committer are taken back."""
    cdef LogLink link = new_link()
    log_offer(&link, 500)
    log_offer(&link, 400)


def _log_order():
    """A file is left out on the way to the flusher."""
    cdef LogLink link = new_link()
    log_push_handle(&link, 1000, -1)
    log_push_handle(&link, 3000, -1)


def _log_drop_order():
    cdef LogLink link = new_link()
    link.preparer_event = -1
    log_push_drop(&link, 1000)
    log_push_drop(&link, 1000)


def _log_ring():
    """The flusher has closed more files than it was given."""
    cdef LogLink link = new_link()
    link.handles_popped = 3
    log_push_handle(&link, 1000, -1)


def _log_room():
    cdef LogLink link = new_link()
    log_want_room(&link, 700)
    log_want_room(&link, 0)
    log_want_room(&link, 500)
    log_want_room(&link, 400)


def _log_segment():
    cdef LogLink link = new_link()
    log_want_segment(&link, 2000)
    log_want_segment(&link, 1000)


def _log_segment_start():
    cdef LogLink link = new_link()
    log_want_segment(&link, 2500)


# ------------------------------------------------------------------- the commit log

def _log_written():
    """More is written than was appended."""
    cdef CommitLog log = open_log()
    log_append(log, b"x" * 96)
    log.marks.written = 97
    log.write_out()


def _log_roll():
    """The log's end is in the last 8 bytes of a file."""
    cdef CommitLog log = open_log()
    log.link.ready_start = log.active_end
    log.marks.appended = log.active_end - 7
    log.roll()


def _log_room_end():
    cdef CommitLog log = open_log()
    log.room_end = log.active_end + 1
    log_append(log, b"x" * 96)


def _log_committed():
    """The committer says that it has written what it was not offered."""
    cdef CommitLog log = open_log(pooled=True)
    log.link.committed = 10
    log.write_out()


def _log_thread():
    """Seen only by debug builds: two threads append."""
    cdef CommitLog log = open_log()
    log_append(log, b"x" * 96)
    other = threading.Thread(target=_own_log, args=(log,))
    other.start()
    other.join()
    log_append(log, b"x" * 96)


def _own_log(CommitLog log):
    log_own(&log.link, True)


def _log_claimed():
    """Seen only by debug builds: bytes are written without a claim on that part of the ring."""
    cdef CommitLog log = open_log()
    log_append(log, b"x" * 96)
    log.link.claimed = 100
    log_append(log, b"x" * 96)


# ------------------------------------------------------------------- queues

cdef ChunkPool chunks_of(SharedArena memory):
    cdef ChunkPool pool
    chunk_pool_open(&pool, &memory.arena, 4)
    return pool


def _chunk_sum():
    """More chunks come back than were lent, by one."""
    cdef SharedArena memory = SharedArena(chunk_pool_arena_bytes(4))
    cdef ChunkPool pool = chunks_of(memory)
    cdef Chunk* chunk = chunk_take(&pool)
    chunk_give(&pool, chunk)
    chunk_give(&pool, chunk)


def _chunk_order():
    """Seen only by debug builds: a chunk is added behind one that still has room."""
    cdef SharedArena memory = SharedArena(chunk_pool_arena_bytes(4))
    cdef ChunkPool pool = chunks_of(memory)
    cdef Queue queue
    memset(&queue, 0, sizeof(queue))
    queue_add_chunk(&queue, chunk_take(&pool))
    queue.max_offset = 49
    queue_add_chunk(&queue, chunk_take(&pool))


def _queue_ends():
    """Seen only by debug builds: a queue has a newest chunk and no oldest."""
    cdef SharedArena memory = SharedArena(chunk_pool_arena_bytes(4))
    cdef ChunkPool pool = chunks_of(memory)
    cdef Queue queue
    memset(&queue, 0, sizeof(queue))
    queue.tail = chunk_take(&pool)
    queue_add_chunk(&queue, chunk_take(&pool))


def _queue_jobs():
    """A job of a queue ends, and the queue has none."""
    cdef QueueStore store = QueueStore(tempfile.mkdtemp(prefix="rmq-planted-"))
    cdef Queue queue
    cdef QueueJob job
    memset(&queue, 0, sizeof(queue))
    memset(&job, 0, sizeof(job))
    job.kind = JOB_WRITE
    job.queue = &queue
    store._complete(&job)


def _queue_persisted():
    """The writer has put entries into files that it was not handed."""
    cdef QueueStore store = QueueStore(tempfile.mkdtemp(prefix="rmq-planted-"))
    cdef Queue queue
    cdef QueueJob job
    memset(&queue, 0, sizeof(queue))
    memset(&job, 0, sizeof(job))
    queue.handed_offset = 40
    queue.in_flight = 1
    job.kind = JOB_WRITE
    job.queue = &queue
    job.count = 50
    store._complete(&job)


cdef QueueWriter new_writer():
    """Its folder is not there, so that no disk is synced."""
    folder = tempfile.mkdtemp(prefix="rmq-planted-") + "/none"
    return QueueWriter(QueueFiles(folder, 1000, 4, True), 8, -1)


def _queue_synced():
    """A sync has ended that nobody asked for."""
    cdef QueueWriter writer = new_writer()
    writer.sync_done = 5
    writer.ask_sync()


def _queue_sync_back():
    """A sync ends after one that was asked for later."""
    cdef QueueWriter writer = new_writer()
    writer.sync_done = 5
    writer.start()
    while load_acquire_i64(&writer.sync_done) == 5:
        threading.Event().wait(0.001)
    writer.stop()


def _queue_place():
    """A queue is forgotten that is not where it says."""
    cdef QueueWriter writer = new_writer()
    cdef Queue queue
    memset(&queue, 0, sizeof(queue))
    queue.file_ends_place = 3
    writer.forget_file_ends(&queue)


def _repair():
    """A repair is over on which nothing has worked."""
    cdef Repair r
    memset(&r, 0, sizeof(r))
    repair_move(&r, REPAIR_OVER)


# ------------------------------------------------------------------- key index, disk readers

def _indexed():
    """The key index goes on at an earlier offset than others were told."""
    cdef CommitLog log = open_log()
    cdef Indexer indexer = Indexer(log, tempfile.mkdtemp(prefix="rmq-planted-"))
    indexer.indexed = 5000
    indexer.step()


def _reads():
    cdef DiskReader readers = DiskReader(open_log(), threads=1)
    cdef ReadJob job
    memset(&job, 0, sizeof(job))
    spsc_put(&readers.readers[0].done, &job, b"a ring with room")
    readers.completed()


# ------------------------------------------------------------------- timers

cdef TimerKeeper new_keeper():
    return TimerKeeper(open_log(), tempfile.mkdtemp(prefix="rmq-planted-"), 8)


def _seal():
    """A seal is filled while the keeper has it."""
    cdef TimerKeeper keeper = new_keeper()
    cdef TimerHeap heap
    memset(&heap, 0, sizeof(heap))
    keeper.state.seal.state = SEAL_FULL
    keeper.seal(&heap, 4, 0, 0)


def _seal_state():
    """The keeper opens anew, and its seal is in none of the states."""
    cdef TimerKeeper keeper = new_keeper()
    keeper.state.seal.state = 3
    keeper.open(0, 0, 0)


def _timer_batch():
    """A batch is taken that has not been made."""
    cdef TimerKeeper keeper = new_keeper()
    keeper.taken()


def _timer_batch_count():
    cdef TimerKeeper keeper = new_keeper()
    keeper.state.tail = 1
    keeper.state.batches[0].count = BATCH_ENTRIES + 1
    keeper.taken()


def _timer_ring():
    """More batches were taken than were made."""
    cdef TimerKeeper keeper = new_keeper()
    keeper.state.head = 5
    keeper_round(keeper, True)


PLANTS = {
    "committable": _committable, "log_order": _log_order, "log_drop_order": _log_drop_order,
    "log_ring": _log_ring, "log_room": _log_room, "log_segment": _log_segment,
    "log_segment_start": _log_segment_start, "log_written": _log_written, "log_roll": _log_roll,
    "log_room_end": _log_room_end, "log_committed": _log_committed, "log_thread": _log_thread,
    "log_claimed": _log_claimed, "chunk_sum": _chunk_sum, "chunk_order": _chunk_order,
    "queue_ends": _queue_ends, "queue_jobs": _queue_jobs, "queue_persisted": _queue_persisted,
    "queue_synced": _queue_synced, "queue_sync_back": _queue_sync_back, "queue_place": _queue_place,
    "repair": _repair, "indexed": _indexed, "reads": _reads, "seal": _seal,
    "seal_state": _seal_state,
    "timer_batch": _timer_batch, "timer_batch_count": _timer_batch_count,
    "timer_ring": _timer_ring,
}
