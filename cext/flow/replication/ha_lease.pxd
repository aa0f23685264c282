"""HA lease: until when this master may acknowledge (turn.role), as its controller granted.

The control thread renews it. Once it is over another broker may be master: nothing is taken any
more, and what waits is refused, until the control thread grants a new one. That is looked at before
a turn takes anything, when the control thread says so, and by a fresh clock whenever answers are
released (append/acknowledgement), as the process may have stood still in between.

Example: a lease up to 105.0 s. The process is stopped at 103 s and goes on at 123 s: a report of a
slave that lies in its socket moves `replicated`, and yet nobody is answered.

Reactor only.
"""
from libc.stdint cimport int64_t

from cext.flow.context.step cimport Step
from cext.flow.replication.ha_service cimport HAService

# Grants it, or ends it at once: behind that not even this turn's deliveries append.
cdef void grant_lease(HAService s, int64_t end_ms) noexcept nogil
# Before anything is received.
cdef Step lease_step(HAService s) noexcept
