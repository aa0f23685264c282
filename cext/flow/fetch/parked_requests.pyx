"""Requests that wait for a record from the disk. See parked_requests.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from cext.base.status cimport CLOSED, CORRUPT, IO_ERROR, NOT_READY, OK, TOO_LARGE
from cext.flow.fetch.parked_state cimport PARKED_BYTES, PARKED_MAX, PARKED_RECORD_BYTES
from cext.flow.replying cimport tell_event
from cext.store.disk_reader cimport READ_RECORD


cdef bint submit(ShardState s, ParkedRequest* frame) noexcept nogil:
    frame.read.buffer = frame.large if frame.large != NULL else frame.data
    frame.read.capacity = (frame.read.sizes[0] if frame.large != NULL
                           else <uint32_t> PARKED_RECORD_BYTES)
    if s.readers.submit(&frame.read) != OK:
        return False
    s.reading_count += 1
    return True


cdef void release(ParkedRequests* x, ParkedRequest* frame) noexcept nogil:
    x.held_bytes -= frame.held_bytes
    free(frame.large)
    free(frame)


cdef bint has_its_share(const ParkedRequests* x, uint64_t connection_id) noexcept nogil:
    """Whether this client's requests are half of all already; of those that left none is one."""
    cdef int32_t i, own = 0
    for i in range(x.count):
        own += connection_id != 0 and x.frames[i].connection_id == connection_id
    return own >= PARKED_MAX // 2


cdef bint park_request(ShardState s, Connection* c, const Frame* f,
                       bint resubmitted) noexcept nogil:
    cdef ParkedRequest* frame
    if (s.parked.count == PARKED_MAX or s.parked.held_bytes + f.total_bytes > PARKED_BYTES
            or has_its_share(&s.parked, c.id)):
        return False
    frame = <ParkedRequest*> malloc(sizeof(ParkedRequest) + PARKED_RECORD_BYTES + f.total_bytes)
    if frame == NULL:
        return False
    frame.connection_id = c.id
    frame.resubmitted = resubmitted
    frame.large = NULL
    frame.frame_bytes = frame.held_bytes = f.total_bytes
    memcpy(frame.data + PARKED_RECORD_BYTES, f.header - 8, f.total_bytes)   # the length bytes too
    frame.read.kind = READ_RECORD
    frame.read.count = 1
    frame.read.offsets[0] = s.parked.wanted
    frame.read.owner = <void*> frame
    if not submit(s, frame):
        free(frame)
        return False
    s.parked.held_bytes += frame.held_bytes
    s.parked.frames[s.parked.count] = frame
    s.parked.count += 1
    s.parked.records += 1
    return True


cdef void parked_read(ShardState s, ReadJob* job) noexcept nogil:
    cdef ParkedRequest* frame = <ParkedRequest*> job.owner
    cdef uint64_t size = job.sizes[0]
    s.reading_count -= 1
    if (job.status == TOO_LARGE and frame.large == NULL and size <= s.net.jumbo_bytes
            and s.parked.held_bytes + size <= PARKED_BYTES):
        frame.large = <uint8_t*> malloc(size)
        if frame.large != NULL:
            frame.held_bytes += size
            s.parked.held_bytes += size
            if submit(s, frame):
                return
    s.parked.read[s.parked.read_count] = frame
    s.parked.read_count += 1


cdef ParkedRequest* parked_begin(ShardState s) noexcept nogil:
    cdef ParkedRequests* x = &s.parked
    cdef ParkedRequest* frame
    if x.read_count == 0:
        return NULL
    frame = x.read[0]
    x.read_count -= 1
    memmove(x.read, x.read + 1, x.read_count * sizeof(ParkedRequest*))
    x.given = frame.read.offsets[0]
    x.given_status = OK
    x.bytes = frame.read.buffer
    x.byte_count = frame.read.done_bytes
    if frame.read.status == CLOSED or (
            frame.read.status == TOO_LARGE and frame.read.sizes[0] <= s.net.jumbo_bytes):
        x.given_status = NOT_READY
    elif frame.read.status != OK:
        x.given_status = CORRUPT
        if frame.read.status == IO_ERROR:
            tell_event(s, NULL, b"a record that a request speaks of cannot be read from the disk")
    return frame


cdef void parked_end(ShardState s, ParkedRequest* frame) noexcept nogil:
    cdef ParkedRequests* x = &s.parked
    cdef int32_t i
    x.given = -1
    for i in range(x.count):
        if x.frames[i] == frame:
            x.count -= 1
            x.frames[i] = x.frames[x.count]
            break
    release(x, frame)


cdef void parked_free(ParkedRequests* x) noexcept nogil:
    cdef int32_t i
    for i in range(x.count):
        release(x, x.frames[i])
    x.count = x.read_count = 0
