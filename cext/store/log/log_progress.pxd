"""Log progress: log lines that say how far a start has read the commit log.

Reading some GB takes long. The cost is a comparison for each record and a look at the clock every
PROGRESS_BYTES; a line is written every PROGRESS_S.

Example: "the commit log is read before the broker serves: 2048 of 81920 MiB, at most 195 s to go".
"""
from libc.stdint cimport int64_t

cdef class LogProgress:
    cdef int64_t from_offset, end_offset, began_us, line_us
    cdef int64_t look_at            # log offset from which on look() must be called
    cdef int64_t interval_us, bytes

    cdef void begin(self, int64_t from_offset, int64_t end_offset) noexcept nogil
    cdef void look(self, int64_t position) noexcept nogil
    cdef int _tell(self, int64_t position, double seconds) except -1
