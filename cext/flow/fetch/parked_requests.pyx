"""Requests that wait for a record from the disk. See parked_requests.pxd."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from cext.base.check cimport check
from cext.base.status cimport CLOSED, CORRUPT, NOT_READY, OK, TOO_LARGE
from cext.flow.fetch.disk_fetch cimport fetch_into, fetch_one


cdef void release(ParkedRequests* x, ParkedRequest* request) noexcept nogil:
    check(request.held_bytes <= x.held_bytes, b"parked requests: the bytes of one are counted",
          request.held_bytes, x.held_bytes)
    x.held_bytes -= request.held_bytes
    free(request.large)
    free(request)


cdef bint has_its_share(const ParkedRequests* x, uint64_t connection_id) noexcept nogil:
    """Whether half of the places are this client's; clients that have left do not count."""
    cdef int32_t i, own = 0
    for i in range(x.count):
        own += connection_id != 0 and x.requests[i].connection_id == connection_id
    return own >= PARKED_MAX // 2


cdef bint read_larger(ParkedRequests* x, FetchPool pool, ParkedRequest* request) noexcept nogil:
    """Reads once more, with the memory that the record needs. False: there is no memory."""
    cdef uint32_t size = request.fetch.read.sizes[0]
    if (request.large != NULL or size > pool.buffer_bytes
            or x.held_bytes + size > PARKED_BYTES):
        return False
    request.large = <uint8_t*> malloc(size)
    if request.large == NULL:
        return False
    request.held_bytes += size
    x.held_bytes += size
    fetch_into(request.fetch, request.large, size)
    return pool.submit(request.fetch) == OK


cdef inline void check_read(const ParkedRequests* x) noexcept nogil:
    check(x.read_count < x.count, b"parked requests: no more are read than are parked",
          x.read_count, x.count)


cdef void read_done(void* context, FetchPool pool, DiskFetch* fetch) noexcept nogil:
    cdef ParkedRequest* request = <ParkedRequest*> fetch.owner
    cdef ParkedRequests* x = request.table
    if fetch.read.status == TOO_LARGE and read_larger(x, pool, request):
        return
    check_read(x)
    x.read[x.read_count] = request
    x.read_count += 1


cdef bint park_request(ParkedRequests* x, FetchPool pool, uint64_t connection_id, const Frame* f,
                       bint resubmitted) noexcept nogil:
    cdef ParkedRequest* request
    if (x.count == PARKED_MAX or x.held_bytes + f.total_bytes > PARKED_BYTES
            or has_its_share(x, connection_id)):
        return False
    request = <ParkedRequest*> malloc(sizeof(ParkedRequest) + PARKED_RECORD_BYTES + f.total_bytes)
    if request == NULL:
        return False
    request.fetch = pool.take_bare(read_done, NULL, request)
    if request.fetch == NULL:
        free(request)
        return False
    request.table = x
    request.connection_id = connection_id
    request.resubmitted = resubmitted
    request.large = NULL
    request.frame_bytes = request.held_bytes = f.total_bytes
    memcpy(request.data + PARKED_RECORD_BYTES, f.header - 8, f.total_bytes)   # and its length
    fetch_into(request.fetch, request.data, PARKED_RECORD_BYTES)
    fetch_one(request.fetch, x.wanted)
    if pool.submit(request.fetch) != OK:
        pool.release(request.fetch)
        free(request)
        return False
    x.held_bytes += request.held_bytes
    x.requests[x.count] = request
    x.count += 1
    x.records += 1
    return True


cdef ParkedRequest* parked_begin(ParkedRequests* x, FetchPool pool) noexcept nogil:
    cdef ParkedRequest* request
    cdef DiskFetch* fetch
    if x.read_count == 0:
        return NULL
    check(x.given < 0, b"parked requests: one after the other finds its record", x.given,
          x.read_count)
    request = x.read[0]
    fetch = request.fetch
    x.read_count -= 1
    memmove(x.read, x.read + 1, x.read_count * sizeof(ParkedRequest*))
    x.given = fetch.read.offsets[0]
    x.given_status = OK
    x.bytes = fetch.read.buffer
    x.byte_count = fetch.read.done_bytes
    if fetch.read.status == CLOSED or (
            fetch.read.status == TOO_LARGE and fetch.read.sizes[0] <= pool.buffer_bytes):
        x.given_status = NOT_READY
    elif fetch.read.status != OK:
        x.given_status = CORRUPT
    return request


cdef void parked_again(ParkedRequests* x, ParkedRequest* request) noexcept nogil:
    check_read(x)
    x.given = -1
    memmove(x.read + 1, x.read, x.read_count * sizeof(ParkedRequest*))
    x.read[0] = request
    x.read_count += 1


cdef int32_t place_of(ParkedRequests* x, ParkedRequest* request) noexcept nogil:
    cdef int32_t i
    for i in range(x.count):
        if x.requests[i] == request:
            return i
    return -1


cdef void parked_end(ParkedRequests* x, FetchPool pool, ParkedRequest* request) noexcept nogil:
    cdef int32_t place = place_of(x, request)
    check(place >= 0, b"parked requests: one that ends is parked", x.count, x.read_count)
    x.given = -1
    x.count -= 1
    x.requests[place] = x.requests[x.count]
    pool.release(request.fetch)
    release(x, request)
    check(x.count > 0 or x.held_bytes == 0,
          b"parked requests: no bytes are counted when none is parked", x.count, x.held_bytes)


cdef void parked_free(ParkedRequests* x) noexcept nogil:
    cdef int32_t i
    for i in range(x.count):
        release(x, x.requests[i])
    x.count = x.read_count = 0
