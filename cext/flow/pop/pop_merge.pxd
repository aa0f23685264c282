"""Acks of single messages, gathered for a turn: those of one check point are one record.

    ack     into the place of its check point; whoever is there for another one goes to the log
    merge   at the end of what the turn received: one ack or bAck for each place that is taken;
            requests are answered when the record is written, with SYNC_FLUSH when it is synced

Example: 32 acks of one pop arrive in a turn: one record of about 400 bytes, 32 replies.

Reactor only.
"""
from cext.flow.pop.pop_table cimport AckReply
from cext.flow.shard_state cimport ShardState
from cext.net.connection cimport Connection
from cext.wire.check_point cimport ReviveEntry
from cext.wire.header cimport Header

# Who is to be told; a request that wants no reply is known by its connection of NULL.
cdef void reply_to(AckReply* r, Connection* c, const Header* h) noexcept nogil
# `e` has names, start_offset, pop_ms, invisible_ms, queue_id, revive_queue and ack_offset.
cdef void merge_ack(ShardState s, const ReviveEntry* e, const AckReply* r) noexcept nogil
# After all of the turn's requests and before its write.
cdef void merge_turn(ShardState s) noexcept nogil

# There is room for one more reply that waits.
cdef bint make_place(ShardState s) noexcept nogil
# Answered when all that is in the log by now is as safe as flushDiskType says.
cdef void answer_safe(ShardState s, const AckReply* r) noexcept nogil
# Why the log took no check point or ack.
cdef void refuse_record(ShardState s, const AckReply* r, int status) noexcept nogil
