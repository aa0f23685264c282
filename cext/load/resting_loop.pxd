# Resting loop: what consumer and popper have in common beyond the event loop. Each of their places
# (a queue, a slot) asks again by itself after an answer. A place that found nothing rests; all that
# rest ask again together, at most every REST_NS.

from libc.stdint cimport int64_t, uint32_t

from cext.load.event_loop cimport EventLoop

cdef enum:
    REST_NS = 10_000_000


cdef class RestingLoop(EventLoop):
    cdef uint32_t resting_count
    cdef int64_t rested_ns       # when the resting places last asked again

    cdef void rest(self, bint* resting) noexcept nogil
    # The place no longer rests. False: it did not rest.
    cdef bint wake(self, bint* resting) noexcept nogil
    cdef void ask_all(self, bint only_resting, int64_t now) noexcept nogil

    # Subclasses override it: each place asks, or each for which wake() is true.
    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil
