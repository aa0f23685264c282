"""HA lease. See ha_lease.pxd."""
from libc.stdint cimport int64_t

from cext.flow.append.acknowledgement cimport refuse_all
from cext.flow.context.role cimport LEASE_IS_OVER, set_lease_over
from cext.flow.context.step cimport RunStep


cdef void look_at_lease(HAService s) noexcept nogil:
    cdef bint over = s.turn.now_ms >= s.turn.lease_end_ms
    if over != s.turn.lease_over:
        set_lease_over(s.turn, over)
    if over:
        refuse_all(s.append, LEASE_IS_OVER)


cdef void grant_lease(HAService s, int64_t end_ms) noexcept nogil:
    s.turn.lease_end_ms = end_ms
    look_at_lease(s)


cdef Step lease_step(HAService s) noexcept:
    return Step(b"lease", <void*> s, <RunStep> look_at_lease, NULL, NULL)
