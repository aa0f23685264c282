"""HA sender: as master, the log on its way to each slave.

What the turn has written leaves in the same turn, while its own sync runs: one frame of header and
pieces of the tail ring, without a copy. A slave that is behind gets older bytes the same way from
mapped pages that are in memory; otherwise a disk reader brings them, one piece at a time.

    one slave in one turn: send_bytes at most, and nothing while its socket has not taken the last

So a slave that catches up takes no more of a turn than that, and a slave that does not read costs
nothing. The reactor waits for neither.

Example: 64 sends of a turn make 20 KB of the log: after the turn's pwrite one frame of them goes to
each of two slaves that had all before it, with the turn's writev.

Reactor only.
"""
from cext.flow.context.step cimport Step
from cext.flow.replication.ha_service cimport HAService

# After the turn's write, before its sync.
cdef Step send_log_step(HAService s) noexcept
