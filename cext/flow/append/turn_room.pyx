"""Turn room. See turn_room.pxd."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t

from cext.base.atomics cimport load_acquire_i64
from cext.base.check cimport check
from cext.base.status cimport NOT_READY, OK, POOL_EMPTY, RING_FULL
from cext.flow.append.appender cimport DISPATCH_MAX
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep, StepDrained
from cext.store.queues.queue_store cimport queue_room

cdef enum:
    POOL_WAIT_US = 1000000      # osPageCacheBusyTimeOutMills of RocketMQ
    BLOCKS_WAIT_US = 20000      # in one turn, so that its other work is not held up for longer
    MARGIN_BYTES = 64           # most bytes of the ring that reserve() keeps free


cdef inline int64_t record_room(Appender s) noexcept nogil:
    return s.log.max_record_bytes + MARGIN_BYTES


cdef inline int64_t ring_room(Appender s) noexcept nogil:
    return (min(s.log.marks.written, s.log.pinned_low) + <int64_t> s.log.ring.size - MARGIN_BYTES
            - s.log.marks.appended)


cdef inline int32_t list_room(Appender s) noexcept nogil:
    if s.queue_status != OK:
        return 0                        # the entries in it come first
    return s.dispatch_max


cdef inline int64_t moved(Appender s) noexcept nogil:
    """A number that grows whenever a mark of the log moves."""
    return s.log.marks.appended + s.log.marks.written + s.log.marks.dispatched


cdef void room_open(Appender s) noexcept nogil:
    check(s.dispatch_max >= DISPATCH_MAX, b"an empty turn has room for the largest batch",
          s.dispatch_max, DISPATCH_MAX)
    check(2 * record_room(s) <= <int64_t> s.log.ring.size,
          b"an empty turn has room for the largest record, and for another's view of the log",
          record_room(s), <int64_t> s.log.ring.size)
    s.room.blocks_late = -1
    room_turn(s)


cdef bint wait_for_pool(Appender s) noexcept nogil:
    """False: the pool is full and the committer does not get on."""
    if not s.log.pooled or ring_room(s) >= s.room.bytes_wanted:
        return True
    # As without a pool, the reactor waits for the page cache, but not for ever.
    if not s.log.wait_for_commit(POOL_WAIT_US):
        return False
    write_and_dispatch(s)
    return True


cdef bint wait_for_blocks(Appender s) noexcept nogil:
    """Waits for blocks, over several turns if need be. False: they do not come."""
    cdef int64_t room = load_acquire_i64(&s.log.link.room)
    if s.room.blocks_wanted == 0 or s.log.wait_for_room(s.room.blocks_wanted, BLOCKS_WAIT_US):
        s.room.blocks_since_ms = 0
        return True
    if s.room.blocks_since_ms == 0:
        s.room.blocks_since_ms = s.turn.now_ms
    if s.turn.now_ms - s.room.blocks_since_ms <= s.turn.options.page_cache_busy_ms:
        return True
    s.room.blocks_since_ms = 0
    s.room.blocks_late = room
    return False


cdef void room_turn(Appender s) noexcept nogil:
    cdef bint comes_on = not s.room.turn_full or (wait_for_pool(s) and wait_for_blocks(s))
    if not s.room.turn_full:
        s.room.blocks_since_ms = 0
    s.room.stuck = s.room.turn_full and (
        not comes_on or (moved(s) == s.room.moved_before and s.room.blocks_since_ms == 0))
    s.room.moved_before = moved(s)
    s.room.list_end = list_room(s)
    s.room.log_end = INT64_MAX
    if s.room.owed:
        s.room.list_end -= s.dispatch_max // 2
        s.room.log_end = s.log.marks.written + <int64_t> s.log.ring.size - record_room(s)
    s.room.turn_full = s.room.owed = False
    s.room.bytes_wanted = s.room.blocks_wanted = 0
    s.room.connections_first = True


cdef void room_rest(Appender s) noexcept nogil:
    s.room.list_end = list_room(s)
    s.room.log_end = INT64_MAX
    s.room.connections_first = False


cdef int no_room(Appender s, uint32_t bytes) noexcept nogil:
    if s.queue_status != OK:
        return s.queue_status if s.queue_status != POOL_EMPTY else NOT_READY
    if ((s.room.stuck and moved(s) == s.room.moved_before)
            or (s.log.pooled and s.turn.options.pool_fail_fast)):
        s.turn.counters.tail_full += 1
        return NOT_READY
    s.room.turn_full = True
    s.room.bytes_wanted = max(s.room.bytes_wanted, <int64_t> bytes)
    s.room.owed = s.room.owed or not s.room.connections_first
    return RING_FULL


cdef int append_room(Appender s, Queue* queue, uint32_t bytes, int32_t records) noexcept nogil:
    cdef int status
    if (s.dispatch_count + records > s.room.list_end
            or s.log.marks.appended + bytes > s.room.log_end):
        return no_room(s, bytes)
    status = queue_room(s.queues, queue)
    if status != OK:
        return status if status != POOL_EMPTY else NOT_READY
    if s.log.reserve(bytes, &status) != NULL:
        return OK
    return status if status != RING_FULL else no_room(s, bytes)


cdef int send_room(Appender s, Queue* queue, uint32_t bytes, int32_t records) noexcept nogil:
    cdef int status = append_room(s, queue, bytes, records)
    if status == NOT_READY and load_acquire_i64(&s.log.link.room) > s.log.room_end:
        status = append_room(s, queue, bytes, records)      # blocks have just come
    if (status != NOT_READY or not s.log.awaits_room(bytes)
            or load_acquire_i64(&s.log.link.room) == s.room.blocks_late):
        return status
    status = no_room(s, bytes)
    if status == RING_FULL:
        s.room.blocks_wanted = max(s.room.blocks_wanted, <int64_t> bytes)
    return status


cdef int turn_room(Appender s, uint32_t bytes, int32_t records) noexcept nogil:
    if (s.dispatch_count + records > s.room.list_end
            or s.log.marks.appended + bytes > s.room.log_end
            or ring_room(s) < <int64_t> bytes):
        return no_room(s, bytes)
    return OK


# ------------------------------------------------------------------- the turn

cdef bint was_full(Appender s) noexcept nogil:
    """Whether something waits for the room that the next turn begins with."""
    return s.room.turn_full or s.turn.net.place.connection != NULL


cdef int32_t room_wait(Appender s) noexcept nogil:
    return 0 if was_full(s) else NO_WAIT


cdef bint is_roomy(Appender s) noexcept nogil:
    return not was_full(s)


cdef Step room_step(Appender s) noexcept:
    return Step(b"room", <void*> s, <RunStep> room_turn, <NextWait> room_wait,
                <StepDrained> is_roomy)


cdef Step whole_room_step(Appender s) noexcept:
    return Step(b"whole room", <void*> s, <RunStep> room_rest, NULL, NULL)
