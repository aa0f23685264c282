"""Disk fetch: one read of the log or of a queue's file, done by a disk reader for a request.

    take       a DiskFetch from the pool, with a jumbo buffer, or for the owner's own memory; the
               owner may give it a block for a larger record
    describe   begin() and add() records, or one record of unknown size, or a page of a queue
    submit     from here on it belongs to a disk reader: the reactor touches neither it nor its
               buffer
    collect    once a turn: `done` is called with the results of every read that is over
    release    back to the pool, with its buffer

The reactor calls `done` exactly once for each submit() that returned OK, whatever became of the
read: read.status says why there are fewer records than were wanted. `done` may release the fetch,
keep it with what it brought, or submit it anew. The connection or queue that the read was for may
be gone by then: so a connection is compared by its id, and a queue is looked up again.

There are three bounds: the pool has one fetch for each jumbo buffer and one for each request that
may be parked, so that neither kind waits for the other; every disk reader takes at most
READ_JOBS_MAX at a time; and each owner has a limit of its own.

Example: a pull finds its records neither in the ring nor in the page cache: take, begin, add 32
records, submit; 100 us later `done` finds them in fetch.buffer, checked, and sends them from there.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena
from cext.memory.buffer_pool cimport BufferPool
from cext.memory.large_pool cimport LargeBlock, LargePool
from cext.store.log.disk_reader cimport READ_RECORDS_MAX, DiskReader, ReadJob
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_files cimport QUEUE_PATH_BYTES, QueueFiles

cdef class FetchPool

# `service` is what take() was given; NULL when `done` needs only the `owner`.
ctypedef void (*FetchDone)(void* service, FetchPool pool, DiskFetch* fetch) noexcept nogil

cdef struct DiskFetch:
    ReadJob read                # what is read; then read.status, done_count and done_bytes
    FetchDone done
    void* service
    void* owner                 # what the read is for
    bint in_flight              # a disk reader has it
    # What read.buffer points to; owned. Both NULL: the owner's memory, or a reply has the buffer.
    uint8_t* buffer             # a jumbo buffer
    LargeBlock* large           # a block of the large pool; the owner sets it
    uint64_t wanted_bytes       # of the records that were added
    int64_t queue_offsets[READ_RECORDS_MAX]     # of each record added
    char path[QUEUE_PATH_BYTES]                 # of the queue's file

# Begins a list of the log's records, by place and size. With `check` the reader compares their
# places and CRCs; without, they are only brought into the page cache.
cdef void fetch_begin(DiskFetch* fetch, bint check) noexcept nogil
# Adds the record of queue offset `queue_offset`. False: there is no room for another one.
cdef bint fetch_add(DiskFetch* fetch, int64_t physical_offset, int32_t size,
                    int64_t queue_offset) noexcept nogil
# One record of the log, of unknown size; on TOO_LARGE the size is in read.sizes[0].
cdef void fetch_one(DiskFetch* fetch, int64_t physical_offset) noexcept nogil
# Brings the entries [offset, offset + count) of a queue, as far as they are in the same file, into
# the page cache.
cdef void fetch_entries(DiskFetch* fetch, QueueFiles files, const Queue* queue, int64_t offset,
                        int32_t count) noexcept nogil

cdef class FetchPool:
    cdef BufferPool fetches
    cdef BufferPool* buffers    # borrowed: the jumbo buffers of the network half
    cdef uint64_t buffer_bytes  # of each
    cdef LargePool* large       # borrowed from the network half
    cdef DiskReader readers
    cdef int64_t in_flight      # submitted, `done` not called yet
    cdef uint64_t failed        # reads that ended with IO_ERROR

    # OK, or IO_ERROR: the arena has less left than fetch_pool_arena_bytes(count).
    cdef int open(self, Arena* arena, uint32_t count) noexcept nogil
    cdef void connect(self, DiskReader readers, BufferPool* buffers, uint64_t buffer_bytes,
                      LargePool* large) noexcept
    # A fetch with a buffer of `buffer_bytes`. NULL: none is free.
    cdef DiskFetch* take(self, FetchDone done, void* service, void* owner) noexcept nogil
    # A fetch for the owner's memory (fetch_into). NULL: none is free.
    cdef DiskFetch* take_bare(self, FetchDone done, void* service, void* owner) noexcept nogil
    # OK | RING_FULL | CLOSED | MALFORMED (cext/store/log/disk_reader.pxd). Unless OK, the fetch is
    # still the owner's and `done` is not called.
    cdef int submit(self, DiskFetch* fetch) noexcept nogil
    # Must not be called while a disk reader has the fetch.
    cdef void release(self, DiskFetch* fetch) noexcept nogil
    # Once a turn: calls `done` for what the disk readers have finished.
    cdef void collect(self) noexcept nogil
    # At a stop: whether no read is under way.
    cdef bint drained(self) noexcept nogil

cdef uint64_t fetch_pool_arena_bytes(uint32_t count) noexcept nogil

cdef inline void fetch_into(DiskFetch* fetch, uint8_t* memory, uint32_t bytes) noexcept nogil:
    fetch.read.buffer = memory
    fetch.read.capacity = bytes
