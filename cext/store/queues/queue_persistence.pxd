"""Queue persistence: how entries of all queues get from memory into files, and how far that is.

Dirty queues are handed to the writer thread
  - when a queue has 800 entries that were not handed over yet,
  - and all of them every 3 s or every 256 MiB of log, as one run that ends with a barrier.
    Thousands of dirty queues are thousands of files to open and write: 3 s and 256 MiB count once
    more for each 1000 of them, to at most 30 s and 1 GiB.
A run is spread over turns (HAND_PER_TURN queues each), so 50,000 dirty queues delay no message.

    log offset   0 ......... synced_log_offset ......... persisted_log_offset ......... log_end
                 entries on the disk    entries in the page cache    entries in memory only

Files are also cut at their front and removed by the writer (trims, deletions), in the same order.

Example: 10,000 queues at 300,000 messages/s of 400 bytes: a hand-over run each GiB (9 s) writes
270 entries per queue in one pwritev, 10,000 files in the writer thread, none in the reactor.

Reactor thread. QueueStore is the one subclass.
"""
from libc.stdint cimport int32_t, int64_t

from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_files cimport QueueFiles
from cext.store.queues.queue_table cimport QueueTable
from cext.store.queues.queue_writer cimport QueueJob, QueueWriter

cdef enum:
    RUN_QUEUES = 1000               # so many dirty queues make the next run wait once more as long
    RUN_INTERVAL_MS_MAX = 30_000
    RUN_LOG_BYTES_MAX = 1 << 30     # what a restart after a kill may have to dispatch again

cdef struct Mark:
    int64_t log_offset          # all messages below it ...
    int64_t stamp_ms            # ... were stored before this time
    int64_t anchor              # log offset of the last of them; -1: none

cdef class QueuePersistence(QueueTable):
    cdef readonly int64_t persisted_log_offset  # below it all entries are in files (page cache)
    cdef readonly int64_t synced_log_offset     # below it they are on the disk, and the log too
    cdef int64_t last_physical          # log offset of the newest record dispatched; -1: none
    cdef Queue** dirty                  # appended to since the last run; queue_slots long
    cdef Queue** run                    # being handed over; queue_slots long
    cdef int64_t file_count             # queues with at least one entry in a file
    cdef int64_t dirty_count, run_count, run_at

    cdef QueueWriter writer
    cdef QueueFiles sync_files          # reactor's own, for writes of last resort and recovery
    cdef QueueJob* job_memory           # owned
    cdef QueueJob* free_jobs
    cdef bint pushed                    # jobs were pushed since the last wake
    cdef bint run_open                  # a run or its barrier is under way
    cdef bint failed_in_run             # its barrier will not count: something failed
    cdef int64_t drops                  # deletions the writer has not finished
    cdef bint want_run                  # start one at the next turn whatever the time
    cdef Mark run_mark                  # what the barrier of the run will say
    cdef Mark persisted_mark            # newest barrier that came back OK
    cdef Mark sync_mark                 # what the sync under way covers
    cdef int64_t sync_log_end           # where the log ended then: what is pinned knows no more
    cdef Mark synced_mark               # newest good sync that the log has caught up with
    cdef int64_t last_run_ms, last_run_log_end, last_sync_ms
    cdef bint sync_open
    cdef bint sync_started              # the syncer was told: what is pinned is written
    cdef bint ends_pinned               # and was written well
    cdef bint want_ends                 # write queueEnds at the next barrier (queue_ends.pxd)
    cdef int64_t ends_log_offset        # log offset of the newest one asked for
    cdef int64_t ends_ms                # and when
    cdef int64_t trim_at                # next queue of a trim under way; -1: none
    cdef int64_t trim_log_min           # start of the log for it
    cdef int checkpoint_fd
    cdef CheckpointFields checkpoint    # values kept from the file: index, master, confirm, boot id
    # The key index's time for the checkpoint, read with acquire order; NULL: the file's stays.
    cdef const int64_t* index_safe_ms
    cdef public int64_t run_interval_ms     # longest time between two runs
    cdef public int64_t run_log_bytes       # most log bytes between two runs
    cdef public int64_t sync_interval_ms    # time between two syncs of the file system

    # The log now starts at log_min: moves min offsets and deletes files, over the next turns.
    cdef void drop_below(self, int64_t log_min) noexcept nogil
    # Takes a queue out of the table; its files and its memory go when the writer gets there. The
    # pointer is invalid from now on: who holds it (routes, waiters) lets go before.
    cdef void delete_queue(self, Queue* queue) noexcept nogil

    # Also makes `dirty` and `run` longer.
    cdef int grow(self, int64_t slots) noexcept nogil
    cdef void mark_dirty(self, Queue* queue) noexcept nogil
    # What is not handed over of a queue; False: no job is left.
    cdef bint _hand_over(self, Queue* queue) noexcept nogil
    # The same without the writer: OK, or why it cannot be written.
    cdef int _persist_here(self, Queue* queue) noexcept nogil
    cdef void _complete(self, QueueJob* job) noexcept nogil
    cdef void _begin_run(self, int64_t now_ms) noexcept nogil
    cdef void _begin_sync(self, int64_t now_ms) noexcept nogil
    # Takes in what the writer and the sync have finished.
    cdef void _collect(self, int64_t log_durable) noexcept nogil
    cdef void _written(self, QueueJob* job) noexcept nogil
    cdef void _retry(self, Queue* queue) noexcept nogil
    # A PATCH job came back. The subclass does it.
    cdef void _patched(self, QueueJob* job) noexcept nogil
    cdef void _trimmed(self, QueueJob* job) noexcept nogil
    cdef void _barrier_done(self) noexcept nogil
    cdef void _continue_run(self) noexcept nogil
    cdef void _continue_trim(self) noexcept nogil
    cdef void _send_checkpoint(self) noexcept nogil
    cdef QueueJob* _ends_job(self, int32_t kind) noexcept nogil
    cdef bint _send_ends(self) noexcept nogil
    cdef void _sync_done(self, int64_t log_durable) noexcept nogil
    cdef QueueJob* _wait_for_job(self, int32_t kind, Queue* queue) noexcept nogil
    cdef QueueJob* _take_job(self, int32_t kind, Queue* queue) noexcept nogil
    cdef void _push(self, QueueJob* job) noexcept nogil
    cdef void _free_queue(self, Queue* queue) noexcept nogil


cdef inline bint run_is_due(QueuePersistence store, int64_t now_ms) noexcept nogil:
    """A run opens and writes a file for each dirty queue: the more, the less often."""
    cdef int64_t times = 1 + store.dirty_count // RUN_QUEUES
    cdef int64_t interval_ms = store.run_interval_ms
    cdef int64_t log_bytes = store.run_log_bytes
    if times > 1:
        interval_ms = min(interval_ms * times, max(interval_ms, <int64_t> RUN_INTERVAL_MS_MAX))
        log_bytes = min(log_bytes * times, max(log_bytes, <int64_t> RUN_LOG_BYTES_MAX))
    return (now_ms - store.last_run_ms >= interval_ms
            or store.log_end - store.last_run_log_end >= log_bytes)
