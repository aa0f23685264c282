"""Backpressure. See backpressure.pxd."""
from cext.flow.context.client_state cimport UNREAD_BACKPRESSURE


cdef void backpressure_turn(Appender s) noexcept nogil:
    if not s.log.nearly_full():
        s.nearly_full_since_ms = 0
        s.backpressure = False
    elif s.nearly_full_since_ms == 0:
        s.nearly_full_since_ms = s.turn.now_ms
        s.backpressure = True
    elif s.turn.now_ms - s.nearly_full_since_ms > s.turn.options.page_cache_busy_ms:
        s.backpressure = False            # until the next one is there and full in its turn
    if not s.backpressure and s.turn.net.unread_count(UNREAD_BACKPRESSURE) > 0:
        s.turn.net.go_on_reading_all(UNREAD_BACKPRESSURE)
