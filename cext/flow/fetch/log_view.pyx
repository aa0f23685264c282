"""A stored record that a request names by its log offset. See log_view.pxd."""
from libc.stdint cimport uint8_t, uint32_t

from cext.base.byteorder cimport load_u32
from cext.base.status cimport ABSENT, CORRUPT, OK
from cext.store.record cimport RECORD_BYTES_MIN, record_parse


cdef int view_given(ShardState s, int64_t offset, RecordView* view) noexcept nogil:
    """The record that has been read for the request, if it is this one."""
    if s.parked.given != offset:
        s.parked.wanted = offset
        return ABSENT
    if s.parked.given_status != OK:
        return s.parked.given_status
    return record_parse(s.parked.bytes, s.parked.byte_count, offset, False, view)


cdef int view_record(ShardState s, int64_t offset, RecordView* view) noexcept nogil:
    cdef const uint8_t* at
    cdef uint32_t bytes
    cdef bint in_ring
    cdef int status
    if offset < s.log.min_offset() or offset > s.log.marks.written - RECORD_BYTES_MIN:
        return CORRUPT
    status = s.log.view(offset, RECORD_BYTES_MIN, &at)
    if status != OK:
        return view_given(s, offset, view) if status == ABSENT else CORRUPT
    bytes = load_u32(at)
    if bytes < RECORD_BYTES_MIN or bytes > s.log.max_record_bytes \
            or offset + bytes > s.log.marks.written:
        return CORRUPT
    status = s.log.view(offset, bytes, &at)
    if status != OK:
        return view_given(s, offset, view) if status == ABSENT else CORRUPT
    in_ring = at >= s.log.ring.base and at < s.log.ring.base + 2 * s.log.ring.size
    if record_parse(at, bytes, offset, not in_ring, view) != OK:
        return CORRUPT
    return OK
