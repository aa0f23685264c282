"""HA lease. See ha_lease.pxd."""
from libc.stdint cimport INT64_MAX, int64_t

from cext.base.clock cimport boot_ms
from cext.flow.append.acknowledgement cimport refuse_all
from cext.flow.context.role cimport LEASE_IS_OVER, lease_look, role_grant
from cext.flow.context.step cimport RunStep


cdef void look_at_lease(HAService s) noexcept nogil:
    # With no lease every time is before its end, so that no clock is read.
    if lease_look(&s.turn.role, boot_ms() if s.turn.role.lease_end_ms != INT64_MAX else 0):
        refuse_all(s.append, LEASE_IS_OVER)


cdef void grant_lease(HAService s, int64_t end_ms) noexcept nogil:
    role_grant(&s.turn.role, end_ms)
    look_at_lease(s)


cdef Step lease_step(HAService s) noexcept:
    return Step(b"lease", <void*> s, <RunStep> look_at_lease, NULL, NULL)
