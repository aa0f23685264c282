"""HA lease: until when this master may acknowledge (turn.role), as its controller granted.

The control thread renews it. Once it is over, another broker may be master: nothing is taken any
more, and requests that wait are refused, until the control thread grants a new lease. The lease is
looked at before a turn takes anything, when the control thread changes it, and, because the process
may have stood still in between, by a fresh clock whenever answers are released
(append/acknowledgement). It is counted by the clock that goes on while the machine is suspended, as
that of the controller does.

Example: a lease up to 105.0 s. The process is stopped at 103 s and goes on at 123 s: a slave's
report that lies in its socket moves `replicated`, and yet nobody is answered.

Reactor only.
"""
from libc.stdint cimport int64_t

from cext.flow.context.step cimport Step
from cext.flow.replication.ha_service cimport HAService

# Grants the lease up to `end_ms` of boot_ms(), or ends it at once: then not even this turn's
# deliveries append any more.
cdef void grant_lease(HAService s, int64_t end_ms) noexcept nogil
# Looks at the lease before anything is received.
cdef Step lease_step(HAService s) noexcept
