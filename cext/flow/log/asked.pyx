"""Requests that wait for a record from the disk. See asked.pxd."""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from cext.base.status cimport CLOSED, CORRUPT, IO_ERROR, NOT_READY, OK, TOO_LARGE
from cext.flow.log.asked_state cimport ASKED_MAX, ASKED_RECORD_BYTES
from cext.flow.replying cimport tell_event
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.store.disk_reader cimport READ_RECORD


cdef bint submit(ShardState s, AskedFrame* frame) noexcept nogil:
    frame.read.buffer = frame.jumbo if frame.jumbo != NULL else frame.data
    frame.read.capacity = (<uint32_t> s.net.jumbo_bytes if frame.jumbo != NULL
                           else <uint32_t> ASKED_RECORD_BYTES)
    if s.readers.submit(&frame.read) != OK:
        return False
    s.reading_count += 1
    return True


cdef bint ask_record(ShardState s, Connection* c, const Frame* f, bint resubmitted) noexcept nogil:
    cdef AskedFrame* frame
    if s.asked.count == ASKED_MAX:
        return False
    frame = <AskedFrame*> malloc(sizeof(AskedFrame) + ASKED_RECORD_BYTES + f.total_bytes)
    if frame == NULL:
        return False
    frame.connection_id = c.id
    frame.resubmitted = resubmitted
    frame.jumbo = NULL
    frame.frame_bytes = f.total_bytes
    memcpy(frame.data + ASKED_RECORD_BYTES, f.header - 8, f.total_bytes)   # the length bytes too
    frame.read.kind = READ_RECORD
    frame.read.count = 1
    frame.read.offsets[0] = s.asked.wanted
    frame.read.owner = <void*> frame
    if not submit(s, frame):
        free(frame)
        return False
    s.asked.frames[s.asked.count] = frame
    s.asked.count += 1
    s.asked.records += 1
    return True


cdef void asked_read(ShardState s, ReadJob* job) noexcept nogil:
    cdef AskedFrame* frame = <AskedFrame*> job.owner
    s.reading_count -= 1
    if job.status == TOO_LARGE and frame.jumbo == NULL and job.sizes[0] <= s.net.jumbo_bytes:
        frame.jumbo = <uint8_t*> buffer_pool_take(&s.net.jumbo_pool)
        if frame.jumbo != NULL and submit(s, frame):
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
    if frame.jumbo != NULL:
        buffer_pool_release(&s.net.jumbo_pool, frame.jumbo)
    for i in range(x.count):
        if x.frames[i] == frame:
            x.count -= 1
            x.frames[i] = x.frames[x.count]
            break
    free(frame)


cdef void asked_free(Asked* x) noexcept nogil:
    cdef int32_t i
    for i in range(x.count):
        free(x.frames[i])
    x.count = x.read_count = 0
