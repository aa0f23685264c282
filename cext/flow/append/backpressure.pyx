"""Backpressure. See backpressure.pxd."""
from libc.stdint cimport int32_t

from cext.flow.context.client_state cimport UNREAD_BACKPRESSURE
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep


cdef void backpressure_turn(Appender s) noexcept nogil:
    if not s.log.nearly_full():
        s.backpressure.since_ms = 0
        s.backpressure.leaves_unread = False
    elif s.backpressure.since_ms == 0:
        s.backpressure.since_ms = s.turn.now_ms
        s.backpressure.leaves_unread = True
    elif s.turn.now_ms - s.backpressure.since_ms > s.turn.options.page_cache_busy_ms:
        # Until the next segment is there, and nearly full too.
        s.backpressure.leaves_unread = False
    if not s.backpressure.leaves_unread and s.turn.net.unread_count(UNREAD_BACKPRESSURE) > 0:
        s.turn.net.go_on_reading_all(UNREAD_BACKPRESSURE)


cdef int32_t backpressure_wait(Appender s) noexcept nogil:
    return 1 if s.turn.net.unread_count(UNREAD_BACKPRESSURE) > 0 else NO_WAIT


cdef Step backpressure_step(Appender s) noexcept:
    return Step(b"backpressure", <void*> s, <RunStep> backpressure_turn,
                <NextWait> backpressure_wait, NULL)
