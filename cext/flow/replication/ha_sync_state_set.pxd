"""HA sync state set: as master, whose acks an answer waits for.

    without a controller    slaves_needed of all that follow, whoever they are
    under a controller      every member of the sync state set: `members`, by broker id. One that
                            is not connected has said nothing new, so `replicated` stands still
                            until it is back, or is no member any more

Under a controller consumers see only what all members have, too: `visible` moves with
`replicated`, and when the set has grown it begins where consumers are by then. With no other member
everything that is written is visible, and answers wait for nobody.

Nor does a set that is too small (minInSyncReplicas) promise anything by having become so: then
`replicated` stands still, what waits is answered SLAVE_NOT_AVAILABLE, and nothing new is taken.

Example: members {2, 3} have said 1000 and 400: replicated = visible = 400. 3 is taken out of the
set: 1000.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.replication.ha_service cimport HAService

# `ids`: the others of the set. `short`: with them it is too small. Returns an offset that a member
# who is new must have, before it may be relied on: all that was answered without it is below.
cdef int64_t set_sync_state_set(HAService s, const int64_t* ids, int32_t count,
                                bint short) noexcept nogil
# A number of slaves again, and at a master all is visible.
cdef void clear_sync_state_set(HAService s) noexcept nogil
# After something of it was changed, and when a slave came, went or reported.
cdef void move_replicated(HAService s) noexcept nogil
