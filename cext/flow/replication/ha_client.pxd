"""HA client: as slave, the stream from the master becomes this core's log.

    bytes come        whole records go into the log's write buffer at once (raw_append.pxd checks
                      each); the beginning of a record waits in `partial` for its rest
    the turn writes   and dispatches them, like records that a master appends
    then              the master is told how far this log is: what is written, or what is durable

Under a controller, consumers see only what the master says is confirmed. Bytes of an epoch that the
control thread has not written down yet end the stream (HA_NEW_EPOCH): the control thread writes the
epoch down and connects again.

When the log has no room for bytes (its next segment is being made), they wait in `stash`, and the
socket is not read meanwhile. When the stream does not fit this log, the connection is closed, and
`failure` tells the control thread why, which opens another connection, cuts the log, or gives up.

Example: log end 1000. A frame (1000, 300) brings a record of 250 bytes and 50 of the next: the log
ends at 1250, 50 bytes wait. (1300, 80) completes that one at 1380. The master is told 1250, 1380.

Reactor only.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.flow.context.step cimport Step
from cext.flow.replication.ha_service cimport HAService
from cext.net.connection cimport Connection
from cext.net.openssl cimport SSL

# The protocol's callbacks.
cdef int64_t take_log(HAService s, Connection* c, const uint8_t* bytes, uint64_t available,
                      uint64_t* needed) noexcept nogil
cdef void master_closed(HAService s, Connection* c) noexcept nogil
# Takes a connected socket, over TLS with `ssl`, which belongs to the reactor from now on: the log
# comes by it. NULL: there is no memory, or this core is no slave; the socket is closed then.
# `whole`: an empty log must get all of the master's, from offset 0 on.
# RocketMQ's masters begin with their last file for a slave that reports 0, and at offset 1 for one
# that reports 1; the byte at 0 is known: the first of a record's size, which is below 16 MiB.
cdef Connection* follow_master(HAService s, int fd, SSL* ssl, bint whole) noexcept nogil
cdef void leave_master(HAService s) noexcept nogil
# Tries again to append what waits for room. Before the turn's write.
cdef Step take_log_step(HAService s) noexcept
# Reports the log's end to the master. After the turn's write and sync.
cdef Step report_step(HAService s) noexcept
