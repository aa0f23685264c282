"""Records that come next in a queue and are not in memory. See readahead.pxd."""
from libc.stdint cimport uint32_t

from cext.base.clock cimport monotonic_us
from cext.base.status cimport (
    ABSENT,
    CORRUPT,
    IO_ERROR,
    NOT_FOUND,
    NOT_READY,
    OK,
    TOO_LARGE,
)
from cext.flow.fetch.disk_fetch cimport fetch_add, fetch_begin, fetch_entries
from cext.store.log.disk_reader cimport READ_LOG


cdef void readahead_open(Readahead* x, int64_t* next_check_ms) noexcept nogil:
    x.fetch = NULL
    x.unreadable = -1
    x.only_again_ms = 0
    x.again_ms = &x.only_again_ms
    x.next_check_ms = next_check_ms


cdef void readahead_for(Readahead* x, int64_t* next_check_ms, int64_t* again_ms) noexcept nogil:
    if not readahead_is_busy(x):
        x.next_check_ms = next_check_ms
        x.again_ms = again_ms


cdef void readahead_end(Readahead* x, FetchPool pool) noexcept nogil:
    if x.fetch != NULL and not x.fetch.in_flight:
        pool.release(x.fetch)
        x.fetch = NULL


cdef int view_in_memory(CommitLog log, int64_t offset, int32_t size, const uint8_t** at,
                        bint* checked) noexcept nogil:
    cdef int status = log.view(offset, size, at)
    checked[0] = status == OK and (at[0] >= log.ring.base
                                   and at[0] < log.ring.base + 2 * log.ring.size)
    return status


cdef int readahead_find(Readahead* x, FetchPool pool, CommitLog log, int64_t offset, int32_t size,
                        const uint8_t** at, bint* checked) noexcept nogil:
    cdef uint32_t behind = 0
    cdef int32_t i
    cdef int status
    if x.fetch != NULL and not x.fetch.in_flight:
        for i in range(x.fetch.read.done_count):
            if x.fetch.read.offsets[i] == offset and x.fetch.read.sizes[i] == <uint32_t> size:
                at[0] = x.fetch.buffer + behind
                checked[0] = True
                return OK
            behind += x.fetch.read.sizes[i]
    status = view_in_memory(log, offset, size, at, checked)
    if status != ABSENT:
        readahead_end(x, pool)
        return status
    return CORRUPT if x.unreadable == offset else NOT_READY


cdef void read_done(void* context, FetchPool pool, DiskFetch* fetch) noexcept nogil:
    cdef Readahead* x = <Readahead*> fetch.owner
    cdef bint of_log = fetch.read.kind == READ_LOG
    cdef int status = fetch.read.status
    x.unreadable = -1
    x.again_ms[0] = 0
    if fetch.read.done_count == 0 and status == IO_ERROR:
        x.again_ms[0] = monotonic_us() // 1000 + READ_AGAIN_MS
    elif fetch.read.done_count == 0 and of_log and (
            status == CORRUPT or status == NOT_FOUND or status == TOO_LARGE):
        x.unreadable = fetch.read.offsets[0]
    if x.next_check_ms != NULL:
        x.next_check_ms[0] = x.again_ms[0]
    if not of_log or fetch.read.done_count == 0:
        readahead_end(x, pool)


cdef bint take(Readahead* x, FetchPool pool) noexcept nogil:
    """False: a read is under way, the user's last read failed just now, or no buffer is free."""
    if readahead_is_busy(x) or (x.again_ms[0] > 0 and monotonic_us() // 1000 < x.again_ms[0]):
        return False
    if x.fetch == NULL:
        x.fetch = pool.take(read_done, NULL, x)
    return x.fetch != NULL


cdef void submit(Readahead* x, FetchPool pool) noexcept nogil:
    if pool.submit(x.fetch) == OK:
        x.fetches += 1
    else:
        readahead_end(x, pool)


cdef void readahead_records(Readahead* x, FetchPool pool, const int64_t* offsets,
                            const int32_t* sizes, int32_t count) noexcept nogil:
    cdef int32_t i
    if count == 0 or not take(x, pool):
        return
    fetch_begin(x.fetch, True)
    for i in range(count if x.again_ms[0] == 0 else 1):
        if not fetch_add(x.fetch, offsets[i], sizes[i], -1):
            break
    if x.fetch.read.count > 0:
        submit(x, pool)
    else:
        x.unreadable = offsets[0]               # larger than any buffer
        readahead_end(x, pool)


cdef void readahead_entries(Readahead* x, FetchPool pool, QueueFiles files, const Queue* queue,
                            int64_t offset) noexcept nogil:
    if take(x, pool):
        fetch_entries(x.fetch, files, queue, offset, READAHEAD_RECORDS)
        submit(x, pool)


cdef int readahead_repair(Readahead* x, FetchPool pool, QueueStore queues, Queue* queue,
                          int64_t offset, int32_t size) noexcept nogil:
    cdef int status = queues.request_repair(queue, offset)
    if status == OK:
        status = <int> CORRUPT if <uint64_t> size > pool.buffer_bytes else <int> NOT_READY
    if status == NOT_READY:
        x.unreadable = -1
    return status
