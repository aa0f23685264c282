"""HA connections: as master, which slaves follow, and how far each is.

A slave's report is its ack: it has the log up to there. ha_sync_state_set.pxd says whose acks move
`marks.replicated`; answers that wait for that mark leave at the end of the same turn
(append/acknowledgement.pxd). While fewer slaves are connected than are needed, the role has
FACT_SLAVES_MISSING, and requests that wait are answered SLAVE_NOT_AVAILABLE at once: stored, but
not replicated.

A master has at most SLAVES_MAX (16) slaves. The connection of one more is closed when it has said
which broker it is, or reports for the first time; the log says so, and the slave tries again.

A report beyond this log's end, below the report before, or below this log's start closes the
connection: that slave has another log than this one, and none of its acks may count. (RocketMQ does
not check; there any eight bytes that make a large number let its sends pass.)

Example: two slaves, one needed; they have said 1000 and 400: replicated = 1000.

Reactor only.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.flow.replication.ha_service cimport HAConnection, HAService
from cext.net.connection cimport Connection
from cext.net.openssl cimport SSL

# Takes a connected socket, over TLS with `ssl`, which belongs to the reactor from now on, to serve
# a slave by it. NULL: there is no room for a connection; the socket is closed then. `broker_id`:
# the slave's, from its handshake; an older connection of the same slave is closed. 0: the stream
# has no handshake.
cdef Connection* adopt_slave(HAService s, int fd, SSL* ssl, int64_t broker_id) noexcept nogil
# The protocol's callbacks.
cdef int64_t take_reports(HAService s, Connection* c, const uint8_t* bytes, uint64_t available,
                          uint64_t* needed) noexcept nogil
cdef void slave_closed(HAService s, Connection* c) noexcept nogil
