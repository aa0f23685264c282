"""Log copy. See log_copy.pxd."""
from cext.base.status cimport OK, POISONED, RING_FULL
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.store.log.raw_append cimport raw_append


cdef int copy_log(Appender s, int64_t offset, const uint8_t* bytes, uint32_t count, uint32_t* taken,
                  int32_t* problem) noexcept nogil:
    cdef int64_t began = s.log.marks.appended
    cdef int64_t at = offset
    cdef int status
    taken[0] = 0
    problem[0] = 0
    while True:
        status = raw_append(s.log, at, bytes + taken[0], count - taken[0], problem)
        taken[0] = <uint32_t> min(<int64_t> count, s.log.marks.appended - began)
        if status != RING_FULL or s.log.marks.appended == at:
            return status
        at = s.log.marks.appended           # after a write-out there is room for more
        if write_and_dispatch(s) != OK:
            return POISONED
