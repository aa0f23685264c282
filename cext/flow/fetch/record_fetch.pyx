"""Records that are not in memory. See record_fetch.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.status cimport ABSENT, CORRUPT, NOT_READY, OK
from cext.flow.fetch.fetch_state cimport FETCH_PATH_BYTES
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.store.consume_queue cimport UNIT_BYTES
from cext.store.disk_reader cimport READ_FILE, READ_LOG

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef void record_fetch_end(ShardState s, RecordFetch* x) noexcept nogil:
    if x.buffer != NULL and not x.busy:
        buffer_pool_release(&s.net.jumbo_pool, x.buffer)
        x.buffer = NULL


cdef int record_find(ShardState s, RecordFetch* x, int64_t offset, int32_t size, const uint8_t** at,
                     bint* checked) noexcept nogil:
    cdef uint32_t behind = 0
    cdef int32_t i
    cdef int status
    if x.buffer != NULL and not x.busy:
        for i in range(x.read.done_count):
            if x.read.offsets[i] == offset and x.read.sizes[i] == <uint32_t> size:
                at[0] = x.buffer + behind
                checked[0] = True
                return OK
            behind += x.read.sizes[i]
    status = s.log.view(offset, size, at)
    checked[0] = status == OK and (at[0] >= s.log.ring.base
                                   and at[0] < s.log.ring.base + 2 * s.log.ring.size)
    if status != ABSENT:
        record_fetch_end(s, x)
        return status
    return CORRUPT if x.unreadable == offset else NOT_READY


cdef void submit(ShardState s, RecordFetch* x, int32_t kind) noexcept nogil:
    if x.buffer == NULL:
        x.buffer = <uint8_t*> buffer_pool_take(&s.net.jumbo_pool)
    if x.buffer == NULL:
        return
    x.read.kind = kind
    x.read.check = True
    x.read.owner = <void*> x
    x.read.buffer = x.buffer
    x.read.capacity = <uint32_t> s.net.jumbo_bytes
    x.read.done_count = 0
    if s.readers.submit(&x.read) != OK:
        record_fetch_end(s, x)
        return
    x.busy = True
    x.fetches += 1
    s.reading_count += 1


cdef void record_fetch(ShardState s, RecordFetch* x, const int64_t* offsets, const int32_t* sizes,
                       int32_t count) noexcept nogil:
    cdef uint64_t bytes = 0
    cdef int32_t i
    if x.busy:
        return
    x.read.count = 0
    for i in range(count):
        if x.read.count == FETCH_RECORDS or bytes + sizes[i] > s.net.jumbo_bytes:
            break
        x.read.offsets[x.read.count] = offsets[i]
        x.read.sizes[x.read.count] = sizes[i]
        bytes += sizes[i]
        x.read.count += 1
    if x.read.count > 0:
        submit(s, x, READ_LOG)
    else:
        x.unreadable = offsets[0]               # larger than any buffer


cdef void record_fetch_entries(ShardState s, RecordFetch* x, const Queue* queue,
                               int64_t offset) noexcept nogil:
    cdef int64_t per_file = s.queues.entries_per_file
    cdef int64_t file = offset // per_file
    if x.busy:
        return
    snprintf(x.path, FETCH_PATH_BYTES, b"%s/%s/%d/%020lld", s.queues.reader_files.directory,
             queue.topic, queue.queue_id, <long long> (file * per_file * UNIT_BYTES))
    x.read.path = x.path
    x.read.count = 1
    x.read.offsets[0] = (offset - file * per_file) * UNIT_BYTES
    x.read.sizes[0] = FETCH_RECORDS * UNIT_BYTES
    submit(s, x, READ_FILE)


cdef void record_fetch_done(ShardState s, RecordFetch* x) noexcept nogil:
    x.busy = False
    s.reading_count -= 1
    if x.read.kind == READ_LOG and x.read.done_count > 0:
        return
    x.unreadable = x.read.offsets[0] if x.read.kind == READ_LOG else -1
    x.read.done_count = 0
    record_fetch_end(s, x)
