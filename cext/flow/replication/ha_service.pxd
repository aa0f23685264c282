"""HA service: this core's part in replication, as master of its slaves and as slave of its master.

The control thread opens sockets and says what counts; the bytes do not pass through it. It accepts
slaves on the HA port, after checking who they are, and connects to the master; it gives both kinds
of socket to the reactor (ha_connections.pxd, ha_client.pxd), where each is a connection like any
other in the same epoll.

Under a controller (ha_sync_state_set.pxd, ha_lease.pxd) it also says whose acks count, and for how
long.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.fetch.disk_fetch cimport DiskFetch
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.replication.ha_epochs cimport HAEpochs
from cext.net.connection cimport Connection, Protocol
from cext.net.tls cimport OfferedTls, TlsServer
from cext.wire.limits cimport SLAVES_MAX

cdef enum:
    UNKNOWN = -1                # an offset that has not been reported yet

cdef struct HAConnection:
    Connection* connection      # borrowed; NULL: this place is free
    int64_t next_offset         # of the log, the first byte not sent; or UNKNOWN
    int64_t acked               # where its log ends, by its last report; or UNKNOWN
    int64_t broker_id           # from its handshake; 0: there was none
    int64_t confirmed           # it was told that all up to here is confirmed
    int64_t heard_ms            # monotonic, as the next two: its last message
    int64_t sent_ms             # the last time something was sent to it
    int64_t caught_up_ms        # the last time it had all that was written
    DiskFetch* fetch            # owned: reads older bytes from the disk; or NULL

cdef struct HAClient:           # the stream that this core's log comes from
    Connection* connection      # borrowed; NULL: there is no stream
    int64_t stream_offset       # where the next byte of the stream belongs; or UNKNOWN
    int32_t body_left           # bytes of the present frame still to come
    int64_t least_report        # 0 or 1: a smaller end of this log is reported as this
    int64_t reported            # the end of this log as last reported
    int64_t reported_ms
    int64_t heard_ms
    int64_t confirmed           # of the master's log; nothing below it is ever cut
    # Owned; `partial` and `stash` are one block, made when it first follows. `partial` is the
    # beginning of a record whose rest has not come.
    uint8_t* partial
    uint32_t partial_bytes
    uint8_t* stash              # what was received while the log had no room for it
    uint32_t stash_bytes
    uint32_t stash_first
    int32_t failure             # HAFailure, why the last stream ended
    int64_t failure_offset      # of the log

cdef enum HAFailure:
    HA_NO_FAILURE = 0
    HA_CLOSED = 1               # the master or the network closed it
    HA_MALFORMED = 2            # an impossible frame header
    HA_ELSEWHERE = 3            # the master sends from another offset than this log's end
    HA_CORRUPT = 4              # its bytes are no record for that place
    HA_NO_ROOM = 5              # the disk is full
    HA_POISONED = 6
    HA_TOO_LARGE = 7            # a record of more bytes than this log takes
    HA_NEW_EPOCH = 8            # what comes is of an epoch that is not in the table yet

cdef class HAService(Service):
    cdef TurnContext turn
    cdef Appender append
    cdef FetchService fetch
    cdef Protocol slave_protocol    # of connections of slaves
    cdef Protocol master_protocol   # of the one to the master
    cdef HAConnection slaves[SLAVES_MAX]
    cdef int32_t slave_count        # how many of them are connected
    cdef HAClient master
    cdef TlsServer tls              # shared by connections over TLS
    cdef OfferedTls offered
    cdef int32_t slaves_needed      # how many acks an answer waits for; 0: none
    cdef bint by_sync_state_set     # an answer waits for all of `members`, not for a number
    cdef int64_t members[SLAVES_MAX]    # broker ids of the sync state set without this broker
    cdef int32_t member_count
    cdef bint auto_switch           # streams are those of a controlled broker (ha_stream.pxd)
    cdef HAEpochs epochs
    cdef int64_t send_bytes         # of the log, to each slave in one turn
    cdef int64_t heartbeat_ms       # haSendHeartbeatInterval
    cdef int64_t silence_ms         # haHousekeepingInterval
    cdef bint ack_durable           # as slave: reports what is durable, not what is written
    cdef uint64_t bytes_sent        # of the log
    cdef uint64_t bytes_taken
    cdef uint64_t reads             # of history from the disk
