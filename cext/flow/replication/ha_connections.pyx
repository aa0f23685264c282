"""HA connections. See ha_connections.pxd."""
from libc.stdint cimport int32_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memset

from cext.flow.context.small_replies cimport log_event
from cext.flow.replication.ha_service cimport UNKNOWN
from cext.flow.replication.ha_socket cimport add_replica, close_replica
from cext.flow.replication.ha_sync_state_set cimport move_replicated
from cext.net.socket_api cimport getpeername, sockaddr, sockaddr_storage, socklen_t
from cext.wire.ha_stream cimport HA_HANDSHAKE_BYTES, ha_report, ha_report_bytes, is_ha_handshake
from cext.wire.limits cimport SLAVES_MAX


cdef Connection* adopt_slave(HAService s, int fd, SSL* ssl, int64_t broker_id) noexcept nogil:
    cdef Connection* c
    cdef sockaddr_storage peer
    cdef socklen_t length = sizeof(peer)
    memset(&peer, 0, sizeof(peer))
    if s.turn.net.is_full() or getpeername(fd, <sockaddr*> &peer, &length) != 0:
        close_replica(fd, ssl)
        return NULL
    c = add_replica(s, fd, ssl, &peer, &s.slave_protocol)
    if c == NULL or broker_id == 0:
        return c
    close_older(s, broker_id)
    if not take_place(s, c, broker_id):
        s.turn.net.close_connection(c)
        return NULL
    return c


cdef void close_older(HAService s, int64_t broker_id) noexcept nogil:
    cdef int32_t i
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection != NULL and s.slaves[i].broker_id == broker_id:
            log_event(s.turn, s.slaves[i].connection, b"closed: this slave has connected anew")
            s.turn.net.close_connection(s.slaves[i].connection)


cdef HAConnection* take_place(HAService s, Connection* c, int64_t broker_id) noexcept nogil:
    """NULL: none is free."""
    cdef HAConnection* place
    cdef int32_t i
    for i in range(SLAVES_MAX):
        place = &s.slaves[i]
        if place.connection == NULL and place.fetch == NULL:
            memset(place, 0, sizeof(HAConnection))
            place.connection = c
            place.broker_id = broker_id
            place.next_offset = place.acked = UNKNOWN
            place.heard_ms = place.sent_ms = place.caught_up_ms = s.turn.now_ms
            s.slave_count += 1
            c.frames_in = 1             # counts as having asked for something: not displaced first
            return place
    log_event(s.turn, c, b"closed: this master has as many slaves as it may have")
    return NULL


cdef HAConnection* slave_of(HAService s, Connection* c) noexcept nogil:
    """The slave's place; a new one when it reports for the first time. NULL: no place is free, or
    it has not made the handshake that slaves of a controlled broker make."""
    cdef int32_t i
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == c:
            return &s.slaves[i]
    return take_place(s, c, 0) if not s.auto_switch else NULL


cdef bint take_report(HAService s, HAConnection* slave, int64_t offset) noexcept nogil:
    """False: the report does not fit this log; the connection must be closed."""
    cdef int64_t end = s.append.log.marks.appended
    cdef int64_t low = s.append.log.min_offset()
    cdef char line[192]
    if offset > end:
        snprintf(line, sizeof(line), b"closed: this slave's log ends at %lld, beyond the master's "
                 b"end at %lld: it has what is lost here. Make it the master", <long long> offset,
                 <long long> end)
        log_event(s.turn, slave.connection, line)
        return False
    if offset < 0 or (offset != 0 and offset < low):
        snprintf(line, sizeof(line), b"closed: this slave's log ends at %lld, and the master's is "
                 b"from %lld to %lld; remove the slave's store, or cut its log",
                 <long long> offset, <long long> low, <long long> end)
        log_event(s.turn, slave.connection, line)
        return False
    if offset < slave.acked:
        log_event(s.turn, slave.connection, b"closed: this slave has less than it said before")
        return False
    if slave.next_offset == UNKNOWN:
        slave.next_offset = offset if offset != 0 else low
    slave.acked = offset
    slave.heard_ms = s.turn.now_ms
    if offset >= s.append.log.marks.written:
        slave.caught_up_ms = s.turn.now_ms
    return True


cdef int64_t take_reports(HAService s, Connection* c, const uint8_t* bytes, uint64_t available,
                          uint64_t* needed) noexcept nogil:
    """Only the last report is looked at: it includes all before it."""
    cdef uint32_t report_bytes = ha_report_bytes(s.auto_switch)
    cdef uint64_t whole
    cdef HAConnection* slave
    needed[0] = report_bytes
    if s.auto_switch and available >= report_bytes and is_ha_handshake(bytes):
        needed[0] = HA_HANDSHAKE_BYTES
        return HA_HANDSHAKE_BYTES if available >= HA_HANDSHAKE_BYTES else 0
    whole = available - available % report_bytes
    if whole == 0:
        return 0
    slave = slave_of(s, c)
    if slave == NULL or not take_report(s, slave, ha_report(bytes + whole - report_bytes,
                                                            s.auto_switch)):
        return -1
    move_replicated(s)
    return whole


cdef void slave_closed(HAService s, Connection* c) noexcept nogil:
    cdef int32_t i
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == c:
            s.slave_count -= 1
            s.slaves[i].connection = NULL   # its fetch is given back when the read is over
            if s.slaves[i].fetch != NULL and not s.slaves[i].fetch.in_flight:
                s.fetch.pool.release(s.slaves[i].fetch)
                s.slaves[i].fetch = NULL
    move_replicated(s)
