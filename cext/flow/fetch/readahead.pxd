"""Readahead: the records that a pass through a queue needs next, fetched 64 at a time.

    readahead_find()   the record is in memory, or among those fetched
    else               readahead_records() for it and those behind it, and find again later

Used by delay levels, timers, check backs and revival; each has at most one fetch under way.

A read that fails (EIO, no descriptor) says nothing about the record: find goes on saying NOT_READY,
and the disk is asked again every READ_AGAIN_MS, then for this record alone, because it may be a
neighbour that the disk does not give. A record that is damaged or gone cannot be had, and find says
so.

Several users may share one readahead and take turns: levels, revive queues, the feeding and the
delivering of timers. Each names itself before it asks (readahead_for), and each has a time of its
own before which it may not ask again. So when the disk fails one of them for good, the others read
on.

Example: 1000 half messages of yesterday must be looked at: find says NOT_READY for the first, 64
are fetched and found one after the other, then the next 64.
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
    FETCH_POLL_MS = 2               # between two looks for what is being fetched

cdef struct Readahead:
    DiskFetch* fetch                # owned; NULL: no read is under way and no records are kept
    int64_t unreadable              # log offset of a record that is damaged or gone; -1
    # The present user's; borrowed, and valid for as long as this struct.
    int64_t* again_ms               # monotonic: no read before, as one failed; 0: none did
    int64_t* next_check_ms          # its next look: 0 or again_ms when a read is over; or NULL
    int64_t only_again_ms           # where again_ms points while there is one user
    uint64_t fetches                # ever

cdef void readahead_open(Readahead* x, int64_t* next_check_ms) noexcept nogil
# Names the user that asks from now on. No effect while a read is under way, which stays with the
# user it was begun for.
cdef void readahead_for(Readahead* x, int64_t* next_check_ms, int64_t* again_ms) noexcept nogil
# Whether a read is under way.
cdef inline bint readahead_is_busy(const Readahead* x) noexcept nogil:
    return x.fetch != NULL and x.fetch.in_flight

# A record of the log that is in memory: OK with its bytes, which are valid in this turn; *checked:
# the bytes need no check, because they are in the tail ring. ABSENT, or why there is no record.
cdef int view_in_memory(CommitLog log, int64_t offset, int32_t size, const uint8_t** at,
                        bint* checked) noexcept nogil
# The record at this log offset: OK with its bytes, which are valid in this turn; *checked: they
# need no check. NOT_READY: it must be fetched. Or why there is no record.
cdef int readahead_find(Readahead* x, FetchPool pool, CommitLog log, int64_t offset, int32_t size,
                        const uint8_t** at, bint* checked) noexcept nogil
# After NOT_READY: has these records fetched, as many as fit into a buffer; nothing while a read is
# under way, or soon after a read of the same user failed.
cdef void readahead_records(Readahead* x, FetchPool pool, const int64_t* offsets,
                            const int32_t* sizes, int32_t count) noexcept nogil
# Has the page of the queue's file with this entry brought into the page cache.
cdef void readahead_entries(Readahead* x, FetchPool pool, QueueFiles files, const Queue* queue,
                            int64_t offset) noexcept nogil
# Has the queue's entry repaired whose record find says is not there, or proved to be another one.
# ABSENT: it is being made anew, look again. NOT_READY: the repair failed for now, or nothing is
# wrong: look again in a while, and the disk is asked again. CORRUPT: lost for good, or whole but
# larger than any buffer. `size`: the entry's.
cdef int readahead_repair(Readahead* x, FetchPool pool, QueueStore queues, Queue* queue,
                          int64_t offset, int32_t size) noexcept nogil
# Nothing more is wanted: gives back what was fetched, unless a read is under way.
cdef void readahead_end(Readahead* x, FetchPool pool) noexcept nogil
