"""Indexer: the thread behind the log that fills the key index and answers queries.

    reactor   --`written`, `claimed` (log_link)-->  indexer; the reactor never waits for or wakes it
    control   --queries (SPSC ring, eventfd)-->  indexer  --answers (the same way)-->  control

All files and slots belong to this thread, so there is no lock, and a query sees whole records. The
thread sleeps 10 ms after work, and longer and longer, up to half a second, while nothing comes.
Before a query is answered the thread catches up with what was written when the query came (for 2 s
at most, QUERY_WAIT_MS), so that a client that has its ack finds its message.

Work is done in batches: a piece of the log is read, its keys are hashed, their slots are linked
while the next slots are being fetched from memory, and one pwrite writes the entries. Every 15 s or
2 million entries the slots are written (20 MB when there are many keys). After a kill the keys put
since then are put again, at a third of the thread's speed, so that the start is not slowed down.
Everything is synced every minute, when a file is full and at stop. A failed write changes nothing
and is tried again a second later.

Example: 300,000 messages/s with a unique key and a key: a round every 10 ms indexes 3,000 records
as 6,000 entries with 3 pwrites; it reads the records in the log's ring (log_window.pxd).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.memory.spsc_ring cimport SpscRing
from cext.store.index.index_file cimport IndexKey
from cext.store.index.index_store cimport IndexQuery, IndexStore
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_cursor cimport LogCursor
from cext.store.log.record cimport RecordView

cdef struct IndexJob:
    IndexQuery query
    int32_t status              # out
    int64_t number              # the caller's, returned with the answer
    uint8_t texts[0]            # at a multiple of 8: topic and key, then room for the hits

cdef class Indexer:
    cdef CommitLog log
    cdef IndexStore store
    cdef LogCursor tail
    cdef NativeThread thread
    cdef SpscRing jobs          # IndexJob*; control pushes under `lock`, the thread pops
    cdef SpscRing answered      # IndexJob* back again
    cdef int64_t unanswered     # given to the thread and not taken back; control only
    cdef int done_fd            # eventfd, owned: `answered` has something
    cdef int wake_fd            # eventfd, owned
    cdef int32_t stopping       # owner -> thread
    cdef bint opened
    cdef object lock            # of the control side: one thread at a time asks
    cdef IndexKey* keys         # owned; KEYS_MAX, gathered and not put yet
    cdef int32_t key_count
    cdef int32_t record_from    # index of the first key of the record being gathered
    cdef int64_t step_from      # log offset at which this step began
    cdef uint64_t skipped_before    # bytes that were no record before this step
    cdef bint again             # the step put nothing, but the next one will
    cdef bint split             # some keys of the record being gathered are already in the index
    cdef uint8_t topic[256]     # of the last record ...
    cdef uint32_t topic_bytes
    cdef uint32_t topic_hash    # ... and the hash of topic#
    cdef int64_t indexed        # the log is indexed up to here; others read it with acquire order
    cdef int64_t flushed_us, synced_us, retry_us
    cdef uint64_t records, flushed_entries
    cdef readonly int64_t flush_us, sync_us, idle_max_ms

    cdef int step(self) noexcept nogil
    cdef void run(self) noexcept nogil
    # The address of the checkpoint's index time, which lives as long as this object.
    cdef int64_t* safe_ms(self) noexcept nogil

    cdef void _begin(self) noexcept nogil
    cdef bint _gather(self, const RecordView* view) noexcept nogil
    cdef bint _add(self, uint32_t hash, const RecordView* view) noexcept nogil
    cdef bint _put(self) noexcept nogil
    cdef void _upkeep(self, int64_t now_us) noexcept nogil
    cdef void _answer(self) noexcept nogil
    cdef void _do(self, IndexJob* job) noexcept nogil
    cdef void _catch_up(self, int64_t target) noexcept nogil
