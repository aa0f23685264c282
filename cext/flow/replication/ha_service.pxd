"""HA service: this core's part in replication, as master of its slaves and as slave of its master.

The control thread opens sockets and says what counts; bytes go without it. It accepts slaves on the
HA port, once it has looked who they are, connects to the master, and gives the reactor both
(ha_connections.pxd, ha_client.pxd). Each is a connection like any other in the same epoll.

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
    UNKNOWN = -1                # an offset that nobody has told yet

cdef struct HAConnection:
    Connection* connection      # borrowed; NULL: this place is free
    int64_t next_offset         # of the log, the first byte that was not sent; or UNKNOWN
    int64_t acked               # its log ends there, as it said last; or UNKNOWN
    int64_t broker_id           # as it said in its handshake; 0: it gave none
    int64_t confirmed           # the offset up to which it was told that all is confirmed
    int64_t heard_ms            # monotonic, as the next two: when it said something last
    int64_t sent_ms             # and when it was sent something
    int64_t caught_up_ms        # and when it had all that was written
    DiskFetch* fetch            # owned: history on its way from the disk; or NULL

cdef struct HAClient:           # the stream that this core's log comes by
    Connection* connection      # borrowed; NULL: there is none
    int64_t stream_offset       # where the next byte of the stream belongs; or UNKNOWN
    int32_t body_left           # bytes of the present frame that are to come
    int64_t least_report        # 0 or 1: an end of this log below it is reported as it
    int64_t reported            # the end of this log as it was told last
    int64_t reported_ms
    int64_t heard_ms
    int64_t confirmed           # of the master's log; nothing below it is ever cut
    # Owned, once it follows, with the other one behind it: the beginning of a record, until its
    # rest has come.
    uint8_t* partial
    uint32_t partial_bytes
    uint8_t* stash              # what was received and has no room in the log yet
    uint32_t stash_bytes
    uint32_t stash_first
    int32_t failure             # HAFailure that ended the last stream
    int64_t failure_offset      # of the log

cdef enum HAFailure:
    HA_NO_FAILURE = 0
    HA_CLOSED = 1               # the master or the network closed it
    HA_MALFORMED = 2            # a head that cannot be
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
    cdef int32_t slave_count        # of them, connected
    cdef HAClient master
    cdef TlsServer tls              # what connections by TLS share
    cdef OfferedTls offered
    cdef int32_t slaves_needed      # whose ack an answer waits for; 0: none
    cdef bint by_sync_state_set     # an answer waits for all of `members`, and not for a number
    cdef int64_t members[SLAVES_MAX]    # broker ids of the sync state set but for our own
    cdef int32_t member_count
    cdef bint auto_switch           # streams are those of a controlled broker (ha_stream.pxd)
    cdef HAEpochs epochs
    cdef int64_t send_bytes         # of the log, to each slave in one turn
    cdef int64_t heartbeat_ms       # haSendHeartbeatInterval
    cdef int64_t silence_ms         # haHousekeepingInterval
    cdef bint ack_durable           # as slave: says what is durable, not what is written
    cdef uint64_t bytes_sent        # of the log
    cdef uint64_t bytes_taken
    cdef uint64_t reads             # of history from the disk
