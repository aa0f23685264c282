"""Reads of the disk for requests. See disk_fetch.pxd."""
cimport cython

from cext.base.check cimport check
from cext.base.status cimport IO_ERROR, OK
from cext.memory.buffer_pool cimport (
    buffer_pool_open,
    buffer_pool_release,
    buffer_pool_arena_bytes,
    buffer_pool_take,
)
from cext.memory.large_pool cimport large_pool_release
from cext.store.log.disk_reader cimport READ_FILE, READ_LOG, READ_RECORD
from cext.store.queues.consume_queue cimport QUEUE_ENTRY_BYTES
from cext.store.queues.queue_files cimport QueueName, name_of


cdef void fetch_begin(DiskFetch* fetch, bint check_records) noexcept nogil:
    fetch.read.kind = READ_LOG
    fetch.read.check = check_records
    fetch.read.count = 0
    fetch.wanted_bytes = 0


cdef bint fetch_add(DiskFetch* fetch, int64_t physical_offset, int32_t size,
                    int64_t queue_offset) noexcept nogil:
    cdef int32_t n = fetch.read.count
    if n == READ_RECORDS_MAX or fetch.wanted_bytes + size > fetch.read.capacity:
        return False
    fetch.read.offsets[n] = physical_offset
    fetch.read.sizes[n] = size
    fetch.queue_offsets[n] = queue_offset
    fetch.wanted_bytes += size
    fetch.read.count = n + 1
    return True


cdef void fetch_one(DiskFetch* fetch, int64_t physical_offset) noexcept nogil:
    fetch.read.kind = READ_RECORD
    fetch.read.count = 1
    fetch.read.offsets[0] = physical_offset


cdef void fetch_entries(DiskFetch* fetch, QueueFiles files, const Queue* queue, int64_t offset,
                        int32_t count) noexcept nogil:
    cdef QueueName name = name_of(queue)
    fetch.read.kind = READ_FILE
    fetch.read.count = 1
    fetch.read.offsets[0] = files.entry_place(&name, offset, fetch.path)
    fetch.read.sizes[0] = count * QUEUE_ENTRY_BYTES
    fetch.read.path = fetch.path


cdef uint64_t fetch_pool_arena_bytes(uint32_t count) noexcept nogil:
    return buffer_pool_arena_bytes(sizeof(DiskFetch), count)


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class FetchPool:
    cdef int open(self, Arena* arena, uint32_t count) noexcept nogil:
        return buffer_pool_open(&self.fetches, arena, sizeof(DiskFetch), count, 0)

    cdef void connect(self, DiskReader readers, BufferPool* buffers, uint64_t buffer_bytes,
                      LargePool* large) noexcept:
        self.readers = readers
        self.buffers = buffers
        self.buffer_bytes = buffer_bytes
        self.large = large

    cdef DiskFetch* take_bare(self, FetchDone done, void* service, void* owner) noexcept nogil:
        cdef DiskFetch* fetch = <DiskFetch*> buffer_pool_take(&self.fetches)
        if fetch != NULL:
            fetch.done = done
            fetch.service = service
            fetch.owner = owner
            fetch.in_flight = False
            fetch.buffer = NULL
            fetch.large = NULL
            fetch.read.owner = fetch
            fetch.read.count = 0
            fetch.read.done_count = 0
        return fetch

    cdef DiskFetch* take(self, FetchDone done, void* service, void* owner) noexcept nogil:
        cdef DiskFetch* fetch = self.take_bare(done, service, owner)
        if fetch == NULL:
            return NULL
        fetch.buffer = <uint8_t*> buffer_pool_take(self.buffers)
        if fetch.buffer == NULL:
            self.release(fetch)
            return NULL
        fetch_into(fetch, fetch.buffer, <uint32_t> self.buffer_bytes)
        return fetch

    cdef int submit(self, DiskFetch* fetch) noexcept nogil:
        cdef int status
        check(not fetch.in_flight, b"a disk fetch is submitted once at a time", fetch.read.kind,
              fetch.read.offsets[0])
        fetch.read.done_count = 0
        status = self.readers.submit(&fetch.read)
        if status == OK:
            fetch.in_flight = True
            self.in_flight += 1
        return status

    cdef void release(self, DiskFetch* fetch) noexcept nogil:
        check(not fetch.in_flight, b"a disk fetch is released when its read is over",
              fetch.read.kind, fetch.read.offsets[0])
        if fetch.buffer != NULL:
            buffer_pool_release(self.buffers, fetch.buffer)
        if fetch.large != NULL:
            large_pool_release(self.large, fetch.large)
        buffer_pool_release(&self.fetches, fetch)

    cdef void collect(self) noexcept nogil:
        cdef ReadJob* job
        cdef DiskFetch* fetch
        while self.in_flight > 0:
            job = self.readers.completed()
            if job == NULL:
                return
            fetch = <DiskFetch*> job.owner
            fetch.in_flight = False
            self.in_flight -= 1
            self.failed += job.status == IO_ERROR
            fetch.done(fetch.service, self, fetch)

    cdef bint drained(self) noexcept nogil:
        return self.in_flight == 0
