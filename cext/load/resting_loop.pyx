"""Resting loop. See resting_loop.pxd."""
from libc.stdint cimport int64_t

from cext.load.event_loop cimport WAIT_NS_MAX


cdef class RestingLoop(EventLoop):
    cdef void rest(self, bint* resting) noexcept nogil:
        if not resting[0]:
            resting[0] = True
            self.resting_count += 1

    cdef bint wake(self, bint* resting) noexcept nogil:
        if not resting[0]:
            return False
        resting[0] = False
        self.resting_count -= 1
        return True

    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil:
        pass

    cdef void ask_all(self, bint only_resting, int64_t now) noexcept nogil:
        self.ask_each(only_resting, now)
        self.rested_ns = now
        self.flush_all()

    cdef void begin(self, int64_t now) noexcept nogil:
        self.ask_all(False, now)

    cdef void send_due(self, int64_t now) noexcept nogil:
        if self.resting_count and now - self.rested_ns >= REST_NS:
            self.ask_all(True, now)

    cdef int64_t poll_timeout_ns(self, int64_t now) noexcept nogil:
        return REST_NS if self.resting_count else WAIT_NS_MAX
