"""HA sync state set: as master, whose acks an answer waits for.

    without a controller    slaves_needed of all that follow, no matter which
    under a controller      every member of the sync state set: `members`, by broker id. A member
                            that is not connected reports nothing new, so `replicated` stands still
                            until it is back, or is no longer a member

Under a controller, consumers also see only what all members have: `visible` moves with
`replicated`, and when the set gets its first other member, `visible` begins where consumers are at
that time. With no other member everything that is written is visible, and answers wait for nobody.

A set of which too few answer (minInSyncReplicas) must not make promises easier: then `replicated`
stands still, what waits is answered SLAVE_NOT_AVAILABLE, and nothing new is taken. Nor does a
master that is alone then show more than before: it may have the only copy.

Example: members {2, 3} have reported 1000 and 400: replicated = visible = 400. When 3 is taken out
of the set, they become 1000.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.replication.ha_service cimport HAService

# `ids`: the other members. `short`: with them the set is too small. Returns an offset that a new
# member must have reached before it may be relied on: all that was answered without it is below.
cdef int64_t set_sync_state_set(HAService s, const int64_t* ids, int32_t count,
                                bint short) noexcept nogil
# Goes back to a number of slaves; at a master everything is visible.
cdef void clear_sync_state_set(HAService s) noexcept nogil
# Moves the marks; called after a change of the set, and when a slave came, went or reported.
cdef void move_replicated(HAService s) noexcept nogil
