"""HA connections: as master, who follows, and how far each is.

A slave's report is its ack: it has the log up to there. Whose acks move `marks.replicated` is
said in ha_sync_state_set.pxd; what waits for that is answered at the end of the same turn
(append/acknowledgement.pxd). While fewer are connected than are needed, slaves_missing() says
so of the role, and who waits is answered SLAVE_NOT_AVAILABLE at once: stored, and not replicated.

A master has SLAVES_MAX (16) slaves at most. The connection of one more is closed when it has said
who it is, or reports for the first time; the log says so, and the slave tries again.

A report beyond this log's end, below the one before or below its start closes the connection: who
says so has another log than ours, and none of its acks may count. (RocketMQ does not look; any
eight large bytes let its sends pass.)

Example: two slaves, one needed; they have said 1000 and 400: replicated = 1000.

Reactor only.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.flow.replication.ha_service cimport HAConnection, HAService
from cext.net.connection cimport Connection
from cext.net.openssl cimport SSL

# A connected socket, with `ssl` by TLS, from now on the reactor's: a slave is served by it. NULL:
# there is no room for a connection; it is closed. `broker_id`: who it is, as its handshake said,
# and another connection of the same one is closed; 0: the stream has no handshake.
cdef Connection* adopt_slave(HAService s, int fd, SSL* ssl, int64_t broker_id) noexcept nogil
# The protocol's callbacks.
cdef int64_t take_reports(HAService s, Connection* c, const uint8_t* bytes, uint64_t available,
                          uint64_t* needed) noexcept nogil
cdef void slave_closed(HAService s, Connection* c) noexcept nogil
