"""Message send: from the frame in the receive buffer to the record in the log's write buffer.

    header fields -> topic, queue, sizes checked -> record written once, in place, at the log's end
    -> a dispatch entry (written to its consume queue at the end of the turn)
    -> a pending ack (answered when the log has reached its mark: promise.pxd)

Nothing is copied twice: the body goes from the receive buffer into the log's tail, the properties
are unescaped from JSON straight into their place in the record.
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.send.send_service cimport SendService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome produce(SendService s, Connection* c, const Header* h, const Frame* f,
                     bint resubmitted) noexcept nogil
