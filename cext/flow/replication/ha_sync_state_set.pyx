"""HA sync state set. See ha_sync_state_set.pxd."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from cext.flow.append.log_marks cimport (
    replicated_raise,
    visible_all,
    visible_limit,
    visible_raise,
)
from cext.flow.context.role cimport (
    FACT_SET_SHORT,
    FACT_SLAVES_MISSING,
    is_slave,
    role_set,
    set_is_short,
)
from cext.flow.replication.ha_service cimport UNKNOWN
from cext.wire.limits cimport SLAVES_MAX


cdef void move_by_number(HAService s) noexcept nogil:
    """Moves as far as the slaves_needed-th slave is, counted from the one that has most."""
    cdef int64_t most[SLAVES_MAX]
    cdef int64_t acked
    cdef int32_t count = 0
    cdef int32_t i, at
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == NULL or s.slaves[i].acked == UNKNOWN:
            continue
        acked = s.slaves[i].acked
        at = count
        while at > 0 and most[at - 1] < acked:
            most[at] = most[at - 1]
            at -= 1
        most[at] = acked
        count += 1
    role_set(&s.turn.role, FACT_SLAVES_MISSING, count < s.slaves_needed)
    if 0 < s.slaves_needed <= count:
        replicated_raise(s.append, most[s.slaves_needed - 1])


cdef int64_t acked_by(HAService s, int64_t broker_id) noexcept nogil:
    """UNKNOWN: it is not connected, or has not reported yet."""
    cdef int32_t i
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection != NULL and s.slaves[i].broker_id == broker_id:
            return s.slaves[i].acked
    return UNKNOWN


cdef void move_by_members(HAService s) noexcept nogil:
    cdef int64_t low = s.append.log.marks.appended
    cdef int64_t acked
    cdef int32_t i
    for i in range(s.member_count):
        acked = acked_by(s, s.members[i])
        if acked == UNKNOWN:
            return
        low = min(low, acked)
    if not set_is_short(&s.turn.role):
        replicated_raise(s.append, low)
    if s.member_count > 0 and not is_slave(&s.turn.role):
        visible_raise(s.append, low)


cdef void move_replicated(HAService s) noexcept nogil:
    if s.by_sync_state_set:
        move_by_members(s)
    else:
        move_by_number(s)


cdef int64_t set_sync_state_set(HAService s, const int64_t* ids, int32_t count,
                                bint short) noexcept nogil:
    cdef int32_t i
    if not is_slave(&s.turn.role):
        if count == 0 and not short:
            visible_all(s.append)
        elif s.append.log.marks.visible == INT64_MAX:
            visible_limit(s.append, s.append.log.marks.dispatched)
    for i in range(count):
        s.members[i] = ids[i]
    s.member_count = count
    s.by_sync_state_set = True
    role_set(&s.turn.role, FACT_SET_SHORT | FACT_SLAVES_MISSING, short)
    s.turn.options.sync_replicas = count > 0
    move_by_members(s)
    return s.append.log.marks.appended


cdef void clear_sync_state_set(HAService s) noexcept nogil:
    if s.by_sync_state_set:
        s.by_sync_state_set = False
        s.member_count = 0
        if not is_slave(&s.turn.role):   # a slave sees what its master confirms
            visible_all(s.append)
