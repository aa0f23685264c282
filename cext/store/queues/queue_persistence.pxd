"""Queue persistence: brings entries of all queues from memory into files, and knows how far.

Dirty queues are handed to the writer thread
  - one by one, when a queue has 800 entries that were not handed over yet,
  - and all of them every 3 s or every 256 MiB of log, as one run that ends with a barrier.
    Thousands of dirty queues are thousands of files to open and write: each 1000 of them add
    another 3 s and 256 MiB, up to 30 s and 1 GiB.
A run is spread over turns (HAND_PER_TURN queues each), so 50,000 dirty queues delay no message.

    log offset   0 ......... synced_log_offset ......... persisted_log_offset ......... log_end
                 entries on the disk    entries in the page cache    entries in memory only

The writer also removes files that are too old (trims) and those of deleted queues, in the same
order as all other jobs.

Example: 10,000 queues at 300,000 messages/s of 400 bytes: a hand-over run each GiB (9 s) writes
270 entries per queue in one pwritev, 10,000 files in the writer thread, none in the reactor.

Reactor thread. QueueStore is the only subclass.
"""
from libc.stdint cimport int32_t, int64_t

from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_files cimport QueueFiles
from cext.store.queues.queue_table cimport QueueTable
from cext.store.queues.queue_writer cimport QueueJob, QueueWriter

cdef enum:
    RUN_QUEUES = 1000               # each 1000 dirty queues add another interval before a run
    RUN_INTERVAL_MS_MAX = 30_000
    RUN_LOG_BYTES_MAX = 1 << 30     # a restart after a kill may have to dispatch this much again

cdef struct Mark:
    int64_t log_offset          # all messages below it ...
    int64_t stamp_ms            # ... were stored before this time
    int64_t anchor              # log offset of the last of them; -1: none

cdef class QueuePersistence(QueueTable):
    cdef readonly int64_t persisted_log_offset  # below it all entries are in files (page cache)
    cdef readonly int64_t synced_log_offset     # below it they are on the disk, and the log too
    cdef int64_t last_physical          # log offset of the newest dispatched record; -1: none
    cdef Queue** dirty                  # queues appended to since the last run; queue_slots long
    cdef Queue** run                    # being handed over; queue_slots long
    cdef int64_t file_count             # queues with at least one entry in a file
    cdef int64_t dirty_count, run_count, run_at

    cdef QueueWriter writer
    cdef QueueFiles sync_files          # for the reactor's writes of last resort, and for recovery
    cdef QueueJob* job_memory           # owned
    cdef QueueJob* free_jobs
    cdef bint pushed                    # jobs were pushed since the last wake
    cdef bint run_open                  # a run or its barrier is under way
    cdef bint failed_in_run             # the run's barrier will not count: a write failed
    cdef int64_t drops                  # deletions that the writer has not finished
    cdef bint want_run                  # start a run at the next turn, whatever the time
    cdef Mark run_mark                  # the mark that the run's barrier stands for
    cdef Mark persisted_mark            # newest barrier that came back OK
    cdef Mark sync_mark                 # what the sync under way covers
    # The log's end when the sync began: the pinned queue ends know no record beyond it.
    cdef int64_t sync_log_end
    cdef Mark synced_mark               # newest good sync for which the log is durable, too
    cdef int64_t last_run_ms, last_run_log_end, last_sync_ms
    cdef bint sync_open
    cdef bint sync_started              # the pinned queue ends were tried; the syncer was woken
    cdef bint ends_pinned               # they were written well
    cdef bint want_ends                 # write queueEnds at the next barrier (queue_ends.pxd)
    cdef int64_t ends_log_offset        # log offset of the newest queueEnds asked for
    cdef int64_t ends_ms                # when it was asked for
    cdef int64_t trim_at                # next queue of a trim under way; -1: none
    cdef int64_t trim_log_min           # start of the log for that trim
    cdef int checkpoint_fd
    cdef CheckpointFields checkpoint    # values kept from the file: index, master, confirm, boot id
    # The key index's time for the checkpoint, read with acquire order; NULL: the file's time stays.
    cdef const int64_t* index_safe_ms
    cdef public int64_t run_interval_ms     # longest time between two runs
    cdef public int64_t run_log_bytes       # most log bytes between two runs
    cdef public int64_t sync_interval_ms    # time between two syncs of the file system

    # The log now starts at log_min: moves min offsets and deletes files in the next turns.
    cdef void drop_below(self, int64_t log_min) noexcept nogil
    # Takes a queue out of the table. Its files and its memory are removed when the writer gets to
    # them. The pointer is invalid from now on: its holders (routes, waiters) must drop it before.
    cdef void delete_queue(self, Queue* queue) noexcept nogil

    # Also makes `dirty` and `run` longer.
    cdef int grow(self, int64_t slots) noexcept nogil
    cdef void mark_dirty(self, Queue* queue) noexcept nogil
    # Hands over the rest of a queue's entries; False: there is no free job.
    cdef bint _hand_over(self, Queue* queue) noexcept nogil
    # Writes them without the writer. OK, or a status that says why they cannot be written.
    cdef int _persist_here(self, Queue* queue) noexcept nogil
    cdef void _complete(self, QueueJob* job) noexcept nogil
    cdef void _begin_run(self, int64_t now_ms) noexcept nogil
    cdef void _begin_sync(self, int64_t now_ms) noexcept nogil
    # Takes in the jobs and syncs that are finished.
    cdef void _collect(self, int64_t log_durable) noexcept nogil
    cdef void _written(self, QueueJob* job) noexcept nogil
    cdef void _retry(self, Queue* queue) noexcept nogil
    # A PATCH job came back. The subclass handles it.
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
    """Whether a run is due. It opens and writes a file for each dirty queue, so with more of them
    runs are less frequent."""
    cdef int64_t times = 1 + store.dirty_count // RUN_QUEUES
    cdef int64_t interval_ms = store.run_interval_ms
    cdef int64_t log_bytes = store.run_log_bytes
    if times > 1:
        interval_ms = min(interval_ms * times, max(interval_ms, <int64_t> RUN_INTERVAL_MS_MAX))
        log_bytes = min(log_bytes * times, max(log_bytes, <int64_t> RUN_LOG_BYTES_MAX))
    return (now_ms - store.last_run_ms >= interval_ms
            or store.log_end - store.last_run_log_end >= log_bytes)
