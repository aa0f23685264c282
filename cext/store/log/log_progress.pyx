"""Log lines about how far the log has been read. See log_progress.pxd."""
import logging

from cext.base.clock cimport monotonic_us

PROGRESS_S = 5
PROGRESS_BYTES = 32 << 20
lines = logging.getLogger("rmq.broker.store")


cdef class LogProgress:
    def __cinit__(self):
        self.interval_us = <int64_t> (PROGRESS_S * 1e6)
        self.bytes = PROGRESS_BYTES

    cdef void begin(self, int64_t from_offset, int64_t end_offset) noexcept nogil:
        self.from_offset, self.end_offset = from_offset, end_offset
        self.look_at = from_offset + self.bytes
        self.began_us = self.line_us = monotonic_us()

    cdef void look(self, int64_t position) noexcept nogil:
        cdef int64_t now_us = monotonic_us()
        self.look_at = position + self.bytes
        if now_us - self.line_us >= self.interval_us:
            self.line_us = now_us
            with gil:
                self._tell(position, (now_us - self.began_us) / 1e6)

    cdef int _tell(self, int64_t position, double seconds) except -1:
        cdef int64_t done = position - self.from_offset
        cdef int64_t left = max(self.end_offset - position, <int64_t> 0)
        lines.info("store: the commit log is read before the broker serves: %d of %d MiB, at "
                   "most %d s to go", done >> 20, (done + left) >> 20,
                   round(seconds * left / max(done, <int64_t> 1)))
        return 0
