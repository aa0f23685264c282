"""HA protocols. See ha_protocols.pxd."""
from libc.stdint cimport uint8_t, uint64_t

from cext.flow.replication.ha_client cimport master_closed, take_log
from cext.flow.replication.ha_connections cimport slave_closed, take_reports
from cext.net.connection cimport (
    Connection,
    OnBytes,
    OnClosed,
    OnDrained,
    OnRefused,
    Protocol,
)


cdef int refuse(HAService s, Connection* c, const uint8_t* bytes, uint64_t available,
                uint64_t needed) noexcept nogil:
    return -1                               # nothing of these protocols needs a large buffer


cdef void drained(HAService s, Connection* c) noexcept nogil:
    pass                                    # the next turn goes on sending


cdef Protocol protocol(HAService s, OnBytes on_bytes, OnClosed on_closed) noexcept nogil:
    cdef Protocol p
    p.owner = <void*> s
    p.on_bytes = on_bytes
    p.on_refused = <OnRefused> refuse
    p.on_closed = on_closed
    p.on_drained = <OnDrained> drained
    p.block_bytes = 0
    return p


cdef void join_protocols(HAService s) noexcept:
    s.slave_protocol = protocol(s, <OnBytes> take_reports, <OnClosed> slave_closed)
    s.master_protocol = protocol(s, <OnBytes> take_log, <OnClosed> master_closed)
