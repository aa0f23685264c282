# Resting loop: what consumer and popper have in common beyond the event loop. Each of their places
# (a queue, a slot) asks anew by itself after an answer; one that found nothing rests, and all that
# rest ask again together, every REST_NS at most.

from libc.stdint cimport int64_t, uint32_t

from cext.load.event_loop cimport EventLoop

cdef enum:
    REST_NS = 10_000_000


cdef class RestingLoop(EventLoop):
    cdef uint32_t resting_count
    cdef int64_t rested_ns       # when the resting ones asked again last

    cdef void rest(self, bint* resting) noexcept nogil
    # The place rests no more. False: it did not rest.
    cdef bint wake(self, bint* resting) noexcept nogil
    cdef void ask_all(self, bint only_resting, int64_t now) noexcept nogil

    # What the kinds override: has each place ask, or each that wake() says rested.
    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil
