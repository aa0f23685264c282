"""A stored record that a request names by its log offset. See log_view.pxd."""
from libc.stdint cimport uint8_t, uint32_t

from cext.base.byteorder cimport load_u32
from cext.base.status cimport ABSENT, CORRUPT, OK
from cext.store.log.record cimport RECORD_BYTES_MIN, record_parse


cdef int view_given(ParkedRequests* parked, int64_t offset, RecordView* view) noexcept nogil:
    """The record that has been read for the request, if it is the one at `offset`."""
    if parked.given != offset:
        parked.wanted = offset
        return ABSENT
    if parked.given_status != OK:
        return parked.given_status
    return record_parse(parked.bytes, parked.byte_count, offset, False, view)


cdef int view_record(CommitLog log, ParkedRequests* parked, int64_t offset,
                     RecordView* view) noexcept nogil:
    cdef const uint8_t* at
    cdef uint32_t bytes
    cdef bint in_ring
    cdef int status
    if offset < log.min_offset() or offset > log.marks.written - RECORD_BYTES_MIN:
        return CORRUPT
    status = log.view(offset, RECORD_BYTES_MIN, &at)
    if status != OK:
        return view_given(parked, offset, view) if status == ABSENT else CORRUPT
    bytes = load_u32(at)
    if bytes < RECORD_BYTES_MIN or bytes > log.max_record_bytes \
            or offset + bytes > log.marks.written:
        return CORRUPT
    status = log.view(offset, bytes, &at)
    if status != OK:
        return view_given(parked, offset, view) if status == ABSENT else CORRUPT
    in_ring = at >= log.ring.base and at < log.ring.base + 2 * log.ring.size
    if record_parse(at, bytes, offset, not in_ring, view) != OK:
        return CORRUPT
    return OK
