"""Pop merge: acks of single messages, gathered for a turn: those of a check point are one record.

    ack     into the place of its check point; if another check point has that place, its acks go
            to the log
    merge   at the end of what the turn received: one ack or bAck for each place in use; requests
            are answered when the record is safe (promise.pxd)

Example: 32 acks of one pop arrive in a turn: one record of about 400 bytes, 32 replies.

Reactor only.
"""
from cext.flow.append.ack_queue cimport AckReply
from cext.flow.context.step cimport Step
from cext.flow.pop.pop_service cimport PopService
from cext.wire.revive_entry cimport ReviveEntry

# `e` has names, start_offset, pop_ms, invisible_ms, queue_id, revive_queue and ack_offset. OK, or
# RING_FULL: another check point has the place, and this turn has no room for its record.
cdef int merge_ack(PopService s, const ReviveEntry* e, const AckReply* r) noexcept nogil
# After all of the turn's requests and before its write. Acks that find no room in the log go on
# being gathered in the next turn.
cdef Step merge_step(PopService s) noexcept

# Tells the client why the log took no check point or ack.
cdef void refuse_record(PopService s, const AckReply* r, int status) noexcept nogil
