"""Readahead: the records that come next for whoever goes through a queue, fetched 64 at a time.

    readahead_find()   the record is in memory, or in what was fetched
    else               readahead_records() for it and those behind it, and look again later

Used by delay levels, timers, check backs and revival; each has one fetch under way at most.

A read that fails (EIO, no descriptor) says nothing of the record: find goes on saying NOT_READY,
and the disk is asked again every READ_AGAIN_MS, for this record alone, as it may be a neighbour
that the disk does not give. What is damaged or gone cannot be had, and find says so.

Several may share one and ask in turn: levels, revive queues, feeding and delivering of timers. Each
says so before it asks (readahead_for) and has a time of its own at which it may ask again: where
the disk gives one of them nothing for good, the others read on.

Example: 1000 half messages of yesterday are to be looked at: find says NOT_READY for the first, 64
are fetched, found one after the other, then the next 64.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.flow.fetch.disk_fetch cimport DiskFetch, FetchPool
from cext.store.log.commit_log cimport CommitLog
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_files cimport QueueFiles
from cext.store.queues.queue_store cimport QueueStore

cdef enum:
    READAHEAD_RECORDS = 64
    READ_AGAIN_MS = 100             # after a read that failed
    FETCH_POLL_MS = 2               # between looks of who waits for what is fetched

cdef struct Readahead:
    DiskFetch* fetch                # owned; NULL: nothing is read, and nothing that was is kept
    int64_t unreadable              # log offset of a record that is damaged or gone; -1
    # Of who asks; borrowed, and there for as long as this is.
    int64_t* again_ms               # monotonic: its read failed, none before; 0: its last did not
    int64_t* next_check_ms          # its next look: 0 or again_ms when a read is over; or NULL
    int64_t only_again_ms           # again_ms where all reads are of one
    uint64_t fetches                # ever

cdef void readahead_open(Readahead* x, int64_t* next_check_ms) noexcept nogil
# Whose the next reads are; nothing while a read is under way, which stays whose it is.
cdef void readahead_for(Readahead* x, int64_t* next_check_ms, int64_t* again_ms) noexcept nogil
# Whether a read is under way.
cdef inline bint readahead_is_busy(const Readahead* x) noexcept nogil:
    return x.fetch != NULL and x.fetch.in_flight

# A record of the log in memory: OK with its bytes, valid in this turn, and whether they are known
# to be whole, as those of the tail ring are; ABSENT, or why there is none.
cdef int view_in_memory(CommitLog log, int64_t offset, int32_t size, const uint8_t** at,
                        bint* checked) noexcept nogil
# The record at this log offset. OK with its bytes, valid in this turn, and whether they are known
# to be whole; NOT_READY: it has to be fetched; or why there is none.
cdef int readahead_find(Readahead* x, FetchPool pool, CommitLog log, int64_t offset, int32_t size,
                        const uint8_t** at, bint* checked) noexcept nogil
# After NOT_READY: has these records fetched, as many as fit into a buffer, unless a read is under
# way or one of the same asker failed just now.
cdef void readahead_records(Readahead* x, FetchPool pool, const int64_t* offsets,
                            const int32_t* sizes, int32_t count) noexcept nogil
# Has the page of the queue's file with this entry brought into the page cache.
cdef void readahead_entries(Readahead* x, FetchPool pool, QueueFiles files, const Queue* queue,
                            int64_t offset) noexcept nogil
# What find says is not there, or whoever looked at it says is another record, has its queue's entry
# mended: ABSENT (it is made anew, look again), NOT_READY (that failed for now, or nothing is wrong:
# look again in a while, and the disk is asked again), CORRUPT (lost for good, or whole but larger
# than any buffer). `size`: the entry's.
cdef int readahead_repair(Readahead* x, FetchPool pool, QueueStore queues, Queue* queue,
                          int64_t offset, int32_t size) noexcept nogil
# Nothing more is looked for: what was fetched is given back, unless a read is under way.
cdef void readahead_end(Readahead* x, FetchPool pool) noexcept nogil
