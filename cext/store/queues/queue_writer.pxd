"""Queue writer: the thread that writes queue entries to their files, and its jobs.

    reactor --- jobs (SPSC ring of QueueJob*) ---> writer
    reactor <-- done (the same structs back) ----- writer

The writer works strictly in order: when a job comes back, all earlier ones are finished too. It
sleeps on an eventfd, which the reactor signals at most once a turn (wake).

A failed write comes back with its errno, and is tried again only when the reactor hands the same
entries over again (they are still in memory). The next BARRIER after it does not count
(queue_persistence.pyx): the log offset of its run does not become a safe restart point. Nothing is
lost, because queue files are derived from the commit log.

Only the writer knows what is in the files (Queue.file_ends). It writes this down for all queues
(queue_ends.pxd), so that the next start need not believe the files.

A second thread, the syncer, calls syncfs on the queue directory when asked (once a minute and at
stop), so that a slow disk never holds up the writer.

Example of one hand-over: WRITE a/0 entries 50-99, WRITE b/3 entries 7-9, BARRIER log offset
1,048,576. When the barrier is back and no write before it has failed, every message below 1,048,576
has its entry in a file.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.memory.spsc_ring cimport SpscRing
from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.queues.consume_queue cimport Chunk, Queue, QueueEnds
from cext.store.queues.queue_files cimport QueueFiles, QueueName
from cext.store.queues.queue_repair cimport Repair

cdef enum JobKind:
    JOB_WRITE = 1       # write entries [offset, offset + count) of `queue`, the first in `chunk`
    JOB_BARRIER = 2     # nothing to do: when it comes back, so have all jobs before it
    JOB_CHECKPOINT = 3  # write `fields` to the checkpoint file
    JOB_TRIM = 4        # log starts at `log_offset`: delete old files, find the first kept entry
    JOB_DROP = 5        # remove all files of `queue`, which is out of the table
    JOB_NOTE = 6        # the reactor itself has written entries of `queue`: `ends` says which
    JOB_ENDS = 7        # write the ends of all queues to queueEnds; `fields` has the log offset
    JOB_PIN_ENDS = 8    # the same to a file that JOB_KEEP_ENDS makes queueEnds.synced after a sync
    JOB_KEEP_ENDS = 9
    JOB_PATCH = 10      # write the entries that `repair` has made anew

cdef struct QueueJob:
    int32_t kind
    int32_t status              # out: OK | NO_SPACE | IO_ERROR
    int32_t error_number        # out: errno when status is not OK
    Queue* queue                # the writer reads only topic, queue_id and serial
    const Chunk* chunk
    int64_t offset              # WRITE: first entry. TRIM: min_offset; out: the new one
    int64_t count               # WRITE: number of entries. TRIM: persisted_offset
    int64_t log_offset          # TRIM: min offset of the log
    CheckpointFields fields     # CHECKPOINT, ENDS
    QueueEnds ends              # NOTE
    Repair* repair              # PATCH: belongs to the writer until the job comes back
    QueueJob* next_free         # in the reactor's list of unused jobs

cdef struct Sleeper:
    int wake_fd                 # eventfd on which the thread sleeps; owned
    int32_t sleeping            # 1: it is about to read wake_fd, so signal that after a push
    int32_t stop                # 1: finish what is in the ring, then return

cdef class QueueWriter:
    cdef SpscRing jobs                  # reactor pushes, writer pops
    cdef SpscRing done                  # writer pushes, reactor pops; never full (same capacity)
    cdef Sleeper writer
    cdef Sleeper syncer
    cdef int done_fd                    # eventfd, signalled after a job when the reactor waits
    cdef int32_t reactor_waits          # 1: signal done_fd
    cdef int64_t sync_wanted            # number of the newest sync asked for (reactor)
    cdef int64_t sync_done              # number of the newest finished sync (syncer)
    cdef int32_t sync_errno             # of the sync `sync_done`; 0 when it went well
    cdef QueueFiles files               # used by the writer
    cdef int checkpoint_fd              # -1: no checkpoint file
    cdef bytes ends_name                # path of queueEnds; empty: there is none
    cdef tuple ends_names               # keeps the next four alive
    cdef const char* ends_path          # queueEnds; NULL: there is none
    cdef const char* temporary_path
    cdef const char* pinned_path
    cdef const char* synced_path
    cdef Queue** file_ends              # queues whose file_ends are set; owned
    cdef int64_t file_ends_count, file_ends_slots
    cdef int32_t writer_runs            # 1 while run_writer is in its loop
    cdef int32_t syncer_runs
    cdef object threads

    cdef bint push(self, QueueJob* job) noexcept nogil       # reactor; False: ring full
    cdef QueueJob* pop_done(self) noexcept nogil             # reactor; NULL: none
    cdef void wake(self) noexcept nogil                      # reactor, after pushes
    cdef void wait_done(self, int timeout_ms) noexcept nogil  # reactor: until something is done
    cdef void ask_sync(self) noexcept nogil                  # reactor
    cdef void do_job(self, QueueJob* job) noexcept nogil     # writer, or reactor without a writer
    # Writer, or recovery before it runs: notes what the files of a queue hold.
    cdef void note_file_ends(self, Queue* queue, const QueueEnds* ends) noexcept nogil
    cdef void set_file_ends(self, Queue* queue, const QueueEnds* ends) noexcept nogil
    cdef void forget_file_ends(self, Queue* queue) noexcept nogil
    # Recovery: reads the ends that are not known yet from the files.
    cdef void read_file_ends(self, QueueFiles files) noexcept nogil
    cdef int _write_ends(self, const QueueJob* job) noexcept nogil
    cdef int _patch(self, const QueueJob* job) noexcept nogil
    cdef int _keep_ends(self) noexcept nogil
    cdef int _trim(self, QueueJob* job) noexcept nogil
    cdef void _writer_loop(self) noexcept nogil
    cdef void _syncer_loop(self) noexcept nogil

# The ends of `count` entries from `offset` on, the first of which is in `chunk`.
cdef void ends_of_chunks(const Chunk* chunk, int64_t offset, int64_t count,
                         QueueEnds* ends) noexcept nogil
