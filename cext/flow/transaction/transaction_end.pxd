"""Transaction end (37): a half message goes to its topic, or is forgotten.

    commit (8)      the half record is looked up, checked and appended to REAL_TOPIC, REAL_QID: its
                    properties as they are, prepared offset = where the half record is; an op entry
    rollback (12)   an op entry only
    else            nothing, not even an answer: the transaction stays open until a check back

An op entry is the half's queue offset as decimal text and a comma; a turn's entries are one message
of RMQ_SYS_TRANS_OP_HALF_TOPIC with the tag "d", as Apache RocketMQ 5 writes it, and go to the file
with the committed messages in one write: after a kill a committed half is not open again. What was
ended before has no second effect.

A commit of what was given up after too many checks still counts: control stores the half message
anew, notes the move, and gives the frame back with its new place. So does an end of what is ended
as far as is known here, and was perhaps stored anew before this process began or led
(OpenHalves.doubted_below): control looks for it among those that are open, and gives the frame back
with the place found.

A half record that is not in memory is fetched first (parked_requests.pxd). A topic that is not
there: the frame goes to control, which makes it and gives the frame back. A half message that was
stored anew for a check back is found by its old place too (open_halves.pxd).

Who asks two-way is answered when the end and its op entry are safe (promise.pxd), also of what was
ended before; a rollback that the log does not take is refused and leaves the transaction open.
Producers end transactions one-way and hear no refusal: an end that the log cannot take at the
moment is tried again (postponed_requests.pxd). While the broker takes no writes (full disk, lease,
slave: TurnContext.writable) a one-way end is dropped, and a check back asks again afterwards.
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
# The turn's ops become op messages. OK, or why some stay for the next turn.
cdef int write_ops(TransactionService s) noexcept nogil
# Before the turn's write.
cdef Step ops_step(TransactionService s) noexcept
# The half is ended without a request: control stored it elsewhere. An op entry says so. OK, or
# NOT_READY when too many entries wait for the log.
cdef int end_half(TransactionService s, int64_t offset) noexcept nogil
# An open one was stored anew as another half message: a late end of it counts for that one.
cdef void move_half(TransactionService s, const HalfMove* move) noexcept nogil
