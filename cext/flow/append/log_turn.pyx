"""Log turn. See log_turn.pxd."""
from cext.base.status cimport NOT_READY
from cext.flow.append.ack_queue cimport MARK_DURABLE, acks_wait
from cext.flow.context.step cimport RunStep

cdef enum:
    GATHER_PASSES_MAX = 64      # before a sync


cdef bint log_sleeps(Appender s) noexcept nogil:
    s.log.reactor_sleeps()      # before the look: whoever moves a mark now signals
    return s.log.durable() != s.acks.durable_seen or s.log.commit_moved()


cdef void log_wakes(Appender s) noexcept nogil:
    s.log.reactor_wakes()


cdef void begin_turn(Appender s) noexcept nogil:
    s.log.new_turn()
    s.turn.stalled_ms = s.write_us // 1000
    s.write_us = 0
    s.log.holds_flusher = s.turn.options.sync_flush


cdef void gather(Appender s) noexcept nogil:
    cdef int _pass
    if (not s.turn.options.sync_flush or not acks_wait(&s.acks, MARK_DURABLE)
            or not s.flusher.syncs_here()):
        return
    for _pass in range(GATHER_PASSES_MAX):
        if s.turn.net.place.connection != NULL:
            return                      # full: first sync what is here (turn_room.pxd)
        s.turn.net.poll(0)
        if s.turn.net.event_count <= 0:
            return
        s.turn.net.receive_ready()


cdef void sync_turn(Appender s) noexcept nogil:
    if not s.log.holds_flusher or s.log.marks.written == s.log.durable():
        return
    if acks_wait(&s.acks, MARK_DURABLE) and s.flusher.syncs_here():
        if s.turn.net.dirty_first != NULL:
            s.turn.net.flush()          # answers that need no disk leave first
        if s.flusher.sync_here() != NOT_READY:
            return
    s.log.wake_flusher()


cdef void queues_turn(Appender s) noexcept nogil:
    s.queues.turn(s.turn.wall_ms, s.acks.durable_seen)


cdef Step log_step(Appender s) noexcept:
    return Step(b"log", <void*> s, <RunStep> begin_turn, NULL, NULL)


cdef Step gather_step(Appender s) noexcept:
    return Step(b"gather", <void*> s, <RunStep> gather, NULL, NULL)


cdef Step sync_step(Appender s) noexcept:
    return Step(b"sync", <void*> s, <RunStep> sync_turn, NULL, NULL)


cdef Step queues_step(Appender s) noexcept:
    return Step(b"queues", <void*> s, <RunStep> queues_turn, NULL, NULL)
