"""Transaction end (37): a half message goes to its topic, or is forgotten.

    commit (8)      the half record is looked up, checked and appended to REAL_TOPIC, REAL_QID: its
                    properties as they are, prepared offset = where the half record is; an op entry
    rollback (12)   an op entry only
    else            nothing, not even an answer: the transaction stays open until a check back

An op entry is the half's queue offset as decimal text and a comma. A turn's entries are one message
of RMQ_SYS_TRANS_OP_HALF_TOPIC with the tag "d", as Apache RocketMQ 5 writes it, and go to the file
in one write with the committed messages: so after a kill a committed half is not open again. A
second end of the same transaction has no effect.

A commit of a transaction that was given up after too many checks still counts: control stores the
half message anew, notes the move, and gives the frame back with its new place. The same is done for
an end whose half message is ended as far as is known here, but was perhaps stored anew before this
process began or became master (OpenHalves.doubted_below): control looks for it among the open ones,
and gives the frame back with the place it found.

A half record that is not in memory is fetched first (parked_requests.pxd). When the topic does not
exist, the frame goes to control, which makes the topic and gives the frame back. A half message
that was stored anew for a check back is also found by its old place (open_halves.pxd).

A two-way request is answered when the end and its op entry are safe (promise.pxd), also when the
transaction was ended before. A rollback that the log does not take is refused and leaves the
transaction open. Producers end transactions one-way and see no refusal: so an end that the log
cannot take at the moment is tried again (postponed_requests.pxd). While the broker takes no writes
(full disk, lease, slave: is_writable of role.pxd) a one-way end is dropped, and a check back asks
again afterwards.
"""
from libc.stdint cimport int64_t

from cext.flow.context.outcome cimport Outcome
from cext.flow.context.step cimport Step
from cext.flow.transaction.open_halves cimport HalfMove
from cext.flow.transaction.transaction_service cimport TransactionService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_transaction_end(TransactionService s, Connection* c, const Header* h,
                                    const Frame* f, bint resubmitted) noexcept nogil
# Makes op messages of the turn's op entries. OK, or why some stay for the next turn.
cdef int write_ops(TransactionService s) noexcept nogil
# The same as a step, before the turn's write.
cdef Step ops_step(TransactionService s) noexcept
# Ends a half message without a request, because control stored it elsewhere; adds an op entry. OK,
# or NOT_READY when too many entries wait for the log.
cdef int end_half(TransactionService s, int64_t offset) noexcept nogil
# Notes that an open half message was stored anew: a late end of it counts for the new one.
cdef void move_half(TransactionService s, const HalfMove* move) noexcept nogil
