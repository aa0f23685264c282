"""Requests that wait for a record from the disk. See asked.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from cext.base.status cimport CLOSED, CORRUPT, IO_ERROR, NOT_READY, OK, TOO_LARGE
from cext.flow.log.asked_state cimport ASKED_BYTES, ASKED_MAX, ASKED_RECORD_BYTES
from cext.flow.replying cimport tell_event
from cext.store.disk_reader cimport READ_RECORD


cdef bint submit(ShardState s, AskedFrame* frame) noexcept nogil:
    frame.read.buffer = frame.large if frame.large != NULL else frame.data
    frame.read.capacity = (frame.read.sizes[0] if frame.large != NULL
                           else <uint32_t> ASKED_RECORD_BYTES)
    if s.readers.submit(&frame.read) != OK:
        return False
    s.reading_count += 1
    return True


cdef void release(Asked* x, AskedFrame* frame) noexcept nogil:
    x.held_bytes -= frame.held_bytes
    free(frame.large)
    free(frame)


cdef bint has_its_share(const Asked* x, uint64_t connection_id) noexcept nogil:
    """Whether this client's requests are half of all already; of those that left none is one."""
    cdef int32_t i, own = 0
    for i in range(x.count):
        own += connection_id != 0 and x.frames[i].connection_id == connection_id
    return own >= ASKED_MAX // 2


cdef bint ask_record(ShardState s, Connection* c, const Frame* f, bint resubmitted) noexcept nogil:
    cdef AskedFrame* frame
    if (s.asked.count == ASKED_MAX or s.asked.held_bytes + f.total_bytes > ASKED_BYTES
            or has_its_share(&s.asked, c.id)):
        return False
    frame = <AskedFrame*> malloc(sizeof(AskedFrame) + ASKED_RECORD_BYTES + f.total_bytes)
    if frame == NULL:
        return False
    frame.connection_id = c.id
    frame.resubmitted = resubmitted
    frame.large = NULL
    frame.frame_bytes = frame.held_bytes = f.total_bytes
    memcpy(frame.data + ASKED_RECORD_BYTES, f.header - 8, f.total_bytes)   # the length bytes too
    frame.read.kind = READ_RECORD
    frame.read.count = 1
    frame.read.offsets[0] = s.asked.wanted
    frame.read.owner = <void*> frame
    if not submit(s, frame):
        free(frame)
        return False
    s.asked.held_bytes += frame.held_bytes
    s.asked.frames[s.asked.count] = frame
    s.asked.count += 1
    s.asked.records += 1
    return True


cdef void asked_read(ShardState s, ReadJob* job) noexcept nogil:
    cdef AskedFrame* frame = <AskedFrame*> job.owner
    cdef uint64_t size = job.sizes[0]
    s.reading_count -= 1
    if (job.status == TOO_LARGE and frame.large == NULL and size <= s.net.jumbo_bytes
            and s.asked.held_bytes + size <= ASKED_BYTES):
        frame.large = <uint8_t*> malloc(size)
        if frame.large != NULL:
            frame.held_bytes += size
            s.asked.held_bytes += size
            if submit(s, frame):
                return
    s.asked.read[s.asked.read_count] = frame
    s.asked.read_count += 1


cdef AskedFrame* asked_begin(ShardState s) noexcept nogil:
    cdef Asked* x = &s.asked
    cdef AskedFrame* frame
    if x.read_count == 0:
        return NULL
    frame = x.read[0]
    x.read_count -= 1
    memmove(x.read, x.read + 1, x.read_count * sizeof(AskedFrame*))
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


cdef void asked_end(ShardState s, AskedFrame* frame) noexcept nogil:
    cdef Asked* x = &s.asked
    cdef int32_t i
    x.given = -1
    for i in range(x.count):
        if x.frames[i] == frame:
            x.count -= 1
            x.frames[i] = x.frames[x.count]
            break
    release(x, frame)


cdef void asked_free(Asked* x) noexcept nogil:
    cdef int32_t i
    for i in range(x.count):
        release(x, x.frames[i])
    x.count = x.read_count = 0
