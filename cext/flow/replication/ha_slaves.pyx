"""HA slaves. See ha_slaves.pxd."""
from libc.stdint cimport int32_t
from libc.stdio cimport snprintf
from libc.string cimport memset

from cext.flow.context.small_replies cimport log_event
from cext.flow.replication.ha_service cimport SLAVES_MAX, UNKNOWN
from cext.net.socket_api cimport close, getpeername, sockaddr, sockaddr_storage, socklen_t
from cext.wire.ha_stream cimport HA_REPORT_BYTES, ha_report


cdef Connection* adopt_slave(HAService s, int fd) noexcept nogil:
    cdef sockaddr_storage peer
    cdef socklen_t length = sizeof(peer)
    memset(&peer, 0, sizeof(peer))
    if s.turn.net.is_full() or getpeername(fd, <sockaddr*> &peer, &length) != 0:
        close(fd)
        return NULL
    return s.turn.net.add_connection(fd, &peer, &s.slave_protocol, NULL)


cdef HASlave* slave_of(HAService s, Connection* c) noexcept nogil:
    """Its place; a new one for who says something for the first time. NULL: none is free."""
    cdef HASlave* free_place = NULL
    cdef int32_t i
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == c:
            return &s.slaves[i]
        if s.slaves[i].connection == NULL and s.slaves[i].fetch == NULL and free_place == NULL:
            free_place = &s.slaves[i]
    if free_place == NULL:
        log_event(s.turn, c, b"closed: this master has as many slaves as it may have")
        return NULL
    memset(free_place, 0, sizeof(HASlave))
    free_place.connection = c
    s.slave_count += 1
    free_place.next_offset = free_place.acked = UNKNOWN
    free_place.heard_ms = free_place.sent_ms = free_place.caught_up_ms = s.turn.now_ms
    c.frames_in = 1                         # it asked for something: not the first to be displaced
    return free_place


cdef bint take_report(HAService s, HASlave* slave, int64_t offset) noexcept nogil:
    """False: it is not of our log; the connection is to be closed."""
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
    """The last one says all that those before it did."""
    cdef uint64_t whole = available - available % HA_REPORT_BYTES
    cdef HASlave* slave
    needed[0] = HA_REPORT_BYTES
    if whole == 0:
        return 0
    slave = slave_of(s, c)
    if slave == NULL or not take_report(s, slave, ha_report(bytes + whole - HA_REPORT_BYTES)):
        return -1
    move_replicated(s)
    return whole


cdef void slave_closed(HAService s, Connection* c) noexcept nogil:
    cdef int32_t i
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == c:
            s.slave_count -= 1
            s.slaves[i].connection = NULL   # its fetch is given back when it is done
            if s.slaves[i].fetch != NULL and not s.slaves[i].fetch.under_way:
                s.fetch.pool.release(s.slaves[i].fetch)
                s.slaves[i].fetch = NULL
    move_replicated(s)


cdef void move_replicated(HAService s) noexcept nogil:
    """As far as the slaves_needed-th of them, counted from the one that has most."""
    cdef int64_t most[SLAVES_MAX]
    cdef int64_t acked
    cdef int32_t count = 0
    cdef int32_t i, at
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == NULL or s.slaves[i].acked == UNKNOWN:
            continue
        acked = s.slaves[i].acked
        at = count
        while at > 0 and most[at - 1] < acked:
            most[at] = most[at - 1]
            at -= 1
        most[at] = acked
        count += 1
    s.turn.slaves_missing = count < s.slaves_needed
    if s.slaves_needed > 0 and not s.turn.slaves_missing:
        s.append.log.marks.replicated = max(s.append.log.marks.replicated,
                                            most[s.slaves_needed - 1])
