"""Pop ack: what consumers say of the messages that they popped.

    200051 ack               into the revive log, in one record with the turn's other acks of its
                             check point (pop_merge.pxd)
    200151 batch ack         one record for all acks of a check point; when an ack of messages
                             popped in order is refused, so is the request, but all others count
    200053 change invisible  a new check point of the one message, and an ack of the old one
    popped in order          no records: the queue's block (pop_order.pxd) and the offset change

Acks and changes are answered when their records are safe (promise.pxd): an acknowledged message
does not come again, and a changed one comes at its new time. Those of messages popped in order are
only in memory, and are answered at once.

Example: extraInfo "100 1700000000000 60000 3 0 b 1 102" with offset 102: the ack is due at
1700000060000 in queue 3 of the revive log.
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.pop.pop_service cimport PopService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_ack(PopService s, Connection* c, const Header* h, const Frame* f,
                        bint resubmitted) noexcept nogil
cdef Outcome accept_batch_ack(PopService s, Connection* c, const Header* h, const Frame* f,
                              bint resubmitted) noexcept nogil
cdef Outcome accept_change(PopService s, Connection* c, const Header* h, const Frame* f,
                           bint resubmitted) noexcept nogil
