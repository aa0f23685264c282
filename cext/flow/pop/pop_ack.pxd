"""Pop ack: what becomes of messages that were popped.

    200051 ack               with the turn's others of its check point into the revive log
                             (pop_merge.pxd)
    200151 batch ack         one record for all acks of a check point; refused as a whole when one
                             in order is, but all others count
    200053 change invisible  a new check point of the one message, and an ack of the old one
    popped in order          no records: the queue's block (pop_order.pxd) and the offset

Acks and changes are answered when their records are safe (promise.pxd): what was acknowledged does
not come again, and what was changed comes at its new time. Those in order are in memory alone and
answered at once.

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
