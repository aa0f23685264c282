"""Sends that wait for the log's next segment. See room_wait.pxd."""
from cext.flow.client_state cimport UNREAD_ROOM


cdef void room_turn(ShardState s) noexcept nogil:
    if not s.log.nearly_full():
        s.room_since_ms = 0
        s.room_holds = False
    elif s.room_since_ms == 0:
        s.room_since_ms = s.now_ms
        s.room_holds = True
    elif s.now_ms - s.room_since_ms > s.options.page_cache_busy_ms:
        s.room_holds = False            # until the next one is there and full in its turn
    if not s.room_holds and s.net.unread_count(UNREAD_ROOM) > 0:
        s.net.go_on_reading_all(UNREAD_ROOM)
